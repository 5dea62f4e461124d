import os
import subprocess
import sys

import pytest

from loopai_trainer.errors import HostUnfit
from loopai_trainer.host import locks


def test_one_holder_at_a_time(tmp_path):
    path = str(tmp_path / "run.lock")
    assert not locks.held(path)
    fd = locks.try_exclusive(path)
    assert fd is not None
    assert locks.held(path)
    assert locks.owns(fd)
    assert locks.try_exclusive(path, tries=2, pause_s=0.0) is None
    os.close(fd)
    assert not locks.held(path)
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_the_descriptor_is_not_inheritable(tmp_path):
    fd = locks.try_exclusive(str(tmp_path / "run.lock"))
    assert fd is not None
    assert fd > 2
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_a_reader_does_not_need_to_write(tmp_path):
    path = tmp_path / "run.lock"
    path.touch()
    path.chmod(0o400)
    assert not locks.held(str(path))


def test_a_readers_look_does_not_keep_the_lock_away(tmp_path):
    path = str(tmp_path / "run.lock")
    import fcntl

    open(path, "w").close()
    looking = os.open(path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert locks.held(path) is False  # shared: nobody owns it
    assert locks.try_exclusive(path, tries=1) is None
    os.close(looking)
    fd = locks.try_exclusive(path, tries=1)
    assert fd is not None
    os.close(fd)


def test_an_inherited_lock_outlives_the_one_who_took_it(tmp_path):
    path = str(tmp_path / "run.lock")
    fd = locks.try_exclusive(path)
    assert fd is not None
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(fd,))
    os.close(fd)
    assert locks.held(path)
    child.communicate(b"\n")
    assert not locks.held(path)


def test_owns_is_false_for_a_closed_or_foreign_descriptor(tmp_path):
    path = str(tmp_path / "run.lock")
    fd = locks.try_exclusive(path)
    assert fd is not None
    other = os.open(path, os.O_RDWR)
    assert not locks.owns(other)
    os.close(other)
    os.close(fd)
    assert not locks.owns(fd)


def test_the_holder_is_named_for_people(tmp_path):
    path = tmp_path / "run.lock"
    fd = locks.try_exclusive(str(path))
    assert fd is not None
    locks.name_holder(fd, "worker 12345678")
    locks.name_holder(fd, "worker 1")
    os.close(fd)
    assert path.read_text() == "worker 1\n"


def test_descriptors_are_moved_above_the_standard_ones(tmp_path, monkeypatch):
    low = os.open(os.devnull, os.O_RDONLY)
    assert locks.above_standard(low) == low
    code = (
        "import os; os.close(0); from loopai_trainer.host import locks;"
        f"fd = locks.try_exclusive({str(tmp_path / 'a.lock')!r});"
        "assert fd > 2 and locks.owns(fd)"
    )
    os.close(low)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_error_other_than_held_is_raised(tmp_path, monkeypatch):
    def refuse(fd, operation):
        raise OSError(5, "broken file system")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(OSError, match="broken"):
        locks.try_exclusive(str(tmp_path / "run.lock"))


@pytest.mark.parametrize("number", [37, 95])  # ENOLCK, EOPNOTSUPP
def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch, number):
    def refuse(fd, operation):
        raise OSError(number, "no locks here")

    path = tmp_path / "run.lock"
    path.touch()
    monkeypatch.setattr("fcntl.flock", refuse)
    for look in (locks.try_exclusive, locks.held):
        with pytest.raises(HostUnfit) as refused:
            look(str(path))
        assert refused.value.code == "LOCKS_UNRELIABLE"
        assert str(tmp_path) in refused.value.message
