import hashlib
import json
import os
import sys
import threading
from pathlib import Path

import pytest

from loopai_trainer import executors
from loopai_trainer.errors import ApprovalError, HostUnfit, Orphaned, PlanChanged, TrainingFailed
from loopai_trainer.files import atomic, state_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import clocks, locks, processes
from loopai_trainer.rules import approval
from loopai_trainer.worker import attach, observe
from loopai_trainer.worker.attach import StartRequest, start_or_attach

CONFIG = b"approved: bytes\n"
SHA256 = hashlib.sha256(CONFIG).hexdigest()


class FakeExecutor:
    """Takes the descriptors over as a worker process does, and starts nothing."""

    name = "fake"

    def __init__(self):
        self.argv = None
        self.lock_fd = None
        self.config = None

    def start(self, argv, run_dir, log_path, inherit_fds):
        self.argv = list(argv)
        self.lock_fd = os.dup(inherit_fds[0])
        self.config = os.pread(inherit_fds[1], 10_000, 0)
        return "0///"

    def leave(self):
        os.close(self.lock_fd)
        self.lock_fd = None


@pytest.fixture
def run(tmp_path):
    os.makedirs(tmp_path / "out" / "task" / "trainer" / "v1" / "launch")
    return RunDir(str(tmp_path / "out" / "task" / "trainer" / "v1"))


@pytest.fixture
def executor(monkeypatch):
    made = FakeExecutor()
    monkeypatch.setattr(executors, "get", lambda name: made)
    yield made
    if made.lock_fd is not None:
        made.leave()


def begin():
    return StartRequest(CONFIG, SHA256, "task", "fake")


def never():
    raise AssertionError("begin must not be called")


def stored_result(**values):
    bare = {"status": "completed", "attempt": 1, "trainer_version_id": "v1", "config_sha256": SHA256}
    return {**bare, "checkpoints": [], "result": {"status": "completed"}, **values}


def test_a_start_hands_lock_and_bytes_over(run, executor):
    attachment = start_or_attach(run, SHA256, begin)
    assert (attachment.kind, attachment.worker_pid) == ("started", None)
    assert executor.config == CONFIG
    assert executor.argv[1:3] == ["-P", "-c"]
    assert executor.argv[4:7] == [run.path, run.version_id, run.task.path]
    assert executor.argv[9:] == [SHA256, "fake"]
    assert locks.held(run.run_lock)
    state = state_file.read(run).state
    assert (state["status"], state["attempt"], state["config_sha256"]) == ("queued", 1, SHA256)
    assert start_or_attach(run, SHA256, never).kind == "attached"
    executor.leave()
    assert not locks.held(run.run_lock)


def test_a_refusal_frees_the_lock_and_leaves_nothing(run, executor):
    def refuse():
        assert locks.held(run.run_lock)
        raise ApprovalError("no")

    with pytest.raises(ApprovalError):
        start_or_attach(run, SHA256, refuse)
    assert not locks.held(run.run_lock)
    assert not os.path.exists(run.run_state)
    assert executor.argv is None


def test_a_worker_that_died_before_exec_is_followed(run, executor):
    start_or_attach(run, SHA256, begin)
    executor.leave()
    assert start_or_attach(run, SHA256, begin).kind == "started"
    assert state_file.read(run).state["attempt"] == 2


def test_a_stored_end_is_the_answer(run, executor):
    state_file.write(run, {"status": "completed", "version_id": "v1", "config_sha256": SHA256, "attempt": 1})
    atomic.write_json(run.result, stored_result())
    attachment = start_or_attach(run, SHA256, never)
    assert attachment.observation.damaged == ""
    assert attachment.kind == "finished"
    assert attachment.observation.state["status"] == "completed"


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_another_hash_is_refused_and_both_are_shown(run, executor, status):
    Path(run.launch_started).write_text("{}")
    state_file.write(run, {"status": status, "version_id": "v1", "config_sha256": "1" * 64})
    with pytest.raises(PlanChanged) as refused:
        start_or_attach(run, SHA256, never)
    assert f"  expected: {'1' * 64}\n  got:      {SHA256}" in refused.value.message


def test_another_hash_is_refused_while_it_runs(run, executor):
    start_or_attach(run, SHA256, begin)
    with pytest.raises(PlanChanged):
        start_or_attach(run, "2" * 64, never)


def test_locks_that_do_not_hold_are_refused(run, executor, monkeypatch):
    monkeypatch.setattr(locks, "held", lambda path: False)
    with pytest.raises(HostUnfit) as refused:
        start_or_attach(run, SHA256, never)
    assert refused.value.code == "LOCKS_UNRELIABLE"


def test_training_without_a_worker_is_refused_and_named(run, executor):
    Path(run.launch_started).write_text(json.dumps({"keeper": processes.own_identity(), "training": None}))
    fd = locks.try_exclusive(run.training_lock)
    with pytest.raises(Orphaned) as refused:
        start_or_attach(run, SHA256, never)
    os.close(fd)
    (shown,) = refused.value.details["processes"]
    assert shown["pid"] == os.getpid()
    assert shown["command"].startswith(sys.executable.rpartition("/")[0])
    assert not locks.held(run.run_lock)


def test_an_orphan_that_nobody_can_see_is_refused_too(run, executor):
    Path(run.launch_started).write_text("{}")
    fd = locks.try_exclusive(run.training_lock)
    with pytest.raises(Orphaned) as refused:
        start_or_attach(run, SHA256, never)
    os.close(fd)
    assert refused.value.details["processes"] == []


def test_a_keeper_that_is_starting_is_waited_for(run, executor):
    fd = locks.try_exclusive(run.training_lock)
    timer = threading.Timer(0.2, os.close, (fd,))
    timer.start()
    assert start_or_attach(run, SHA256, begin).kind == "started"
    timer.join()


def test_a_keeper_that_hangs_is_an_orphan(run, executor, monkeypatch):
    monkeypatch.setattr(attach, "_RETRY_S", 0.05)
    fd = locks.try_exclusive(run.training_lock)
    with pytest.raises(Orphaned):
        start_or_attach(run, SHA256, never)
    os.close(fd)


class TestTakingUp:
    """Training has ended, its worker is dead: the next call starts a worker that finishes."""

    @pytest.fixture(autouse=True)
    def ended(self, run):
        Path(run.launch_started).write_text("{}")
        Path(run.launch_exit).write_text('{"returncode": 0}')
        os.makedirs(os.path.dirname(run.approved_config))
        Path(run.approved_config).write_bytes(CONFIG)
        state_file.write(run, {"status": "running", "version_id": "v1", "config_sha256": SHA256, "attempt": 1})

    def test_no_approval_is_needed(self, run, executor):
        assert start_or_attach(run, SHA256, never).kind == "started"
        assert executor.argv[-1] == "--finish"
        assert executor.config == CONFIG
        assert state_file.read(run).state["attempt"] == 1

    def test_other_bytes_are_refused(self, run, executor):
        Path(run.approved_config).write_bytes(b"other: bytes\n")
        with pytest.raises(PlanChanged):
            start_or_attach(run, SHA256, never)
        assert executor.argv is None

    def test_bytes_that_are_gone_are_told(self, run, executor):
        os.unlink(run.approved_config)
        with pytest.raises(TrainingFailed) as refused:
            start_or_attach(run, SHA256, never)
        assert refused.value.code == "WORKER_LOST"

    def test_a_torn_state_does_not_lose_the_result(self, run, executor):
        Path(run.run_state).write_text("{")
        assert start_or_attach(run, SHA256, never).kind == "started"
        assert executor.argv[-1] == "--finish"


def test_a_torn_state_is_kept_aside_before_a_start(run, executor):
    Path(run.run_state).write_text("{")
    start_or_attach(run, SHA256, begin)
    assert Path(run.run_state + ".damaged-1").read_text() == "{"


@pytest.mark.parametrize(("status", "kept"), [(None, False), ("failed", False), ("queued", True), ("running", True)])
def test_a_request_to_cancel_that_an_ended_attempt_left_is_dropped(run, executor, status, kept):
    if status:
        state_file.write(run, {"status": status, "version_id": "v1"})
    atomic.write_json(run.cancel_request, {})
    start_or_attach(run, SHA256, begin)
    assert os.path.exists(run.cancel_request) is kept


def approval_for(config, **values):
    now = clocks.read()
    return approval.new_record(
        task_id="task",
        version_id="v1",
        run_dir="/out/task/trainer/v1",
        round_number=1,
        config_sha256=hashlib.sha256(config).hexdigest(),
        prepared_at=now.now,
        approved_at=now.now,
        counted_from=values.get("counted_from", now.now),
        boot=None,
        approver={},
        approved_via="terminal",
    )


def test_the_version_is_seen_as_approved_before_it_starts(run):
    assert observe.observe(run).verdict.status == "prepared"
    atomic.write_json(run.approval, approval_for(CONFIG))
    assert observe.observe(run).verdict.status == "prepared"  # there is no such YAML
    Path(run.config).write_bytes(CONFIG)
    assert observe.observe(run).verdict.status == "approved"
    Path(run.config).write_bytes(CONFIG + b"edited: 1\n")
    assert observe.observe(run).verdict.status == "prepared"
    atomic.write_json(run.approval, approval.consumed(approval_for(CONFIG), at=1.0, by={}))
    assert observe.observe(run).verdict.status == "approved"  # by a start that died before training's exec


@pytest.mark.parametrize("record", [{}, {"digest": 1}, approval_for(CONFIG, counted_from=1000.0)])
def test_a_record_that_allows_nothing_is_no_approval(run, record):
    Path(run.config).write_bytes(CONFIG)
    atomic.write_json(run.approval, record)
    assert observe.observe(run).verdict.status == "prepared"


def test_a_state_of_another_boot_is_a_lost_worker(run):
    worker = {"pid": 4190001, "start_time": 1764400000.0, "boot_id": "00000000-0000-4000-8000-000000000001"}
    old = {"version_id": "v1", "status": "running", "worker": worker, "child": {"pid": 4190002}}
    Path(run.run_state).write_text(json.dumps(old))
    seen = observe.observe(run)
    assert (seen.verdict.status, seen.verdict.code) == ("failed", "WORKER_LOST")
    assert "restarted" in seen.verdict.message


class TestFullDisk:
    def test_a_start_is_refused(self, run, executor, monkeypatch):
        def full(*args, **kwargs):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(state_file, "write", full)
        with pytest.raises(HostUnfit) as refused:
            start_or_attach(run, SHA256, begin)
        assert refused.value.code == "DISK_FULL"
        assert not locks.held(run.run_lock)

    def test_other_faults_are_not_called_so(self, run, executor, monkeypatch):
        def broken(*args, **kwargs):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(state_file, "write", broken)
        with pytest.raises(OSError, match="Input/output"):
            start_or_attach(run, SHA256, begin)

    def test_no_worker_is_started_to_finish_what_cannot_be_written(self, run, executor, monkeypatch):
        Path(run.launch_started).write_text("{}")
        state_file.write(run, {"status": "running", "version_id": "v1", "config_sha256": SHA256, "attempt": 1})
        monkeypatch.setattr(atomic, "is_full", lambda folder: True)
        with pytest.raises(HostUnfit) as refused:
            start_or_attach(run, SHA256, never)
        assert refused.value.code == "DISK_FULL"
        assert executor.argv is None


def test_the_result_of_a_failed_attempt_does_not_speak_for_the_next(run, executor):
    atomic.write_json(run.result, stored_result(status="failed", attempt=3))
    assert start_or_attach(run, SHA256, begin).kind == "started"
    assert state_file.read(run).state["attempt"] == 4
    assert not os.path.exists(run.result)
    assert json.loads(Path(run.result + ".attempt-1").read_text())["attempt"] == 3


@pytest.mark.parametrize("changed", [{"start_time": 1}, {"boot_id": "another"}, {"pid_ns": 1}])
def test_a_pid_that_is_used_again_is_nobody_of_the_run(run, changed):
    """The pids of worker, keeper and training belong to living processes, which are not those that were recorded."""
    other = {**processes.own_identity(), **changed}
    tree = {"boot_id": other["boot_id"], "pid_ns": other["pid_ns"], "members": [[other["pid"], other["start_time"]]]}
    Path(run.launch_started).write_text(json.dumps({"keeper": other, "training": other}))
    state = {"version_id": "v1", "status": "running", "worker": other, "training": other, "tree": tree}
    state_file.write(run, {**state, "updated_at": "2999-01-01T00:00:00.000Z"})
    seen = observe.observe(run)
    assert (seen.verdict.status, seen.verdict.code) == ("failed", "WORKER_LOST")
    assert observe.living(run, seen.state) == []
    exact = processes.own_identity()
    Path(run.launch_started).write_text(json.dumps({"keeper": None, "training": exact}))
    assert observe.observe(run).verdict.status == "orphaned"
