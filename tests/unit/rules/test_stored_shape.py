import pytest

from loopai_trainer.rules.run_state import believed
from loopai_trainer.rules.stored_shape import result_problem, state_problem

RESULT = {
    "status": "completed",
    "attempt": 1,
    "trainer_version_id": "v1",
    "config_sha256": "a",
    "checkpoints": [{"name": "checkpoint-1"}],
    "result": {"status": "completed"},
    "error": None,
}


def test_whole_records_have_no_problem():
    assert state_problem({"status": "running", "attempt": 1, "error": None, "tree": {"members": [[1, 2]]}}) == ""
    assert result_problem(RESULT) == ""
    assert result_problem({**RESULT, "checkpoints": [], "error": {"code": "X", "recoverable": True}}) == ""


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"error": 7}, "error"),
        ({"error": {"code": 7}}, "error.code"),
        ({"error": {"recoverable": "yes"}}, "error.recoverable"),
        ({"attempt": "1"}, "attempt"),
        ({"attempt": True}, "attempt"),
        ({"current_step": -1}, "current_step"),
        ({"loss": "low"}, "loss"),
        ({"worker": [1]}, "worker"),
        ({"config_sha256": 5}, "config_sha256"),
        ({"tree": {"members": 5}}, "tree"),
        ({"tree": {"members": [[1]]}}, "tree"),
    ],
)
def test_a_state_of_other_types_is_damaged(values, name):
    assert name in state_problem({"status": "running", **values})


@pytest.mark.parametrize(
    "values",
    [
        {"checkpoints": 5},
        {"checkpoints": [5]},
        {"best_checkpoint": "x"},
        {"result": 5},
        {"result": None},
        {"attempt": None},
        {"attempt": "1"},
        {"trainer_version_id": None},
        {"status": 5},
        {"error": "bad"},
        {"duration_s": "long"},
        {"last_state": {"current_step": "x"}},
    ],
)
def test_a_result_of_other_types_is_no_result(values):
    assert result_problem({**RESULT, **values})


def state(**values):
    return {"status": "completed", "attempt": 1, "config_sha256": "a", **values}


def test_a_state_that_fits_its_result_is_believed_as_it_is():
    assert believed(state(x=1), RESULT, started=True, run_lock_held=False) == (state(x=1), "")


@pytest.mark.parametrize("found", [None, state(status="cancelled"), {"status": "completed"}, state(status="running")])
def test_the_result_wins(found):
    got, doubt = believed(found, RESULT, started=True, run_lock_held=False)
    assert (got["status"], got["attempt"], got["config_sha256"]) == ("completed", 1, "a")
    assert doubt


@pytest.mark.parametrize("status", ["completed", "cancelled", "failed"])
@pytest.mark.parametrize("result", [None, {**RESULT, "attempt": 2}])
def test_an_end_without_its_result_is_no_end(status, result):
    got, doubt = believed(state(status=status), result, started=True, run_lock_held=False)
    assert got["status"] == "finalizing"
    assert "worker_result.json" in doubt


def test_a_failure_before_training_needs_no_result():
    assert believed(state(status="failed"), None, started=False, run_lock_held=False) == (state(status="failed"), "")


def test_a_worker_at_work_is_not_overruled_by_an_older_result():
    assert believed(state(status="running"), RESULT, started=True, run_lock_held=True) == (state(status="running"), "")
