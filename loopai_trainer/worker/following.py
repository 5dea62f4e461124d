"""Waiting for a run: poll its snapshot, show what changed, stop at the end, at the time limit or when interrupted."""

import os
import time

from loopai_trainer.errors import TrainingFailed
from loopai_trainer.rules.run_state import ATTACH, RETRY, TERMINAL
from loopai_trainer.worker.attach import start_or_attach
from loopai_trainer.worker.observe import Observation, observe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.worker.attach import StartRequest

POLL_S = 0.15
_LOOK_S = 1.0
"""How often the locks are looked at: rarely, since a look can make another caller's attempt to take one fail."""
_REAP_S = 3.0
_MAX_STARTS = 3


class Waited:
    """How a wait ended. `kind`: ended (the run has its last state), unsupervised (nobody watches it, see the verdict),
    time_limit or interrupted (the run goes on).
    """

    __slots__ = ("kind", "observation")

    def __init__(self, kind: str, observation: Observation) -> None:
        self.kind = kind
        self.observation = observation


def run_to_end(
    run: "RunDir",
    sha256: str,
    begin: "Callable[[], StartRequest]",
    *,
    timeout_s: float | None = None,
    on_change: "Callable[[dict[str, Any]], None]" = lambda state: None,
    interrupted: "Callable[[], bool]" = lambda: False,
) -> Waited:
    """Start or attach, then wait; if the worker dies before training was exec'd, do it again (a few times).

    Raises what start_or_attach raises, and TrainingFailed if the worker never gets as far as starting training.
    """
    until = None if timeout_s is None else time.monotonic() + timeout_s
    for _ in range(_MAX_STARTS):
        attachment = start_or_attach(run, sha256, begin)
        if attachment.kind == "finished" and attachment.observation is not None:
            return Waited("ended", attachment.observation)
        left_s = None if until is None else until - time.monotonic()
        waited = wait(
            run,
            timeout_s=left_s,
            on_change=on_change,
            interrupted=interrupted,
            worker_pid=attachment.worker_pid,
        )
        if waited.kind != "unsupervised":
            return waited
    raise TrainingFailed(
        f"the worker of {run.version_id} died {_MAX_STARTS} times before training began",
        code="WORKER_LOST",
        hint=f"look at {run.worker_log}",
    )


def wait(
    run: "RunDir",
    *,
    timeout_s: float | None = None,
    on_change: "Callable[[dict[str, Any]], None]" = lambda state: None,
    interrupted: "Callable[[], bool]" = lambda: False,
    worker_pid: int | None = None,
) -> Waited:
    """Wait for the end of a supervised run. `on_change` gets each new snapshot; `worker_pid` is reaped."""
    now = time.monotonic()
    until = None if timeout_s is None else now + timeout_s
    look_at, stamp = now, None
    while True:
        gone = worker_pid is not None and _reaped(worker_pid)
        worker_pid = None if gone else worker_pid
        new_stamp = _stamp(run.run_state)
        now = time.monotonic()
        if new_stamp != stamp or gone or now >= look_at:
            changed, stamp, look_at = new_stamp != stamp, new_stamp, now + _LOOK_S
            seen = observe(run)
            if changed and seen.state:
                on_change(seen.state)
            if seen.verdict.action not in (ATTACH, RETRY):
                _reap(worker_pid)
                return Waited("ended" if _has_ended(seen) else "unsupervised", seen)
        if interrupted():
            return Waited("interrupted", seen)
        if until is not None and now >= until:
            return Waited("time_limit", seen)
        time.sleep(POLL_S if until is None else max(0.0, min(POLL_S, until - now)))


def _has_ended(seen: Observation) -> bool:
    return seen.state.get("status") in TERMINAL


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    return (stat.st_mtime_ns, stat.st_ino, stat.st_size)


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _reap(pid: int | None) -> None:
    """Collect a worker that is about to leave, so that no zombie stays with a long-lived caller."""
    until = time.monotonic() + _REAP_S
    while pid is not None and not _reaped(pid) and time.monotonic() < until:
        time.sleep(0.01)
