import os
import subprocess
import sys

import pytest

from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import processes
from loopai_trainer.worker import disk_room


@pytest.fixture
def run(tmp_path):
    os.makedirs(tmp_path / "v1" / "launch")
    return RunDir(str(tmp_path / "v1"))


def room(run):
    return os.path.exists(run.at("launch", "room"))


def test_room_is_kept_and_given_back(run):
    disk_room.keep_room(run)
    assert os.stat(run.at("launch", "room")).st_blocks * 512 >= disk_room.ROOM_BYTES
    disk_room.free_room(run)
    disk_room.free_room(run)
    assert not room(run)


def test_no_room_is_no_fault(run, monkeypatch):
    def full(*args):
        raise OSError(28, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)
    disk_room.keep_room(run)
    assert not room(run)


def test_an_exit_that_is_not_written_is_waited_for_a_bounded_time(run, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    disk_room.keep_room(run)
    wait = disk_room.ExitWait(run)
    main = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    atomic.write_json(run.launch_started, {"training": processes.identify(main.pid)})
    now[0] = 500.0
    assert not wait.too_long()  # it lives
    main.communicate()
    assert not wait.too_long()
    assert room(run)
    now[0] += 2.0
    assert not wait.too_long()
    assert not room(run)
    now[0] += 4.0
    assert wait.too_long()
