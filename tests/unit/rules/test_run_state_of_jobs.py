"""The verdict on a worker that a cluster runs: alive, gone, or nobody knows."""

import pytest

from loopai_trainer.rules.run_state import ALIVE, GONE, LIVE, TERMINAL, UNKNOWN, Facts, verdict


def of(status, job, **facts):
    return verdict(Facts(state={"status": status}, job=job, **facts))


@pytest.mark.parametrize("status", LIVE)
@pytest.mark.parametrize("started", [True, False])
def test_a_living_job_is_attached_to(status, started):
    found = of(status, ALIVE, started=started)
    assert (found.status, found.action, found.code) == (status, "attach", "")


@pytest.mark.parametrize("job", [ALIVE, GONE, UNKNOWN])
def test_a_lock_that_is_seen_decides_before_the_job_server(job):
    assert of("running", job, started=True, run_lock_held=True).status == "running"


@pytest.mark.parametrize("status", TERMINAL)
@pytest.mark.parametrize("job", [ALIVE, GONE, UNKNOWN])
def test_a_recorded_end_stands(status, job):
    assert of(status, job, started=True).action == "answer"


@pytest.mark.parametrize("lives", [{}, {"training_lock_held": True}, {"training_alive": True}])
@pytest.mark.parametrize("started", [True, False])
def test_a_head_that_cannot_be_reached_is_unknown_not_dead(lives, started):
    found = of("running", UNKNOWN, started=started, **lives)
    assert (found.status, found.action, found.code) == ("unknown", "attach", "CLUSTER_UNREACHABLE")
    assert found.goes_on


@pytest.mark.parametrize("job", [GONE, UNKNOWN])
def test_an_exit_status_in_the_run_directory_decides(job):
    found = of("running", job, started=True, exit_record={"returncode": 1})
    assert (found.status, found.action, found.code) == ("failed", "finish", "WORKER_LOST")


def test_locks_and_processes_of_this_very_host_decide():
    found = of("running", UNKNOWN, started=True, seen_here=True)
    assert (found.status, found.action) == ("failed", "finish")
    assert of("running", UNKNOWN, started=True, seen_here=True, training_lock_held=True).status == "unknown"
    assert of("running", UNKNOWN, started=False, seen_here=True).status == "unknown"


def test_a_job_that_is_gone_while_training_lives_leaves_an_orphan():
    found = of("running", GONE, started=True, training_lock_held=True)
    assert (found.status, found.action, found.code) == ("orphaned", "orphan", "ORPHANED_TRAINING")


def test_where_locks_do_not_reach_nobody_says_that_training_is_dead():
    found = of("running", GONE, started=True, job_place="node7")
    assert (found.status, found.action, found.code) == ("orphaned", "orphan", "TRAINING_UNSEEN")
    assert "node7" in found.message
    for sure in ({"locks_reach": True}, {"seen_here": True}):
        assert of("running", GONE, started=True, **sure).code == "WORKER_LOST"


def test_a_job_that_never_started_training_may_be_followed_by_another_with_its_words():
    found = of("queued", GONE, job_said="exit 127\nno such file")
    assert (found.status, found.action, found.code) == ("failed", "start", "JOB_FAILED")
    assert "exit 127 no such file" in found.message
    assert "does not say" in of("queued", GONE).message
    assert len(of("queued", GONE, job_said="x" * 9999).message) < 1000


def test_a_keeper_that_is_starting_is_waited_for():
    found = of("running", GONE, training_lock_held=True)
    assert (found.status, found.action) == ("queued", "retry")
