"""Holding a run that is merely prepared or approved, so that nobody starts or prepares it meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from loopai_trainer.errors import Busy
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import locks
from loopai_trainer.operations import commands
from loopai_trainer.rules.run_state import START
from loopai_trainer.worker.observe import observe


@contextmanager
def not_started(run: RunDir, what: str) -> Iterator[None]:
    """Hold run.lock. Raises Busy if somebody is at the run, or its training was started; `what`: "be approved"."""
    lock = locks.try_exclusive(run.run_lock)
    if lock is None:
        raise Busy(
            f"version {run.version_id} is in use by another process, so it cannot {what} now",
            hint="look at it, and call again when it is free",
            next_command=commands.status(run.path),
        )
    try:
        seen = observe(run, holding_run_lock=True)
        if seen.verdict.action != START:
            raise Busy(
                f"version {run.version_id} is {seen.verdict.status}: it cannot {what} any more",
                hint="prepare a new version",
                next_command=commands.status(run.path),
            )
        yield
    finally:
        os.close(lock)
