import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.records import Artefact
from loopai_trainer.rules.run_state import (
    LIVE,
    STATUSES,
    TERMINAL,
    Facts,
    completed_problems,
    may_move,
    verdict,
)

ALLOWED_MOVES = {
    ("", "queued"),
    ("", "running"),
    ("queued", "running"),
    ("queued", "finalizing"),
    ("queued", "failed"),
    ("queued", "cancelled"),
    ("running", "running"),
    ("running", "finalizing"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("finalizing", "finalizing"),
    ("finalizing", "completed"),
    ("finalizing", "failed"),
    ("finalizing", "cancelled"),
    ("failed", "queued"),
    ("failed", "running"),
}


@pytest.mark.parametrize(("status", "to"), list(itertools.product(("", *STATUSES, "foreign"), STATUSES)))
def test_every_move(status, to):
    assert may_move(status, to) is ((status, to) in ALLOWED_MOVES)


def of(status=None, **facts):
    state = None if status is None else {"status": status, **facts.pop("more", {})}
    found = verdict(Facts(state=state, **facts))
    return found.status, found.action


@pytest.mark.parametrize("status", TERMINAL)
@pytest.mark.parametrize("training_lock_held", [True, False])
def test_a_recorded_end_stands(status, training_lock_held):
    assert of(status, started=True, training_lock_held=training_lock_held) == (status, "answer")
    assert of(status, started=True, run_lock_held=True) == (status, "answer")


def test_a_failure_before_exec_may_be_followed_by_the_same_call():
    assert of("failed") == ("failed", "start")
    assert of("failed", run_lock_held=True) == ("queued", "attach")
    assert of("cancelled") == ("cancelled", "answer")


@pytest.mark.parametrize("status", LIVE)
def test_a_held_run_lock_means_a_worker(status):
    assert of(status, run_lock_held=True) == (status, "attach")
    assert of(status, run_lock_held=True, started=True, training_lock_held=True) == (status, "attach")


@pytest.mark.parametrize(("gone", "status"), [(False, "running"), (True, "finalizing")])
def test_a_stopped_worker_is_named(gone, status):
    facts = Facts(
        state={"status": "running", "worker": {"pid": 77}},
        run_lock_held=True,
        started=True,
        training_gone=gone,
        worker_stopped=True,
    )
    found = verdict(facts)
    assert (found.status, found.action, found.code) == (status, "attach", "WORKER_STOPPED")
    assert "process 77, is stopped (SIGSTOP)" in found.message


def test_a_held_run_lock_without_a_record_is_a_caller_that_is_starting():
    assert of(run_lock_held=True) == ("queued", "attach")
    found = verdict(Facts(run_lock_held=True, damaged="torn"))
    assert (found.status, found.action, found.code) == ("running", "attach", "STATE_DAMAGED")


@pytest.mark.parametrize("status", [None, *LIVE])
def test_training_without_a_worker_is_orphaned(status):
    assert of(status, started=True, training_lock_held=True) == ("orphaned", "orphan")
    assert of(status, started=True, training_alive=True) == ("orphaned", "orphan")


def test_a_keeper_that_is_starting_is_waited_for():
    found = verdict(Facts(state={"status": "running"}, training_lock_held=True))
    assert (found.status, found.action, found.code) == ("queued", "retry", "KEEPER_STARTING")


@pytest.mark.parametrize("status", [None, *LIVE])
def test_an_end_that_no_worker_wrote_is_taken_up(status):
    found = verdict(Facts(state=status and {"status": status}, started=True, exit_record={"returncode": 0}))
    assert (found.status, found.action, found.code) == ("failed", "finish", "WORKER_LOST")
    found = verdict(Facts(state=status and {"status": status}, started=True))
    assert (found.status, found.action, found.code) == ("failed", "finish", "WORKER_LOST")


def test_processes_that_cannot_be_seen_are_not_called_alive():
    assert of("running", started=True, training_alive=None) == ("failed", "finish")


def test_before_anything_started():
    assert of() == ("prepared", "start")
    assert of(approved=True) == ("approved", "start")
    assert of("queued") == ("approved", "start")
    found = verdict(Facts(damaged="torn"))
    assert (found.status, found.action, found.code) == ("failed", "start", "STATE_DAMAGED")


@pytest.mark.parametrize("status", ["running", "finalizing"])
def test_a_record_that_says_running_is_not_believed(status):
    found = verdict(Facts(state={"status": status, "current_step": 7}))
    assert (found.status, found.action, found.code) == ("failed", "start", "WORKER_LOST")
    assert "last step: 7" in found.message


def test_a_reboot_is_named():
    worker = {"pid": 4190001, "start_time": 1, "boot_id": "one", "pid_ns": 2}
    found = verdict(Facts(state={"status": "running", "worker": worker}, boot_id="two"))
    assert "host was restarted" in found.message
    found = verdict(Facts(state={"status": "running", "worker": worker}, boot_id="one"))
    assert "worker is gone" in found.message


def test_a_verdict_shows_itself():
    assert repr(verdict(Facts())) == "Verdict('prepared', 'start', '')"


GOOD = {
    "exit_record": {"returncode": 0, "signal": None, "exec_error": None},
    "last_step": 10,
    "planned_steps": 10,
    "artefact": Artefact("/out", True, True),
    "last_train": {"loss": 1.0},
    "last_eval": None,
}


def test_all_four_facts_make_it_completed():
    assert completed_problems(**GOOD) == []
    assert completed_problems(**{**GOOD, "last_step": 12, "last_eval": {"eval_loss": 2.0}}) == []


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"exit_record": None}, "EXIT_UNKNOWN"),
        ({"exit_record": {"returncode": None, "exec_error": "no such file"}}, "EXEC_FAILED"),
        ({"exit_record": {"returncode": -9, "signal": 9}}, "KILLED_BY_SIGNAL"),
        ({"exit_record": {"returncode": 1}}, "EXIT_STATUS"),
        ({"exit_record": {}}, "EXIT_STATUS"),
        ({"planned_steps": None}, "STEPS_UNKNOWN"),
        ({"last_step": 9}, "STEPS_MISSING"),
        ({"last_step": None}, "STEPS_MISSING"),
        ({"artefact": None}, "ARTEFACT_MISSING"),
        ({"artefact": Artefact("/out", False, False, "no weights")}, "ARTEFACT_MISSING"),
        ({"artefact": Artefact("/out", True, False)}, "DIVERGED"),
        ({"last_train": None}, "METRICS_MISSING"),
        ({"last_train": {"loss": float("nan")}}, "DIVERGED"),
        ({"last_train": {"loss": None}}, "DIVERGED"),
        ({"last_eval": {"eval_loss": float("inf")}}, "DIVERGED"),
    ],
)
def test_each_missing_fact_is_named(changed, code):
    assert [found for found, _ in completed_problems(**{**GOOD, **changed})] == [code]


def test_reasons_say_what_was_found():
    problems = completed_problems(**{**GOOD, "last_step": 6, "artefact": Artefact("/out", False, False, "no weights")})
    assert [message for _, message in problems] == [
        "training stopped at step 6 of 10",
        "the final weights cannot be loaded: no weights",
    ]


TIMES = ("submitted_at", "started_at", "updated_at", "finished_at", "elapsed_s", "eta_s")


@given(
    st.sampled_from([*LIVE, *TERMINAL]),
    st.fixed_dictionaries(
        {name: st.booleans() for name in ("run_lock_held", "training_lock_held", "started", "approved")}
    ),
    st.dictionaries(
        st.sampled_from(TIMES), st.sampled_from(["2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z", -5.0, "x"])
    ),
)
def test_no_time_changes_a_verdict(status, facts, times):
    """A heartbeat from the future, a clock that stepped back: a verdict knows locks, processes and files alone."""
    plain = verdict(Facts(state={"status": status}, **facts))
    timed = verdict(Facts(state={"status": status, **times}, **facts))
    assert (plain.status, plain.action, plain.code) == (timed.status, timed.action, timed.code)
