import os
import subprocess
import sys
import time

import pytest

from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import processes
from loopai_trainer.worker import pulse
from loopai_trainer.worker.pulse import Pulse


@pytest.fixture
def run(tmp_path):
    os.makedirs(tmp_path / "v1" / "launch")
    return RunDir(str(tmp_path / "v1"))


@pytest.fixture
def main():
    argv = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_the_end_of_training_ends_the_pause(run, main, monkeypatch):
    monkeypatch.setattr(pulse, "_FIRST_S", 600.0)
    atomic.write_json(run.launch_started, {"training": processes.identify(main.pid)})
    made = Pulse(run)
    main.kill()
    made.wait()  # would last ten minutes
    made.wait()
    assert made._over
    assert made._fd is None


def test_pauses_grow_after_half_a_minute(run, main, monkeypatch):
    atomic.write_json(run.launch_started, {"training": processes.identify(main.pid)})
    asked = []

    class Poll:
        def register(self, fd, events):
            assert fd > 2

        def poll(self, milliseconds):
            asked.append(milliseconds)
            return []

    monkeypatch.setattr("select.poll", Poll)
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    made = Pulse(run)
    made.wait()
    now[0] += 60.0
    made.wait()
    made.close()
    made.close()
    assert asked == [200.0, 1000.0]


@pytest.mark.parametrize("recorded", ["absent", "elsewhere", "reused", "gone"])
def test_a_training_that_is_not_there_to_be_watched_is_looked_at_soon(run, main, recorded):
    identity = processes.identify(main.pid)
    if recorded == "elsewhere":
        identity["pid_ns"] = 1
    elif recorded == "reused":
        identity["start_time"] += 1
    elif recorded == "gone":
        main.kill()
        main.communicate()
    atomic.write_json(run.launch_started, {"training": None if recorded == "absent" else identity})
    made = Pulse(run)
    begun = time.monotonic()
    made.wait()
    assert time.monotonic() - begun < 30.0
    assert made._over is (recorded in ("reused", "gone"))
    made.wait()
