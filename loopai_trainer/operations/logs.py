"""logs: what training printed, or the worker's own log; constant memory whatever their size."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from loopai_trainer.files.log_tail import Follower, tail
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import job_log, targets
from loopai_trainer.operations.answer import Answer
from loopai_trainer.worker.observe import observe

POLL_S = 0.2


def logs(version: str, scope: targets.Scope, count: int, worker: bool = False) -> Answer:
    """The last `count` lines; `source` says where they come from: the file, or a job whose run has no lines yet."""
    run = targets.find(version, scope)
    path = _path(run, worker)
    lines, truncated = tail(path, count)
    data = {"path": path, "lines": lines, "truncated": truncated, "source": path}
    job = job_log.read(run) if not _has_lines(path) else None
    if job is None:
        return Answer("logs", data, message="" if lines else _why_none(run, path))
    shown = job.lines[-count:] if count else []
    data |= {"lines": shown, "truncated": len(shown) < len(job.lines), "source": job.where}
    message = f"{path} has no lines yet; " + ("these are" if shown else "nothing was printed by") + f" {job.where}"
    return Answer("logs", data, message=f"{message}; {job.said}" if job.said else message)


def follow_logs(version: str, scope: targets.Scope, count: int, worker: bool = False) -> Iterator[str]:
    """The last `count` lines, then new ones until the run has ended."""
    run = targets.find(version, scope)
    path = _path(run, worker)
    follower = Follower(path, from_end=True)
    job = None if _has_lines(path) else job_log.Following(run, path)
    yield from tail(path, count, follower.offset)[0]  # what is written from now on is the follower's
    while True:
        goes_on = observe(run).verdict.goes_on
        new = follower.lines()
        job = None if new else job
        yield from new
        if job is not None:
            yield from job.lines(last=not goes_on)
        if not goes_on:
            return
        time.sleep(POLL_S)


def _why_none(run: RunDir, path: str) -> str:
    if not os.path.exists(path) and not os.path.exists(run.run_state):
        return f"version {run.version_id} was never started, so there is no log yet"
    return f"{path} has no lines yet"


def _has_lines(path: str) -> bool:
    try:
        return os.path.getsize(path) > 0
    except OSError:
        return False


def _path(run: RunDir, worker: bool) -> str:
    return run.worker_log if worker else run.train_log
