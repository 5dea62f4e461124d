"""Ending a run whose worker has not begun: what is refused, and what a full disk means (the rest: tests/flow)."""

import os
import time

import pytest

from loopai_trainer import executors
from loopai_trainer.errors import HostUnfit, TrainerError
from loopai_trainer.files import atomic, event_log, result_file, state_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import locks
from loopai_trainer.worker import calling_off, ending


class Cluster:
    """A job that waits; `lives`: what is said of it, one answer after another (the last one stays)."""

    def __init__(self):
        self.lives = [True]
        self.refusal = None
        self.stopped = 0

    def submit(self):
        raise AssertionError("nothing is submitted")

    def alive(self, handle, limit_s=None):
        return self.lives.pop(0) if len(self.lives) > 1 else self.lives[0]

    def stop(self, handle, grace_s):
        self.stopped += 1
        if self.refusal is not None:
            raise self.refusal

    def where(self, handle):
        return f"job {handle}"

    def told(self, handle):
        return ""


@pytest.fixture
def cluster(monkeypatch):
    made = Cluster()
    monkeypatch.setattr(executors, "get", lambda name: made)
    monkeypatch.setattr(calling_off, "_PAUSE_S", 0.0)
    return made


@pytest.fixture
def run(tmp_path):
    os.makedirs(tmp_path / "task" / "trainer" / "v1" / "launch")
    run = RunDir(str(tmp_path / "task" / "trainer" / "v1"))
    write(run)
    atomic.write_json(run.cancel_request, {"requested_by": "the test"})
    return run


def write(run, status="queued", name="ray_jobs", **executor):
    executor = {"name": name, "handle": "there v1", "locks_reach": True, **executor}
    state_file.write(run, {"version_id": "v1", "status": status, "attempt": 1, "executor": executor})


def called_off(run):
    return calling_off.call_off(run, time.monotonic() + 60.0)


def test_a_run_that_waits_is_ended(run, cluster):
    assert called_off(run)
    assert cluster.stopped == 1
    result = result_file.read(run)
    assert (result["status"], result["error"]["code"]) == ("cancelled", "CANCELLED")
    assert "as job there v1: it was stopped" in result["error"]["detail"]
    state = state_file.read(run).state
    assert (state["status"], state["cancel"]) == ("cancelled", {"requested_by": "the test"})
    assert event_log.read(run.events)[-1]["status"] == "cancelled"
    assert not locks.held(run.run_lock)
    assert not called_off(run)  # it has ended
    assert cluster.stopped == 1


def test_a_job_that_the_cluster_does_not_know_any_more_counts_as_stopped(run, cluster):
    cluster.refusal = HostUnfit("gone", code="JOB_UNKNOWN")
    assert called_off(run)
    assert "it was stopped" in result_file.read(run)["error"]["detail"]


def test_a_job_that_cannot_be_stopped_is_told(run, cluster):
    cluster.refusal = HostUnfit("the head is gone", code="CLUSTER_UNREACHABLE")
    cluster.lives = [None]
    assert called_off(run)
    assert "could not be stopped (the head is gone)" in result_file.read(run)["error"]["detail"]


@pytest.mark.parametrize("lives", [True, None])
def test_where_locks_do_not_reach_nothing_is_written_while_the_job_may_live(run, cluster, monkeypatch, lives):
    monkeypatch.setattr(calling_off, "_GONE_S", 0.0)
    write(run, locks_reach=False)
    cluster.lives = [lives]
    assert not called_off(run)
    assert cluster.stopped == 1
    assert result_file.read(run) is None
    assert not locks.held(run.run_lock)
    cluster.lives = [False]
    assert called_off(run)


def test_a_job_that_does_not_end_is_waited_for_no_longer_than_its_caller_has_time(run, cluster, monkeypatch):
    write(run, locks_reach=False)
    monkeypatch.setattr(calling_off, "_GONE_S", 1e9)
    assert not calling_off.call_off(run, time.monotonic() - 1.0)
    assert result_file.read(run) is None


@pytest.mark.parametrize(
    "begun",
    [
        lambda run: write(run, "running"),
        lambda run: write(run, name="local"),
        lambda run: os.unlink(run.cancel_request),
        lambda run: open(run.launch_started, "w").close(),
    ],
)
def test_nothing_else_is_ended(run, cluster, begun):
    begun(run)
    assert not called_off(run)
    assert cluster.stopped == 0
    assert result_file.read(run) is None


@pytest.mark.parametrize("name", ["run_lock", "training_lock"])
def test_a_lock_that_somebody_holds_is_a_worker_that_has_begun(run, cluster, name):
    fd = locks.try_exclusive(getattr(run, name))
    try:
        assert not called_off(run)
        assert cluster.stopped == 0
    finally:
        os.close(fd)


def test_an_end_that_cannot_be_written_is_refused(run, cluster, monkeypatch):
    def full(*_):
        raise ending.EndNotWritten(28, "the disk is full")

    monkeypatch.setattr(ending, "conclude", full)
    with pytest.raises(TrainerError) as raised:
        called_off(run)
    assert raised.value.code == "DISK_FULL"
    assert not locks.held(run.run_lock)
