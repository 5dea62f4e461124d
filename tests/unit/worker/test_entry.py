"""The worker's main function in this process: what it refuses, and how it records that it gave up."""

import os
from pathlib import Path

import pytest
from fakes.backend import StandIn
from fakes.runs import PreparedRun, wait_for

from loopai_trainer import backends
from loopai_trainer.files import event_log, state_file
from loopai_trainer.host import locks
from loopai_trainer.worker import disk_room, entry, launching
from loopai_trainer.worker.observe import observe, read_result


class Inside:
    """A prepared run whose worker is called in this process, as the executor `inline` does."""

    def __init__(self, folder, **options):
        self.prepared = PreparedRun(folder, **options)
        self.run = self.prepared.run
        self.lock_fd = locks.try_exclusive(self.run.run_lock)
        state = {"status": "queued", "version_id": "v1", "attempt": 1, "config_sha256": self.prepared.sha256}
        state_file.write(self.run, state)

    def work(self, *more, sha256=None, config=None):
        data = Path(self.run.config).read_bytes() if config is None else config
        plan_fd = os.memfd_create("plan")
        os.write(plan_fd, data)
        place = [self.run.path, self.run.version_id, self.run.task.path]
        words = [*place, str(self.lock_fd), str(plan_fd), sha256 or self.prepared.sha256, "inline", *more]
        try:
            return entry.main(words)
        finally:
            os.close(plan_fd)

    @property
    def state(self):
        return state_file.read(self.run).state


@pytest.fixture
def inside(tmp_path, monkeypatch):
    backend = StandIn()
    monkeypatch.setattr(backends, "get", lambda framework, stage: backend)
    made = []

    def make(**options):
        made.append(Inside(tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        os.close(one.lock_fd)


def test_a_whole_run(inside):
    one = inside(steps=2)
    assert one.work() == 0
    assert one.state["status"] == "completed"
    assert read_result(one.run)["status"] == "completed"


def test_bytes_of_another_hash_start_nothing(inside):
    one = inside()
    assert one.work(config=b"other: 1\n") == 1
    assert (one.state["status"], one.state["error"]["code"]) == ("failed", "CONFIG_HASH_MISMATCH")
    assert not os.path.exists(one.run.launch_started)
    assert not os.path.exists(one.run.approved_config)


def test_a_worker_without_the_lock_touches_nothing(inside):
    one = inside()
    held, one.lock_fd = one.lock_fd, os.open(os.devnull, os.O_RDONLY)
    other = os.open(one.run.run_lock, os.O_RDWR)
    os.dup2(other, one.lock_fd)
    os.close(other)
    assert one.work() == 1
    assert one.state["status"] == "queued"
    os.close(held)


def test_an_unexpected_error_is_recorded_with_its_traceback(inside, monkeypatch, capsys):
    one = inside()

    def broken(*args):
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr(StandIn, "launch", broken)
    assert one.work() == 1
    assert one.state["status"] == "failed"
    assert one.state["error"]["code"] == "WORKER_FAILED"
    assert "ZeroDivisionError: surprise" in one.state["error"]["detail"]
    assert "Traceback" in capsys.readouterr().err
    assert not locks.held(one.run.training_lock)
    os.close(one.lock_fd)
    assert observe(one.run).verdict.action == "start"  # nothing was exec'd: the same call may follow
    one.lock_fd = locks.try_exclusive(one.run.run_lock)


def test_a_worker_that_fails_while_training_lives_does_not_call_it_ended(inside, tmp_path, monkeypatch):
    hold = tmp_path / "hold"
    hold.touch()
    one = inside(hold_file=str(hold))

    def broken(*args):
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr("loopai_trainer.worker.own._watch", broken)
    assert one.work() == 1
    assert one.state["status"] == "running"
    assert event_log.read(one.run.events)[-1]["error"]["code"] == "WORKER_FAILED"
    hold.unlink()
    wait_for(lambda: not locks.held(one.run.training_lock))
    monkeypatch.undo()
    monkeypatch.setattr(backends, "get", lambda framework, stage: StandIn())
    assert one.work("--finish") == 0
    assert one.state["status"] == "completed"


def test_a_finished_result_is_not_made_again(inside, monkeypatch):
    one = inside(steps=2)
    one.work()
    before = Path(one.run.result).read_bytes()
    state_file.write(one.run, {**one.state, "status": "finalizing"})  # as if it had died before its last write

    def never(*args):
        raise AssertionError("the result was made again")

    monkeypatch.setattr("loopai_trainer.worker.results.finish_run", never)
    assert one.work("--finish") == 0
    assert Path(one.run.result).read_bytes() == before
    assert one.state["status"] == "completed"


def test_a_request_to_cancel_before_the_start(inside):
    one = inside()
    Path(one.run.cancel_request).write_text("{")  # torn: it is a request all the same
    assert one.work() == 1
    assert one.state["status"] == "cancelled"
    assert read_result(one.run)["error"]["code"] == "CANCELLED"
    assert one.prepared.starts == 0


def test_a_keeper_that_cannot_start_is_told(inside, monkeypatch):
    one = inside()
    monkeypatch.setattr(launching, "_KEEPER", "raise SystemExit(5)")
    assert one.work() == 1
    assert (one.state["status"], one.state["error"]["code"]) == ("failed", "KEEPER_LOST")
    assert one.prepared.starts == 0
    assert not locks.held(one.run.training_lock)


def test_a_torn_state_is_kept_aside(inside, capsys):
    one = inside(steps=1)
    Path(one.run.run_state).write_text("{")
    assert one.work() == 0
    assert Path(one.run.run_state + ".damaged-1").read_text() == "{"
    assert one.state["status"] == "completed"


def test_an_input_that_changed_while_it_was_trained_on_fails_the_run(inside, tmp_path):
    one = inside(steps=2)
    Path(one.run.path, "train.jsonl").write_text("another\n")
    assert one.work() == 1
    assert one.state["error"]["code"] == "INPUT_CHANGED_DURING_RUN"


def test_a_model_that_is_gone_or_changed_fails_the_run(inside, tmp_path):
    one = inside(steps=2)
    (tmp_path / "model" / "config.json").write_text('{"changed": 1}')
    assert one.work() == 1
    assert "model" in one.state["error"]["detail"]


@pytest.mark.parametrize("kind", ["OUTPUT_NOT_FRESH", "WRONG_RUN_DIRECTORY"])
def test_the_worker_itself_refuses_before_exec(inside, tmp_path, kind):
    if kind == "OUTPUT_NOT_FRESH":
        one = inside()
        os.makedirs(one.run.at("checkpoints", "checkpoint-7"))
    else:
        one = inside(output_dir=str(tmp_path / "elsewhere"))
    assert one.work() == 1
    assert (one.state["status"], one.state["error"]["code"]) == ("failed", kind)
    assert one.prepared.starts == 0
    assert not os.path.exists(one.run.launch_started)


def test_a_full_disk_is_no_failure_of_the_worker(inside, monkeypatch):
    one = inside()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StandIn, "launch", full)
    assert one.work() == 1
    assert one.state["error"]["code"] == "DISK_FULL"
    assert one.state["error"]["hint"]


def test_an_end_that_cannot_be_written_ends_the_worker_in_time(inside, monkeypatch, capsys):
    one = inside(steps=1)

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("loopai_trainer.worker.ending._RETRY_S", 0.0)
    monkeypatch.setattr("loopai_trainer.worker.ending._write_result", full)
    assert one.work() == 1
    assert capsys.readouterr().err.count("the end of the run cannot be written") == 30
    monkeypatch.undo()
    monkeypatch.setattr(backends, "get", lambda framework, stage: StandIn())
    assert one.work("--finish") == 0
    assert one.state["status"] == "completed"
    assert one.prepared.starts == 1


@pytest.mark.parametrize("exit_text", [None, '{"returncode": 1}'])
def test_a_disk_that_was_full_at_the_end_is_the_cause_that_is_told_later(inside, exit_text):
    one = inside(steps=1)
    assert one.work() == 0
    os.unlink(one.run.result)
    os.unlink(one.run.launch_exit)
    if exit_text:
        Path(one.run.launch_exit).write_text(exit_text)
    disk_room.note_full(one.run)
    state_file.write(one.run, {**one.state, "status": "running"})
    assert one.work("--finish") == 1
    assert one.state["error"]["code"] == "DISK_FULL"
    assert "free space" in one.state["error"]["hint"]


def test_a_lost_state_is_finished_under_its_own_attempt(inside):
    one = inside(steps=1)
    state_file.write(one.run, {**one.state, "attempt": 4})
    assert one.work() == 0
    os.unlink(one.run.result)
    Path(one.run.run_state).write_text("{")
    assert one.work("--finish") == 0
    assert (one.state["attempt"], one.state["current_step"]) == (4, 1)
    assert read_result(one.run)["attempt"] == 4


def test_a_fault_in_finalising_does_not_cost_the_result(inside, monkeypatch):
    """As when the package is upgraded under a run: the next worker, with fresh code, looks at the results again."""
    one = inside(steps=2)

    def broken(*args):
        raise AttributeError("a name that the other version has")

    with monkeypatch.context() as patched:
        patched.setattr("loopai_trainer.worker.results.finish_run", broken)
        assert one.work() == 1
    assert one.state["status"] == "finalizing"
    assert not os.path.exists(one.run.result)
    assert observe(one.run, holding_run_lock=True).verdict.action == "finish"
    assert one.work("--finish") == 0
    assert one.state["status"] == "completed"


def test_the_third_fault_in_finalising_is_said_for_good(inside, monkeypatch):
    one = inside(steps=2)

    def broken(*args):
        raise AttributeError("a fault of ours")

    monkeypatch.setattr("loopai_trainer.worker.results.finish_run", broken)
    assert [one.work(), one.work("--finish"), one.work("--finish")] == [1, 1, 1]
    assert (one.state["status"], one.state["error"]["code"]) == ("failed", "WORKER_FAILED")
    assert one.prepared.starts == 1
