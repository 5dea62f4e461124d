"""What the nodes of the TrainerAgent make of a state's `trainer` section: a round's begin, events, answers, summary.

It knows no LangGraph. A section holds plain JSON values alone, so that any checkpointer can keep it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from loopai_trainer.errors import ApprovalError
from loopai_trainer.files import event_log
from loopai_trainer.operations.answer import failure
from loopai_trainer.operations.version_id import uuid7

Section = dict[str, Any]

CONTEXT = "trainer_context_id"
"""The section's key for the task, which every event names."""

APPROVED = "trainer_approved_config_sha256"
"""The section's key for the hash that a person has approved."""

_OUTCOMES = ("trainer_", "train_output_", "training_")
_SETTINGS = ("trainer_persistent_worker",)
"""A setting of that kind; `trainer_version_id` and `trainer_output_dir` are both, and belong to one round alone."""

_ASKS_AGAIN = ("ApprovalError", "PlanChanged")
_USED = "APPROVAL_USED"

_OUTPUT_FILES = {
    "config": "train_output_config_path",
    "config_explanation": "trainer_config_explanation_path",
    "data_check_report": "train_output_data_check_report_path",
    "training_log": "train_output_training_log_path",
    "training_report": "train_output_training_report_path",
    "swanlab_log": "train_output_swanlab_log_path",
    "events": "trainer_event_log_path",
    "best_checkpoint": "trainer_best_checkpoint_path",
    "model": "update_model_path",
}
"""Name in the summary -> key of the section with its path."""


def begun(section: Mapping[str, Any]) -> Section:
    """The section at the begin of a round: without what came of the round before, and with a version id of its own."""
    kept = dict(section) if isinstance(section, Mapping) else {}  # what is no section holds no settings
    if kept.get("trainer_result") is not None:
        kept = {key: value for key, value in kept.items() if not key.startswith(_OUTCOMES) or key in _SETTINGS}
    if not kept.get("trainer_version_id"):
        kept["trainer_version_id"] = uuid7()
    return kept


def event(section: Mapping[str, Any], node: str, status: str, message: str, **more: Any) -> dict[str, Any]:
    """A StreamEvent (spec/001 "Events") for the graph's custom stream. `more`: progress, progress_num, total, data."""
    result = section.get("trainer_result") or {}
    task_id = (result.get("data") or {}).get("task_id") or section.get(CONTEXT)
    shape = {"progress": None, "progress_num": None, "total": None, "data": None}
    return {
        "current": event_log.CURRENT,
        "node": node,
        "status": status,
        "message": message,
        **shape,
        **more,
        "context_id": task_id,
        "version_id": section.get("trainer_version_id"),
        "error": result.get("error") if status == "failed" else None,
        "time": event_log.utc_text(time.time()),
    }


class ByteProgress:
    """Hears how far reading, hashing and measuring are, and tells each percent of it once."""

    def __init__(self, section: Mapping[str, Any], node: str, write: Callable[[Any], None]) -> None:
        self._section, self._node, self._write = section, node, write
        self._told: tuple[str, int] = ("", -1)

    def __call__(self, what: str, done: int, total: int) -> None:
        """`done` of `total`, in bytes or rows."""
        percent = done * 100 // total if total else 100
        if (what, percent) != self._told:
            self._told = (what, percent)
            share = {"progress": percent / 100, "progress_num": done, "total": total}
            self._write(event(self._section, self._node, "running", what, **share))


class StepProgress:
    """Hears the status data of a run whenever it has changed, and tells it."""

    def __init__(self, section: Mapping[str, Any], node: str, write: Callable[[Any], None]) -> None:
        self._section, self._node, self._write = section, node, write

    def __call__(self, data: Mapping[str, Any]) -> None:
        """`data`: as `status --json`."""
        step, total = data.get("current_step"), data.get("total_steps")
        share, at = {}, str(data.get("phase") or data["status"])
        if isinstance(step, int) and isinstance(total, int) and total > 0:
            share = {"progress": step / total, "progress_num": step, "total": total}
            at = f"step {step} of {total}"
        names = ("status", "phase", "current_step", "total_steps", "started_at", "updated_at", "run_dir")
        told = {name: data.get(name) for name in names}
        self._write(event(self._section, self._node, str(data["status"]), at, **share, data=told))


def data_passed(result: Mapping[str, Any]) -> bool:
    """Whether prepare's envelope says that the data are good, though the configuration may not be."""
    error = result["error"]
    if error is None:
        return True
    faults = {problem["where"] for problem in error.get("problems", ()) if problem["severity"] == "error"}
    return error["type"] == "ConfigError" and not faults & {"train", "validation"}


def given_up(told: object) -> bool:
    """Whether the value that the graph was resumed with says no: False, nothing, or `{"approved": False}`."""
    return told in (False, None, "") or (isinstance(told, Mapping) and told.get("approved") is False)


def approved_hash(told: object) -> str | None:
    """The hash that the graph was resumed with, by itself or as `{"config_sha256": ...}`; None if there is none."""
    found = told.get("config_sha256") if isinstance(told, Mapping) else told
    return found if isinstance(found, str) and found else None


def asks_again(result: Mapping[str, Any]) -> bool:
    """Whether a start was refused in such a way that a person may still approve the plan; nothing has started then."""
    error = result["error"]
    return error is not None and error["type"] in _ASKS_AGAIN and error["code"] != _USED


def no_hash(section: Section) -> Section:
    """The section after an answer that is neither a hash nor a no."""
    error = ApprovalError(
        "the graph was resumed without the hash of the approved YAML",
        code="NOT_APPROVED",
        hint="resume it with the config_sha256 that was shown and approved, or with False to give up",
    )
    return {**section, "trainer_last_error": failure("approve", error).envelope()["error"]}


def not_approved(section: Section) -> Section:
    """The section of a round that a person has said no to."""
    error = ApprovalError(
        "the YAML was not approved; nothing was started",
        code="NOT_APPROVED",
        hint="change what is to be changed and start a new round",
        next_command=str(((section.get("trainer_result") or {}).get("data") or {}).get("next_command") or ""),
    )
    result = failure("approve", error).envelope()
    return {
        **section,
        "trainer_result": result,
        "trainer_last_error": result["error"],
        "trainer_training_success": False,
    }


def summary(section: Mapping[str, Any], *, waits: bool) -> dict[str, Any]:
    """`TrainerAgent.get_training_summary`; `waits`: the graph waits for a person."""
    result = section.get("trainer_result") or {}
    files = {name: section.get(key) for name, key in _OUTPUT_FILES.items()}
    return {
        "final_status": "awaiting_approval" if waits else _final_status(section, result),
        "output_files": {name: path for name, path in files.items() if isinstance(path, str) and os.path.exists(path)},
        "trainer_version_id": section.get("trainer_version_id"),
        "best_checkpoint": section.get("trainer_best_checkpoint"),
        "best_metric": section.get("trainer_best_metric"),
        "update_model_path": section.get("update_model_path"),
        "execution_time_s": section.get("trainer_training_execution_time"),
        "missing_fields": list(section.get("trainer_missing_fields") or ()),
        "message": result.get("message", ""),
        "error": section.get("trainer_last_error"),
    }


def _final_status(section: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    if not result:
        return "missing_fields" if section.get("trainer_missing_fields") else "not_started"
    error = result.get("error") or {}
    return "not_approved" if error.get("code") == "NOT_APPROVED" else str(result["status"])
