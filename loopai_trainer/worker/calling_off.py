"""Calling off a run whose worker a cluster has not begun: whoever cancels it writes its end, since nobody else would.

A worker that begins all the same finds that end under run.lock, and starts nothing (worker.submitted).
"""

from __future__ import annotations

import os
import time

from loopai_trainer import executors
from loopai_trainer.errors import Cancelled, HostUnfit
from loopai_trainer.host import locks
from loopai_trainer.rules.cluster import HERE
from loopai_trainer.worker.cancelling import GRACE_S, read_request
from loopai_trainer.worker.observe import observe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.contract import Submits
    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.worker.observe import Observation

_GONE_S = 10.0
"""How long a job that was stopped may take to be gone, where no lock shows that its worker has not begun."""
_PAUSE_S = 0.5


def call_off(run: RunDir, deadline: float) -> bool:
    """Whether the run was ended here. Nothing is done if a worker has begun, may have, or nobody asked for the end.

    `deadline`: monotonic seconds. Raises HostUnfit DISK_FULL if the end cannot be written.
    """
    if not _waits(run, observe(run, limit_s=deadline - time.monotonic())):
        return False
    fd = locks.try_exclusive(run.run_lock)
    if fd is None:
        return False  # its caller still submits it, or its worker has begun
    try:
        locks.name_holder(fd, f"{run.version_id}: called off by pid {os.getpid()}")
        seen = observe(run, holding_run_lock=True, limit_s=deadline - time.monotonic())
        return _waits(run, seen) and end(run, seen, deadline)
    finally:
        locks.name_holder(fd, "")
        os.close(fd)


def end(run: RunDir, seen: Observation, deadline: float | None = None) -> bool:
    """Have the job stopped, and write that the run was cancelled. The caller holds run.lock, and nothing has begun.

    Where a lock that is held here is not seen there, the end is written once the cluster says that the job is gone;
    False: it does not say so by `deadline` (monotonic seconds), and the request to cancel stands.
    """
    recorded = seen.state["executor"]
    executor = executors.submitting(recorded["name"])
    if executor is None:
        return False
    handle = str(recorded["handle"])
    not_stopped = _stop(executor, handle)
    until = time.monotonic() + _GONE_S
    until = until if deadline is None else min(until, deadline)
    if recorded.get("locks_reach") is not True and not _gone(executor, handle, until):
        return False
    told = f"it could not be stopped ({not_stopped}), but starts nothing any more" if not_stopped else "it was stopped"
    _write(run, seen, f"the run was cancelled before its worker began, as {executor.where(handle)}: {told}")
    return True


def _waits(run: RunDir, seen: Observation) -> bool:
    """Whether the run is to be cancelled, and no worker of it has begun as far as its record and its locks show."""
    return (
        seen.state.get("status") == "queued"
        and (seen.state.get("executor") or {}).get("name") not in (None, *HERE)
        and not locks.held(run.training_lock)
        and not os.path.exists(run.launch_started)
        and read_request(run) is not None
    )


def _stop(executor: Submits, handle: str) -> str:
    """Why the job could not be stopped; empty: it was, or it is none any more."""
    try:
        executor.stop(handle, GRACE_S)
    except HostUnfit as error:
        return "" if error.code == "JOB_UNKNOWN" else error.message
    return ""


def _gone(executor: Submits, handle: str, until: float) -> bool:
    while (lives := executor.alive(handle, until - time.monotonic())) and time.monotonic() < until:
        time.sleep(_PAUSE_S)
    return lives is False


def _write(run: RunDir, seen: Observation, message: str) -> None:
    from loopai_trainer.worker.disk_room import refusal
    from loopai_trainer.worker.ending import EndNotWritten, conclude, short_result
    from loopai_trainer.worker.record import Record

    record = Record(run, {**seen.state, "cancel": read_request(run)})
    error = Cancelled(message, hint="prepare a new version to train")
    try:
        conclude(run, record, short_result(record, "cancelled", error))
    except EndNotWritten as fault:
        raise refusal(run, fault) from None
