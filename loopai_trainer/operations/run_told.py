"""What a caller tells LoopAI's task store where no worker can: an orphan, and what the last worker could not write."""

from __future__ import annotations

import os
from collections.abc import Callable

from loopai_trainer.errors import TaskStoreError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import locks
from loopai_trainer.worker import handover
from loopai_trainer.worker.attach import orphaned
from loopai_trainer.worker.observe import Observation, observe
from loopai_trainer.worker.record import tell


def tell_orphaned(run: RunDir, seen: Observation) -> None:
    """Say that training lives without a worker; a store that cannot be written changes nothing of the refusal."""
    try:
        handover.tell_orphaned(run, seen.state, orphaned(run, seen))
    except TaskStoreError as fault:
        tell(fault.message)


def tell_changed(run: RunDir) -> None:
    """Say what has changed in the result of an ended run (an export made since). The caller holds run.lock."""
    try:
        handover.tell_again(run, observe(run, holding_run_lock=True).state)
    except (TaskStoreError, OSError) as fault:
        tell(str(fault))


def tell_again(run: RunDir, seen: Observation, talk: Callable[[str], None]) -> None:
    """Write the results of an ended run that its worker could not write; `talk` hears if it fails again."""
    fd = locks.try_exclusive(run.run_lock)
    if fd is None:
        return  # somebody else is at it
    try:
        handover.tell_again(run, seen.state)
    except (TaskStoreError, OSError) as fault:
        talk(f"the task store still does not know of this run: {fault}")
    finally:
        os.close(fd)
