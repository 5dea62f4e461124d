"""run_state.json written again after it was lost or damaged: from the run's result and from what was started."""

from __future__ import annotations

import os

from loopai_trainer.files import state_file
from loopai_trainer.files.event_log import utc_text
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import locks
from loopai_trainer.rules.run_state import ANSWER, LIVE
from loopai_trainer.worker.ending import remove_caches
from loopai_trainer.worker.observe import observe, read_started
from loopai_trainer.worker.record import tell


def restore(run: RunDir) -> None:
    """Write the record of an ended run anew, under run.lock; a damaged one is kept aside.

    If it cannot be written nothing is lost: every reader goes by worker_result.json.
    """
    try:
        fd = locks.try_exclusive(run.run_lock)
    except OSError as error:
        tell(f"{run.run_lock}: {error}")
        return
    if fd is None:
        return  # somebody else is at it
    try:
        _restore(run)
    except OSError as error:
        tell(f"{run.run_state}: {error}")
    finally:
        os.close(fd)


def _restore(run: RunDir) -> None:
    seen = observe(run, holding_run_lock=True)
    if not seen.damaged or seen.verdict.action != ANSWER:
        return
    former = state_file.read(run).state
    if os.path.exists(run.run_state) and (former is None or former["status"] not in LIVE):
        state_file.set_aside(run)
    state = {**seen.state, **read_started(run)}
    if state.get("started_at") is None and os.path.exists(run.launch_started):
        state["started_at"] = utc_text(os.stat(run.launch_started).st_mtime)
    remove_caches(run, state)
    state_file.write(run, state)
