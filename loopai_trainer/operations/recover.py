"""recover: the operator's answer to a training that lives without a worker; adopted or ended, never guessed at."""

from __future__ import annotations

import os
import shlex
import time

from loopai_trainer.errors import Orphaned, UsageError
from loopai_trainer.operations import targets, waiting
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.cancel import user_name
from loopai_trainer.operations.status import describe, sentence
from loopai_trainer.worker import recovering
from loopai_trainer.worker.attach import orphaned
from loopai_trainer.worker.observe import living, observe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.operations.waiting import Watcher


def recover(
    version: str,
    scope: targets.Scope,
    *,
    adopt: bool,
    terminate: bool,
    wait_timeout_s: float | None = None,
    watch: Watcher | None = None,
) -> Answer:
    """--adopt: the run's own outcome, like run-prepared. --terminate: the run once nothing of it lives (exit 0).

    Exit 75 at `wait_timeout_s`. Raises UsageError without exactly one wish or for a run that is not orphaned, Orphaned
    for one that cannot be adopted, or of which something could not be ended.
    """
    deadline = None if wait_timeout_s is None else time.monotonic() + wait_timeout_s
    run = targets.find(version, scope)
    if adopt == terminate:
        raise _no_wish(run)
    if adopt:
        worker_pid = recovering.adopt(run)
    else:
        worker_pid = recovering.terminate(run, f"recover --terminate by {user_name()} (pid {os.getpid()})")
    seen = waiting.until_end(run, watch, deadline=deadline, child_pid=worker_pid)
    if seen is None:
        return waiting.still_running("recover", run)
    if adopt:
        return waiting.ended("recover", run, seen)
    _verify(run)
    data = describe(run, seen)
    return Answer("recover", data, status=data["status"], message=sentence(data))


def _verify(run: RunDir) -> None:
    """Raises Orphaned if something of the training lives: another user's process, or one that no signal reaches."""
    seen = observe(run)
    if not living(run, seen.state):
        return
    refusal = orphaned(run, seen, "--terminate")
    raise Orphaned(
        f"some processes of {run.version_id} could not be ended",
        code="NOT_ENDED",
        hint="end them as the user that they belong to",
        next_command=refusal.next_command,
        details=refusal.details,
    )


def _no_wish(run: RunDir) -> UsageError:
    seen = observe(run)
    state = (
        orphaned(run, seen).message
        if seen.verdict.status == "orphaned"
        else f"{run.version_id} is {seen.verdict.status}"
    )
    return UsageError(
        f"{state}; say what is to be done: --adopt or --terminate",
        hint="--adopt starts a worker that watches the training to its end; --terminate ends its whole process tree",
        next_command=shlex.join(["trainer", "recover", run.path, "--adopt"]),
    )
