"""Waiting for a run's end by looking at its files, and what an ended run answers. Light: it runs before training."""

import os
import time

from loopai_trainer.errors import Cancelled, NotFound, Orphaned, TrainingFailed
from loopai_trainer.host import locks
from loopai_trainer.operations import commands
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.status import describe, sentence
from loopai_trainer.rules.run_state import FINISH, ORPHAN
from loopai_trainer.worker.observe import observe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from loopai_trainer.errors import TrainerError
    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.worker.observe import Observation

    Watcher = Callable[[dict[str, Any]], None]

POLL_S = 0.2
WHOLE_LOOK_S = 2.0
REAP_S = 3.0


def until_end(
    run: "RunDir", watch: "Watcher | None", *, deadline: float | None = None, child_pid: int | None = None
) -> "Observation | None":
    """What the run is once no worker is at it; None if `deadline` (monotonic seconds) comes first.

    Raises NotFound RUN_DIR_GONE if its directory is deleted meanwhile.

    `watch` gets the status data whenever it has changed; `child_pid` is a worker to be reaped by this process.
    """
    shown: dict[str, Any] = {}
    glance = _Glance(run)
    while True:
        if glance.same():
            if deadline is not None and time.monotonic() >= deadline:
                return None
            time.sleep(POLL_S)
            continue
        seen = observe(run, limit_s=None if deadline is None else deadline - time.monotonic())
        if child_pid is not None and _reaped(child_pid):
            child_pid = None
        if watch is not None:
            data = {**describe(run, seen), "training_started": os.path.exists(run.launch_started)}
            if data != shown:
                watch(data)
                shown = data
        if not seen.verdict.goes_on:
            if child_pid is not None:
                _reap_soon(child_pid)
            _refuse_deleted(run)
            return seen
        if deadline is not None and time.monotonic() >= deadline:
            return None
        time.sleep(POLL_S)


def _refuse_deleted(run: "RunDir") -> None:
    if not os.path.isdir(run.path):
        raise NotFound(
            f"the run directory {run.path} was deleted while this waited; its worker ends what trains in it",
            code="RUN_DIR_GONE",
            hint="prepare a new version to train again",
        )


class _Glance:
    """Whether a run looks as it did at the last whole look: the cheap part of waiting, five times a second for days."""

    def __init__(self, run: "RunDir") -> None:
        self._run = run
        self._last: tuple[object, ...] = ()
        self._looked_s = 0.0

    def same(self) -> bool:
        """False when the record was written, a lock has changed hands, or the last whole look is some time ago."""
        now_s = time.monotonic()
        seen = (_written(self._run.run_state), locks.held(self._run.run_lock))
        if seen == self._last and seen[1] and now_s - self._looked_s < WHOLE_LOOK_S:
            return True
        self._last, self._looked_s = seen, now_s
        return False


def _written(path: str) -> "tuple[int, int] | None":
    try:
        there = os.stat(path)
    except OSError:
        return None
    return there.st_ino, there.st_mtime_ns


def _reap_soon(pid: int) -> None:
    """Collect a worker that has written its last word and is about to exit: a long caller must keep no zombie."""
    until = time.monotonic() + REAP_S
    while not _reaped(pid) and time.monotonic() < until:
        time.sleep(0.02)


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def still_running(command: str, run: "RunDir") -> Answer:
    """The answer at a time limit: not a failure (interface section 5), exit 75."""
    data = describe(run, observe(run, limit_s=0.0))
    message = sentence(data) + f"; wait on with: {commands.wait(run.path)}"
    return Answer(command, data, status=data["status"], message=message, exit_code=75)


def ended(command: str, run: "RunDir", seen: "Observation") -> Answer:
    """The answer of a run that has ended: its own outcome decides `ok` and the exit code."""
    data = describe(run, seen)
    return Answer(command, data, status=data["status"], message=sentence(data), error=outcome_error(run, seen, data))


def outcome_error(run: "RunDir", seen: "Observation", data: "dict[str, Any]") -> "TrainerError | None":
    """How that answer refuses; `data`: of `status.describe`. None for a run that is completed."""
    return _unended(run, seen, data) or _outcome_error(run, data)


def _unended(run: "RunDir", seen: "Observation", data: "dict[str, Any]") -> "TrainerError | None":
    """What a run needs that nobody watches: an operator if its training lives, else the call that finishes it."""
    if seen.verdict.action == ORPHAN:
        from loopai_trainer.worker.attach import orphaned

        return orphaned(run, seen)
    sha256 = seen.state.get("config_sha256")
    if seen.verdict.action != FINISH or not sha256:
        return None
    error = data["error"]
    return TrainingFailed(
        error["detail"], code=error["code"], hint=error["hint"], next_command=commands.run_prepared(run.config, sha256)
    )


def _export_error(run: "RunDir", data: "dict[str, Any]") -> "TrainerError | None":
    result = data.get("result") or {}
    if result.get("export") != "failed":
        return None
    from loopai_trainer.errors import ExportFailed

    return ExportFailed(
        f"training is completed, but its export failed: {result.get('export_error') or 'see export.log'}",
        hint="the checkpoint is kept: mend the cause, then export again",
        next_command=commands.export(run.path),
    )


def _outcome_error(run: "RunDir", data: "dict[str, Any]") -> "TrainerError | None":
    if data["status"] == "completed":
        return _export_error(run, data)
    found = data.get("error") or {}
    kind = {"cancelled": Cancelled, "orphaned": Orphaned}.get(data["status"], TrainingFailed)
    return kind(
        str(found.get("detail") or f"the run is {data['status']}"),
        code=found.get("code"),
        hint=str(found.get("hint") or f"look at {run.train_log}"),
        next_command=commands.logs(run.path),
        recoverable=found.get("recoverable"),
    )
