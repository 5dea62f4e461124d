import fcntl
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from loopai_trainer.errors import Busy
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import locks
from loopai_trainer.records import Command, Launch
from loopai_trainer.worker import launching

MAIN = Command(("/bin/true", "a b"), "/tmp", {"TOKEN": "secret", "LANG": "C"})


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "v1"
    path.mkdir()
    return RunDir(str(path))


def test_a_long_tmp_goes_outside_and_is_private(tmp_path, monkeypatch):
    run = RunDir(str(tmp_path / ("x" * 60) / "v1"))
    monkeypatch.setenv("TMPDIR", "/tmp")
    path = launching.make_folders(run)
    try:
        assert path.startswith("/tmp/loopai-")
        assert os.stat(path).st_mode & 0o777 == 0o700
        assert launching.own_tmp(path)
        assert launching.make_folders(run) == path  # a worker that follows a dead one uses it again
    finally:
        os.rmdir(path)


def test_a_name_that_somebody_else_has_taken_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/tmp")
    run = RunDir(str(tmp_path / ("x" * 60) / "v1"))
    taken = launching.make_folders(run)
    monkeypatch.setattr(launching, "own_tmp", lambda path: False)
    other = launching.make_folders(run)
    os.rmdir(taken)
    os.rmdir(other)
    assert other.startswith(taken + "-")


@pytest.mark.parametrize("tmpdir", ["/tmp/" + "y" * 80, "/does/not/exist"])
def test_a_tmpdir_that_is_no_use_is_not_used(tmp_path, monkeypatch, tmpdir):
    monkeypatch.setenv("TMPDIR", tmpdir)
    path = launching.make_folders(RunDir(str(tmp_path / ("x" * 60) / "v1")))
    os.rmdir(path)
    assert os.path.dirname(path) == "/tmp"


RAY_APPENDS = "/ray/session_2026-01-02_03-04-05_123456_4194304/sockets/plasma_store"


@pytest.mark.parametrize("length", [1, 10, 20, 30, 60])
def test_rays_sockets_fit_below_every_tmp(monkeypatch, length):
    base = tempfile.mkdtemp(dir="/tmp", prefix="t" * length)
    monkeypatch.setenv("TMPDIR", base)
    try:
        path = launching.make_folders(RunDir(os.path.join(base, "v1")))
        assert len(path + RAY_APPENDS) <= 107, path
    finally:
        shutil.rmtree(base)
        shutil.rmtree(path, ignore_errors=True)


def test_a_short_tmp_stays_inside():
    base = tempfile.mkdtemp(dir="/tmp", prefix="t")
    try:
        run = RunDir(os.path.join(base, "v"))
        assert launching.make_folders(run) == run.tmp
        assert os.stat(run.tmp).st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(base)


def test_only_folders_of_our_making_are_ours(tmp_path):
    folder = tmp_path / "loopai-1"
    link = tmp_path / "loopai-2"
    link.symlink_to(tmp_path)
    (tmp_path / "loopai-3").touch()
    folder.mkdir()
    assert launching.own_tmp(str(folder))
    for path in (link, tmp_path / "loopai-3", tmp_path / "loopai-4", tmp_path, ""):
        assert not launching.own_tmp(str(path))


def test_training_lock_is_taken_once(run, monkeypatch):
    monkeypatch.setattr(launching, "_LOCK_TRIES", 3)
    fd = launching.take_training_lock(run)
    with pytest.raises(Busy) as refused:
        launching.take_training_lock(run)
    assert refused.value.code == "LOCKED"
    os.close(fd)


def test_a_looker_that_is_put_off_the_cpu_hinders_no_start(run, monkeypatch):
    looker = os.open(run.training_lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(looker, fcntl.LOCK_SH)
    waited = []

    def sleep(pause_s):
        waited.append(pause_s)
        if sum(waited) > 2.0:
            fcntl.flock(looker, fcntl.LOCK_UN)

    monkeypatch.setattr(locks.time, "sleep", sleep)
    os.close(launching.take_training_lock(run))
    os.close(looker)


def test_a_version_that_was_started_is_never_started_again(run):
    os.mkdir(run.launch)
    Path(run.launch_started).touch()
    with pytest.raises(Busy) as refused:
        launching.take_training_lock(run)
    assert refused.value.code == "VERSION_IN_USE"
    assert not locks.held(run.training_lock)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", "", ".", ".."])
def test_a_launch_file_stays_in_its_folder(run, name):
    os.mkdir(run.launch)
    with pytest.raises(ValueError, match="plain name"):
        launching.write_launch_files(run, Launch(MAIN, {name: "text"}))


def test_launch_files_are_written(run):
    os.mkdir(run.launch)
    launching.write_launch_files(run, Launch(MAIN, {"a.yaml": "text"}))
    assert Path(run.launch, "a.yaml").read_text() == "text"


def test_the_request_is_noted_without_tokens(run):
    os.mkdir(run.launch)
    launching.note_request(run, Launch(MAIN), ["TOKEN"])
    noted = json.loads(Path(run.launch_request).read_text())
    assert noted == {"argv": ["/bin/true", "a b"], "cwd": "/tmp", "env": {"LANG": "C", "TOKEN": "(passed)"}}


def test_the_request_names_helpers_without_tokens_too(run):
    os.mkdir(run.launch)
    launching.note_request(run, Launch(MAIN, helpers=(MAIN,)), ["TOKEN"])
    noted = json.loads(Path(run.launch_request).read_text())
    assert noted["helpers"] == [
        {"argv": ["/bin/true", "a b"], "cwd": "/tmp", "env": {"LANG": "C", "TOKEN": "(passed)"}}
    ]


def test_what_was_planted_in_launch_is_gone_before_training(run, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    planted = Path(run.cache, "huggingface", "modules", "x.py")
    planted.parent.mkdir(parents=True)
    planted.write_text("evil")
    Path(run.launch, "libcuda.so.1").write_bytes(b"evil")
    Path(run.launch, "link").symlink_to(outside)
    tmp = launching.make_folders(run)
    left = {path for path in Path(run.launch).rglob("*") if path.is_file() or path.is_symlink()}
    assert left == set()
    assert (outside / "kept").exists()
    if not tmp.startswith(run.path):
        os.rmdir(tmp)


def test_a_launch_folder_that_is_a_link_is_replaced(run, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    os.symlink(outside, run.launch)
    tmp = launching.make_folders(run)
    assert not os.path.islink(run.launch)
    assert (outside / "kept").exists()
    if not tmp.startswith(run.path):
        os.rmdir(tmp)


def test_a_short_tmp_that_is_used_again_is_empty(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/tmp")
    run = RunDir(str(tmp_path / ("x" * 60) / "v1"))
    path = launching.make_folders(run)
    Path(path, "planted").touch()
    assert launching.make_folders(run) == path
    assert os.listdir(path) == []
    os.rmdir(path)


def test_compiled_code_beside_the_inputs_is_taken_away(run, tmp_path):
    """Found by scripts/audit-reads: Python runs a .pyc whose noted time and size fit, whatever the source says."""
    source = Path(run.inputs, "reward.py")
    compiled = Path(run.inputs, "__pycache__", "reward.cpython-311.pyc")
    compiled.parent.mkdir(parents=True)
    compiled.write_bytes(b"evil")
    source.write_text("good")
    tmp = launching.make_folders(run)
    assert os.listdir(run.inputs) == ["reward.py"]
    os.symlink(tmp_path, compiled.parent)
    launching.make_folders(run)
    assert os.listdir(run.inputs) == ["reward.py"]
    assert tmp_path.is_dir()
    if not tmp.startswith(run.path):
        os.rmdir(tmp)
