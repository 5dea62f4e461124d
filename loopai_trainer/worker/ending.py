"""The end of a run, written down once: worker_result.json first, then the last state; taken up again, never redone."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any

from loopai_trainer.errors import TrainerError
from loopai_trainer.files import atomic, result_file
from loopai_trainer.files.event_log import utc_text
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.rules import secrets
from loopai_trainer.worker.disk_room import free_room
from loopai_trainer.worker.handover import Handover
from loopai_trainer.worker.launching import own_tmp
from loopai_trainer.worker.record import Record, tell

_WRITE_TRIES = 30
_RETRY_S = 1.0

_LAST_STATE = (
    *("submitted_at", "started_at", "current_step", "total_steps", "train_examples", "validation_examples"),
    *("loss", "eval_loss", "learning_rate", "framework", "stage", "executor", "tmp_dir", "mark"),
)
"""What a lost run_state.json is made from again, beside the result itself."""


class EndNotWritten(OSError):
    """The end of a run could not be written in time; the next call takes it up from the files."""


def stored_result(run: RunDir, attempt: int) -> dict[str, Any] | None:
    """The whole result of this attempt, if a worker got as far as writing it."""
    result = result_file.read(run)
    return result if result is not None and result["attempt"] == attempt else None


def conclude(run: RunDir, record: Record, result: Mapping[str, Any]) -> str:
    """Write the result and the last state, remove caches; returns the status.

    Raises EndNotWritten after half a minute in which the disk took neither.
    """
    status = str(result["status"])
    whole = {
        "schema_version": result_file.SCHEMA_VERSION,
        "attempt": record.state.get("attempt", 1),
        "finished_at": utc_text(time.time()),
        **_bare_result(record, status),
        **secrets.redacted_value(dict(result), secrets.environment_values(os.environ)),
        "last_state": {name: record.state[name] for name in _LAST_STATE if record.state.get(name) is not None},
    }
    tries = _Tries(run, record)
    if stored_result(run, int(record.state.get("attempt", 1))) is None:
        tries.insist(lambda: _write_result(run, whole))
    remove_caches(run, record.state)
    error = whole.get("error")
    message = str(error.get("detail", "")) if isinstance(error, dict) else ""
    handover = Handover(run, record)
    tries.insist(lambda: record.end(status, message, lambda: handover.ended(whole), error=error))
    free_room(run)
    return status


def short_result(record: Record, status: str, error: TrainerError) -> dict[str, Any]:
    """The result of a run that ended before there was anything to analyse."""
    return {**_bare_result(record, status), "error": error_json(error)}


def _bare_result(record: Record, status: str) -> dict[str, Any]:
    state = record.state
    return {
        "task_id": state.get("task_id"),
        "trainer_version_id": state.get("version_id"),
        "status": status,
        "config_sha256": state.get("config_sha256"),
        "run_dir": state.get("run_dir"),
        "best_checkpoint": None,
        "best_metric": None,
        "update_model_path": None,
        "checkpoints": [],
        "result": {"status": status},
        "error": None,
    }


def error_json(error: TrainerError) -> dict[str, Any]:
    """The error of a result and of a state: type, code, detail, recoverable, hint, problems."""
    return {
        **error.brief(),
        "problems": [],
    }


def remove_caches(run: RunDir, state: Mapping[str, Any]) -> None:
    """Remove launch/cache, launch/tmp and the short TMPDIR outside the run; what cannot be removed is only told."""
    outside = str(state.get("tmp_dir") or "")
    for path in (run.cache, run.tmp, outside if own_tmp(outside) else ""):
        if path and os.path.isdir(path):
            shutil.rmtree(path, onerror=lambda _, name, info: tell(f"not removed: {name}: {info[1]}"))


def _write_result(run: RunDir, whole: Mapping[str, Any]) -> None:
    if os.path.exists(run.result):  # damaged, or not of this attempt: kept, but it must not speak for this run
        result_file.set_aside(run)
    atomic.write_json(run.result, whole)


class _Tries:
    """Writes again and again, half a minute in all, while the disk is full: else nobody learns how the run ended."""

    def __init__(self, run: RunDir, record: Record) -> None:
        self.run = run
        self.record = record
        self.left = _WRITE_TRIES

    def insist(self, write: Callable[[], None]) -> None:
        """Write. Raises EndNotWritten when no try is left."""
        while True:
            try:
                write()
                return
            except OSError as error:
                tell(f"the end of the run cannot be written: {error}")
                free_room(self.run)
                remove_caches(self.run, self.record.state)
                self.left -= 1
                if self.left <= 0:
                    raise EndNotWritten(error.errno, f"the end of the run could not be written: {error}") from error
                time.sleep(_RETRY_S)
