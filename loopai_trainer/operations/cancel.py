"""cancel: ask the run's worker to stop the whole process tree, and wait until it has; checkpoints stay."""

from __future__ import annotations

import getpass
import os
import time

from loopai_trainer.errors import UsageError
from loopai_trainer.operations import targets, waiting
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.status import describe, sentence
from loopai_trainer.rules.run_state import ORPHAN
from loopai_trainer.worker import calling_off
from loopai_trainer.worker.attach import orphaned
from loopai_trainer.worker.cancelling import request_cancel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.worker.observe import Observation

_LOOK_S = 1.0
"""How often it is looked whether a run's job waits on a cluster."""


def cancel(version: str, scope: targets.Scope, timeout_s: float) -> Answer:
    """The run as it is once it has stopped; exit 75 if it has not within `timeout_s`.

    Raises UsageError for a run that has not been started, Orphaned where no worker lives to do it.
    """
    run = targets.find(version, scope)
    deadline = time.monotonic() + timeout_s
    asked, seen = request_cancel(run, f"{user_name()} (pid {os.getpid()})", limit_s=timeout_s)
    if seen.verdict.action == ORPHAN:
        raise orphaned(run, seen, "--terminate")
    if not asked and seen.verdict.status in ("prepared", "approved"):
        raise UsageError(f"{run.version_id} has not been started", code="NOT_STARTED", hint="there is nothing to stop")
    if asked:
        ended = _stopped(run, deadline)
        if ended is None:
            return waiting.still_running("cancel", run)
        seen = ended
    data = describe(run, seen)
    return Answer("cancel", data, status=data["status"], message=sentence(data))


def _stopped(run: RunDir, deadline: float) -> Observation | None:
    """The run once it has stopped; None at the deadline. One whose job still waits on a cluster is ended here.

    Again and again: its caller may be about to submit it.
    """
    while True:
        calling_off.call_off(run, deadline)
        soon = min(deadline, time.monotonic() + _LOOK_S)
        ended = waiting.until_end(run, None, deadline=soon)
        if time.monotonic() >= deadline or (ended is not None and ended.verdict.code != "JOB_FAILED"):
            return ended


def user_name() -> str:
    """Who asks, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
