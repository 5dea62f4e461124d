"""Ending a run's processes: all of its own, by identity, and nobody else's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import locks, processes
from loopai_trainer.worker.observe import living, read_started
from loopai_trainer.worker.record import Record

_SETTLE_S = 3.0
"""What training's helpers (data loaders, a launcher's ranks) get to leave by themselves after its end."""
_SWEEP_GRACE_S = 10.0
_KEEPER_S = 10.0


def stop_training(run: RunDir, record: Record, grace_s: float) -> list[processes.Identity]:
    """SIGTERM to the whole tree, `grace_s`, SIGKILL; returns who still lives. The keeper stays, to write exit.json."""
    return processes.terminate(lambda: _targets(run, record), grace_s=grace_s)


def sweep(run: RunDir, record: Record) -> list[processes.Identity]:
    """After training's end: give leftovers a moment, then end them; returns who still lives."""
    wait_until(lambda: not locks.held(run.training_lock), _SETTLE_S)
    survivors = processes.terminate(lambda: _targets(run, record), grace_s=_SWEEP_GRACE_S, pause_s=0.1)
    if not survivors:
        wait_until(lambda: not locks.held(run.training_lock), _KEEPER_S)
    return survivors


def wait_until(condition: Callable[[], bool], limit_s: float, pause_s: float = 0.02) -> bool:
    """Wait for a condition; False if it did not come true in time."""
    until = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(pause_s)
    return True


def _targets(run: RunDir, record: Record) -> list[processes.Identity]:
    keeper = (read_started(run).get("keeper") or {}).get("pid")
    return [one for one in living(run, record.state) if one["pid"] not in (keeper, os.getpid())]
