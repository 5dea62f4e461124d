"""logs: what training printed, or the worker's own log; constant memory whatever their size."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from loopai_trainer.files.log_tail import Follower, tail
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import targets
from loopai_trainer.operations.answer import Answer
from loopai_trainer.worker.observe import observe

POLL_S = 0.2


def logs(version: str, scope: targets.Scope, count: int, worker: bool = False) -> Answer:
    """The last `count` lines."""
    run = targets.find(version, scope)
    path = _path(run, worker)
    lines, truncated = tail(path, count)
    message = "" if lines else _why_none(run, path)
    return Answer("logs", {"path": path, "lines": lines, "truncated": truncated}, message=message)


def follow_logs(version: str, scope: targets.Scope, count: int, worker: bool = False) -> Iterator[str]:
    """The last `count` lines, then new ones until the run has ended."""
    run = targets.find(version, scope)
    path = _path(run, worker)
    follower = Follower(path, from_end=True)
    yield from tail(path, count, follower.offset)[0]  # what is written from now on is the follower's
    while True:
        goes_on = observe(run).verdict.goes_on
        yield from follower.lines()
        if not goes_on:
            return
        time.sleep(POLL_S)


def _why_none(run: RunDir, path: str) -> str:
    if not os.path.exists(path) and not os.path.exists(run.run_state):
        return f"version {run.version_id} was never started, so there is no log yet"
    return f"{path} has no lines yet"


def _path(run: RunDir, worker: bool) -> str:
    return run.worker_log if worker else run.train_log
