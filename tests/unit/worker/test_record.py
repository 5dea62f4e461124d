import os
from pathlib import Path

import pytest

from loopai_trainer.files import event_log, state_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.worker import record as record_module
from loopai_trainer.worker.record import Record, tell


@pytest.fixture
def run(tmp_path):
    os.mkdir(tmp_path / "v1")
    return RunDir(str(tmp_path / "v1"))


@pytest.fixture
def record(run):
    return Record(run, {"status": "queued", "phase": "queued", "attempt": 3, "version_id": "v1", "task_id": "task"})


def test_a_move_is_written_and_told(run, record):
    record.move("running", "starting", "hello", mark="m")
    state = state_file.read(run).state
    assert (state["status"], state["phase"], state["mark"]) == ("running", "starting", "m")
    (event,) = event_log.read(run.events)
    assert (event["status"], event["node"], event["message"], event["attempt"]) == ("running", "starting", "hello", 3)


@pytest.mark.parametrize("status", ["completed", "prepared", "orphaned"])
def test_an_impossible_move_is_refused(record, status):
    with pytest.raises(ValueError, match="cannot move"):
        record.move(status, "x")
    with pytest.raises(ValueError, match="cannot move"):
        record.end(status, "")


def test_progress_is_written_once_a_second(run, record, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    record.move("running", "training")
    record.note(current_step=1, total_steps=4)
    record.flush()
    assert "current_step" not in state_file.read(run).state
    now[0] += 1.0
    record.flush()
    assert state_file.read(run).state["current_step"] == 1
    assert event_log.read(run.events)[-1]["progress"] == 0.25
    written = os.stat(run.run_state).st_ino
    now[0] += 1.0
    record.note(current_step=1)
    record.flush()
    assert os.stat(run.run_state).st_ino == written  # nothing changed
    now[0] += 10.0
    record.flush()
    assert os.stat(run.run_state).st_ino != written  # the heartbeat


def test_progress_events_are_few(run, record, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    record.move("running", "training")
    for step in range(1, 1001):
        now[0] += 1.1
        record.note(current_step=step, total_steps=100_000)
        record.flush()
    assert len(event_log.read(run.events)) < 50


def test_a_write_that_fails_is_tried_again(run, record, monkeypatch, capsys):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(state_file, "write", full)
        patched.setattr(event_log, "append", full)
        record.move("running", "starting")
    assert "No space left" in capsys.readouterr().err
    assert state_file.read(run).state is None
    monkeypatch.setattr(record_module, "_PROGRESS_S", 0.0)
    record.flush()
    assert state_file.read(run).state["status"] == "running"


def test_the_end_insists(record, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    record.move("running", "starting")
    monkeypatch.setattr(state_file, "write", full)
    with pytest.raises(OSError, match="No space"):
        record.end("failed", "")


def test_the_end_has_its_times(run, record):
    record.move("running", "starting")
    record.end("failed", "why", error={"code": "X"})
    state = state_file.read(run).state
    assert (state["status"], state["error"], state["finished_at"]) == ("failed", {"code": "X"}, state["updated_at"])
    assert state["elapsed_s"] >= 0


def test_a_log_on_a_full_disk_is_no_reason_to_stop(monkeypatch):
    class Full:
        def write(self, text):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stderr", Full())
    tell("anything")


def test_progress_is_between_0_and_1(run, record):
    record.move("running", "training")
    record.note(current_step=7, total_steps=5)
    record.end("failed", "")
    assert event_log.read(run.events)[-1]["progress"] == 1.0
    assert Path(run.run_state).exists()


def test_a_clock_that_steps_back_disturbs_neither_order_nor_durations(run, record, monkeypatch):
    now = [1_900_000_000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    record.move("running", "starting")
    now[0] -= 3600.0
    record.phase("training")
    record.end("failed", "x")
    events = event_log.read(run.events)
    assert [event["seq"] for event in events] == [1, 2, 3]
    assert events[2]["time"] < events[0]["time"]
    assert all(event["elapsed_s"] >= 0 for event in events)
    assert [event["elapsed_s"] for event in events] == sorted(event["elapsed_s"] for event in events)
    assert state_file.read(run).state["elapsed_s"] >= 0
