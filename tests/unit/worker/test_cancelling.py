import os
import signal
import subprocess
import sys

import pytest

from loopai_trainer.errors import HostUnfit
from loopai_trainer.files import atomic, state_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import locks, processes
from loopai_trainer.worker.cancelling import request_cancel


@pytest.fixture
def run(tmp_path, monkeypatch):
    os.mkdir(tmp_path / "v1")
    run = RunDir(str(tmp_path / "v1"))
    fd = locks.try_exclusive(run.run_lock)
    yield run
    os.close(fd)


def refuse(number):
    def write(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return write


def test_a_request_that_cannot_be_written_is_a_signal_to_the_worker(run, monkeypatch):
    worker = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
    try:
        state_file.write(run, {"status": "running", "worker": processes.identify(worker.pid)})
        monkeypatch.setattr(atomic, "write_json", refuse(28))
        assert request_cancel(run, "the test")[0]
        assert worker.wait(30) == -signal.SIGTERM
    finally:
        worker.kill()
        worker.wait()


@pytest.mark.parametrize(("number", "code"), [(28, "DISK_FULL"), (122, "DISK_FULL"), (13, "REQUEST_NOT_WRITTEN")])
def test_nobody_else_is_signalled(run, monkeypatch, number, code):
    stranger = {**processes.own_identity(), "start_time": 1}
    state_file.write(run, {"status": "running", "worker": stranger})
    monkeypatch.setattr(atomic, "write_json", refuse(number))
    with pytest.raises(HostUnfit) as refused:
        request_cancel(run, "the test")
    assert refused.value.code == code
    assert refused.value.hint
