"""The shapes of run_state.json and worker_result.json: a file whose values have other types is damaged, not believed.

Pure and light: `status --json` pays for it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_TEXT = (
    *("version_id", "task_id", "phase", "config_sha256", "run_dir", "submitted_at", "started_at", "updated_at"),
    *("finished_at", "mark", "tmp_dir", "framework", "stage", "devices"),
)
_COUNTS = ("attempt", "current_step", "total_steps", "train_examples", "validation_examples")
_NUMBERS = ("loss", "eval_loss", "learning_rate", "eta_s", "elapsed_s")
_BLOCKS = ("error", "worker", "keeper", "training", "caller", "executor", "cancel", "tree")

_RESULT_TEXT = ("task_id", "trainer_version_id", "config_sha256", "run_dir", "update_model_path", "finished_at")
_RESULT_BLOCKS = ("best_checkpoint", "best_metric", "error", "exit", "last_state")

_ERROR = {"type": str, "code": str, "detail": str, "hint": str, "message": str, "recoverable": bool, "problems": list}


def state_problem(state: "Mapping[str, Any]") -> str:
    """What of run_state.json has the wrong type, as 'has ...'; '' if nothing has. Absent and null are fine."""
    return (
        _wrong(state, _TEXT, _is_text)
        or _wrong(state, _COUNTS, _is_count)
        or _wrong(state, _NUMBERS, _is_number)
        or _wrong(state, _BLOCKS, _is_block)
        or _error_problem(state.get("error"))
        or _tree_problem(state.get("tree"))
    )


def result_problem(result: "Mapping[str, Any]") -> str:
    """What makes worker_result.json not a whole result, as 'has ...'; '' if it is one."""
    missing = [
        name
        for name in ("status", "attempt", "trainer_version_id", "checkpoints", "result")
        if not result.get(name) and result.get(name) != []
    ]
    if missing:
        return f"has no {missing[0]}"
    if not isinstance(result["checkpoints"], list) or not all(isinstance(one, dict) for one in result["checkpoints"]):
        return "has checkpoints that are no list of objects"
    return (
        _wrong(result, ("status", *_RESULT_TEXT), _is_text)
        or _wrong(result, ("attempt",), _is_count)
        or _wrong(result, ("duration_s",), _is_number)
        or _wrong(result, ("result", *_RESULT_BLOCKS), _is_block)
        or _error_problem(result.get("error"))
        or state_problem(result.get("last_state") or {})
    )


def _wrong(values: "Mapping[str, Any]", names: "tuple[str, ...]", fits: "Any") -> str:
    for name in names:
        value = values.get(name)
        if value is not None and not fits(value):
            return f"has a {name} of the wrong type ({type(value).__name__})"
    return ""


def _error_problem(error: "Mapping[str, Any] | None") -> str:
    for name, kind in _ERROR.items():
        value = None if error is None else error.get(name)
        if value is not None and not isinstance(value, kind):
            return f"has an error.{name} of the wrong type ({type(value).__name__})"
    return ""


def _tree_problem(tree: "Mapping[str, Any] | None") -> str:
    members = [] if tree is None else tree.get("members", [])
    if isinstance(members, list) and all(isinstance(one, list) and len(one) == 2 for one in members):
        return ""
    return "has a process tree of the wrong form"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_block(value: object) -> bool:
    return isinstance(value, dict)
