"""status: what a run is now, from its locks, records and files. Reads only; light, since agents poll it."""

import os

from loopai_trainer.operations import targets
from loopai_trainer.operations.answer import Answer
from loopai_trainer.worker.observe import observe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.worker.observe import Observation

_PROGRESS = ("phase", "current_step", "total_steps", "started_at", "updated_at")
_EXTRA = ("loss", "eval_loss", "learning_rate", "attempt")
_LOG_LINES = 5
_UNHAPPY = ("failed", "orphaned")
_HINTS = {
    "DISK_FULL": "free space on the disk of the run directory, then make the same run-prepared call again",
    "ORPHANED_TRAINING": "trainer recover --adopt gives it a new worker, trainer recover --terminate ends it",
    "CLUSTER_UNREACHABLE": "see to the cluster's head; one that is started anew says that the job is gone",
    "JOB_FAILED": "mend what the cluster says, then make the same run-prepared call again",
    "TRAINING_UNSEEN": "look at it on that host, which sees what is left there",
    "WORKER_STOPPED": "let it go on with: kill -CONT and the number of that process",
    "WORKER_LOST": "make the same run-prepared call again: it finishes what can be finished",
}
RESULTS = ("best_checkpoint", "best_metric", "update_model_path", "checkpoints", "result", "duration_s")


def status(version: str, scope: targets.Scope) -> Answer:
    """The status answer of a version or run directory; a failed run is a good answer (exit 0). Raises NotFound."""
    run = targets.find(version, scope)
    targets.refuse_unplanned(run)
    seen = observe(run)
    data = describe(run, seen)
    if data["status"] in _UNHAPPY:
        data["error"] = _with_advice(run, seen, data)
    return Answer("status", data, status=data["status"], message=sentence(data))


def describe(run: "RunDir", seen: "Observation") -> "dict[str, Any]":
    """The data of `status --json` (interface section 5); results are there once the run has ended."""
    state = seen.state
    data: dict[str, Any] = {
        "task_id": state.get("task_id") or os.path.basename(targets.open_run(run.path).task.path),
        "trainer_version_id": run.version_id,
        "status": seen.verdict.status,
        **{name: state.get(name) for name in _PROGRESS},
        "config_sha256": state.get("config_sha256") or _present_hash(run),
        "run_dir": run.path,
        **{name: state[name] for name in _EXTRA if state.get(name) is not None},
    }
    if seen.verdict.status == "running" and state.get("eta_s") is not None:
        data["eta_s"] = state["eta_s"]
    if seen.verdict.status == "finalizing":
        data["phase"] = "finalizing"  # the record may be older than what the processes show
    if seen.verdict.code:
        data["error"] = _verdict_error(run, seen)
    elif state.get("error"):
        data["error"] = state["error"]
    if seen.verdict.status in ("completed", "failed", "cancelled"):
        result = seen.result or {}
        data |= {name: result.get(name) for name in RESULTS}
        data["error"] = result.get("error") or data.get("error")
    return data


def sentence(data: "dict[str, Any]") -> str:
    """One line for people."""
    text = f"{data['trainer_version_id']} is {data['status']}"
    if data.get("current_step") is not None and data["status"] not in ("completed", "prepared"):
        text += f" at step {data['current_step']} of {data.get('total_steps') or '?'}"
    error = data.get("error")
    if error:
        text += f": {error.get('detail') or error.get('message') or error.get('code')}"
    return text


def _verdict_error(run: "RunDir", seen: "Observation") -> "dict[str, Any]":
    from loopai_trainer.files import log_tail

    error: dict[str, Any] = {"code": seen.verdict.code, "detail": seen.verdict.message}
    if seen.verdict.code in _HINTS:
        error["hint"] = _HINTS[seen.verdict.code]
    if seen.verdict.code in ("WORKER_LOST", "DISK_FULL"):
        error |= {"recoverable": True, "log_tail": log_tail.tail(run.train_log, _LOG_LINES)[0]}
    return error


def _with_advice(run: "RunDir", seen: "Observation", data: "dict[str, Any]") -> "dict[str, Any]":
    """The error with what `wait` would say to do next and, of a failed run, what training said last."""
    from loopai_trainer.files import log_tail
    from loopai_trainer.operations import waiting

    refusal = waiting.outcome_error(run, seen, data)
    told = dict(data.get("error") or {})
    if refusal is not None:
        told["hint"] = told.get("hint") or refusal.hint
        told["next_command"] = refusal.next_command
    if seen.verdict.status == "failed" and "log_tail" not in told:
        told["log_tail"] = log_tail.tail(run.train_log, _LOG_LINES)[0]
    return told


def _present_hash(run: "RunDir") -> str | None:
    from loopai_trainer.rules import digest

    try:
        with open(run.config, "rb") as file:
            return digest.sha256(file.read())
    except OSError:
        return None
