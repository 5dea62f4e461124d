"""The end of a run, written down once: worker_result.json first, then the last state; taken up again, never redone."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from typing import Any

from loopai_trainer.errors import TrainerError
from loopai_trainer.files import atomic
from loopai_trainer.files.event_log import utc_text
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.worker.launching import own_tmp
from loopai_trainer.worker.observe import read_result
from loopai_trainer.worker.record import Record, tell

RESULT_SCHEMA_VERSION = 1
_WRITE_TRIES = 30
_RETRY_S = 1.0


def stored_result(run: RunDir, attempt: int) -> dict[str, Any] | None:
    """The whole result of this attempt, if a worker got as far as writing it."""
    result = read_result(run)
    if result is None or result.get("attempt") != attempt or "status" not in result:
        return None
    return result


def conclude(run: RunDir, record: Record, result: Mapping[str, Any]) -> str:
    """Write the result and the last state, remove caches; returns the status. Raises OSError if that cannot be."""
    whole = {
        "schema_version": RESULT_SCHEMA_VERSION,
        "attempt": record.state.get("attempt", 1),
        "finished_at": utc_text(time.time()),
        **result,
    }
    status = str(whole["status"])
    if stored_result(run, int(record.state.get("attempt", 1))) is None:
        _insist(lambda: atomic.write_json(run.result, whole))
    remove_caches(run, record.state)
    error = whole.get("error")
    message = str(error.get("detail", "")) if isinstance(error, dict) else ""
    _insist(lambda: record.end(status, message, error=error))
    return status


def short_result(record: Record, status: str, error: TrainerError) -> dict[str, Any]:
    """The result of a run that ended before there was anything to analyse."""
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
        "error": error_json(error),
    }


def error_json(error: TrainerError) -> dict[str, Any]:
    """The error of a result and of a state: type, code, detail, recoverable, hint, problems."""
    return {
        "type": type(error).__name__,
        "code": error.code,
        "detail": error.message,
        "recoverable": error.recoverable,
        "hint": error.hint,
        "problems": [],
    }


def remove_caches(run: RunDir, state: Mapping[str, Any]) -> None:
    """Remove launch/cache, launch/tmp and the short TMPDIR outside the run; what cannot be removed is only told."""
    outside = str(state.get("tmp_dir") or "")
    for path in (run.cache, run.tmp, outside if own_tmp(outside) else ""):
        if path and os.path.isdir(path):
            shutil.rmtree(path, onerror=lambda _, name, info: tell(f"not removed: {name}: {info[1]}"))


def _insist(write: Any) -> None:
    """Write, again and again for half a minute while the disk is full: without it nobody learns how the run ended."""
    for turn in range(_WRITE_TRIES):
        try:
            write()
            return
        except OSError as error:
            tell(f"the end of the run cannot be written: {error}")
            if turn + 1 == _WRITE_TRIES:
                raise
            time.sleep(_RETRY_S)
