import os
import signal
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
    assert not wait.too_long()  # a slow disk
    monkeypatch.setattr(atomic, "is_full", lambda folder: True)
    assert wait.too_long()
    monkeypatch.undo()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    now[0] += 200.0
    assert wait.too_long()


def test_a_stopped_keeper_is_waited_for(run, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    argv = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
    main, keeper = (subprocess.Popen(argv, stdin=subprocess.PIPE) for _ in range(2))
    identities = {"training": processes.identify(main.pid), "keeper": processes.identify(keeper.pid)}
    atomic.write_json(run.launch_started, identities)
    wait = disk_room.ExitWait(run)
    main.communicate()
    keeper.send_signal(signal.SIGSTOP)
    while not processes.stopped(identities["keeper"]):
        pass
    for _ in range(3):
        now[0] += 500.0
        assert not wait.too_long()
    keeper.send_signal(signal.SIGCONT)
    while processes.stopped(identities["keeper"]):
        pass
    assert not wait.too_long()
    now[0] += 500.0
    assert wait.too_long()
    keeper.communicate()
    assert not processes.stopped(identities["keeper"])
