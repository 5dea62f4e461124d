"""Asking a run to stop: a request that its worker finds, so that one process alone decides and signals."""

import os
import time

from loopai_trainer.errors import HostUnfit
from loopai_trainer.files import atomic
from loopai_trainer.files.event_log import utc_text
from loopai_trainer.host import processes
from loopai_trainer.rules.run_state import ATTACH
from loopai_trainer.worker.observe import Observation, observe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir

_SIGTERM = 15
GRACE_S = 30.0
"""Time between SIGTERM and SIGKILL: torchrun needs 3 s to end its ranks, a checkpoint being written longer.

Source: measured with LLaMA-Factory 0.9.5.
"""


def request_cancel(
    run: "RunDir", requested_by: str, grace_s: float = GRACE_S, *, limit_s: float | None = None
) -> tuple[bool, Observation]:
    """(whether somebody was there to be asked, the run as it was seen). The caller waits for the end itself.

    Nothing is written for a run that has ended, has not started, or is orphaned: see the verdict. A request that cannot
    be written (disk full) is made as SIGTERM to the worker. Raises HostUnfit if that cannot be either.
    `limit_s`: what the caller's time limit leaves, where a cluster has to be asked.
    """
    seen = observe(run, limit_s=limit_s)
    if seen.verdict.action != ATTACH:
        return False, seen
    request: dict[str, Any] = {
        "requested_by": requested_by,
        "at": utc_text(time.time()),
        "grace_s": grace_s,
        "process": processes.own_identity(),
    }
    try:
        atomic.write_json(run.cancel_request, request)
    except OSError as error:
        _signal_worker(run, seen, error)
    return True, seen


def _signal_worker(run: "RunDir", seen: Observation, error: OSError) -> None:
    """SIGTERM to exactly the recorded worker, which takes it as a request to cancel."""
    worker = seen.state.get("worker")
    try:
        if worker and processes.alive(worker) and processes.send(worker, _SIGTERM):
            return
    except PermissionError:
        pass  # somebody else's worker: told below
    raise HostUnfit(
        f"the request to stop cannot be written, and the run's worker cannot be signalled: {error}",
        code="DISK_FULL" if atomic.means_full(error) else "REQUEST_NOT_WRITTEN",
        hint=f"make {run.cancel_request} writable (space, permissions), then cancel again",
    )


def read_request(run: "RunDir") -> "dict[str, Any] | None":
    """The request, if there is one; a torn one counts with its defaults."""
    if not os.path.exists(run.cancel_request):
        return None
    try:
        return atomic.read_json(run.cancel_request) or {}
    except (ValueError, RecursionError):
        return {}
