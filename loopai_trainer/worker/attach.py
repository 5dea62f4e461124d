"""One training a version: under run.lock a call starts the worker, or attaches, or gives the stored result.

The lock passes to the worker by inheritance: from the caller's flock to the worker's end there is no moment in which
nobody holds it. Light on purpose: all of this happens before training's exec.
"""

import errno
import os
import shlex
import time

from loopai_trainer import executors
from loopai_trainer.errors import HostUnfit, Orphaned
from loopai_trainer.files import atomic, result_file, state_file
from loopai_trainer.files.event_log import utc_text
from loopai_trainer.host import locks, processes
from loopai_trainer.rules.run_state import ANSWER, ATTACH, FINISH, ORPHAN, RETRY, TERMINAL
from loopai_trainer.worker.observe import Observation, living, observe, read_started
from loopai_trainer.worker.starting import (
    TO_FINISH,
    TO_LAUNCH,
    another_plan,
    materialised_request,
    start_worker,
)
from loopai_trainer.worker.starting import StartRequest as StartRequest  # begin() makes one for start_or_attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir

_RETRY_S = 15.0
"""How long a keeper may take from its start to launch/started before it counts as hanging."""
_PAUSE_S = 0.05
_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)


class Attachment:
    """`kind`: finished (`observation` holds the end), attached (a worker lives, or another caller is starting it) or
    started (by this call). `worker_pid`: to be reaped by this process, None if the worker is not its child.
    """

    __slots__ = ("kind", "observation", "worker_pid")

    def __init__(self, kind: str, observation: Observation | None = None, worker_pid: int | None = None) -> None:
        self.kind = kind
        self.observation = observation
        self.worker_pid = worker_pid


def start_or_attach(
    run: "RunDir", sha256: str, begin: "Callable[[], StartRequest]", *, deadline: float | None = None
) -> Attachment:
    """Make sure that the one training of this version runs, has run, or is refused.

    `begin` is called under run.lock, only when nothing has started yet; what it raises releases the lock and passes
    through. Raises Orphaned (training lives without a worker; nothing is touched), PlanChanged (the version runs,
    or ran, with another hash than `sha256`) and HostUnfit DISK_FULL. `deadline` (monotonic seconds) bounds what looking
    at a run on a cluster may take; a start takes its time.
    """
    try:
        return _start_or_attach(run, sha256, begin, deadline)
    except OSError as error:
        if error.errno in _NOT_WRITABLE:
            raise _not_writable(error) from None
        if not atomic.means_full(error):
            raise
        raise _disk_full(run, str(error)) from None


def _start_or_attach(
    run: "RunDir", sha256: str, begin: "Callable[[], StartRequest]", deadline: float | None
) -> Attachment:
    until = time.monotonic() + _RETRY_S
    while True:
        seen = observe(run, limit_s=None if deadline is None else deadline - time.monotonic())
        _same_plan(seen, sha256)
        if seen.verdict.action == ANSWER:
            if seen.damaged:
                from loopai_trainer.worker.restoring import restore

                restore(run)
            return Attachment("finished", seen)
        if seen.verdict.action == ATTACH:
            return Attachment("attached", seen)
        if seen.verdict.action == ORPHAN or (seen.verdict.action == RETRY and time.monotonic() > until):
            raise orphaned(run, seen)
        if seen.verdict.action != RETRY:
            found = _under_lock(run, sha256, begin)
            if found is not None:
                return found
        time.sleep(_PAUSE_S)


def _not_writable(error: OSError) -> HostUnfit:
    return HostUnfit(
        f"{error.filename} could not be written: {error.strerror}; nothing was started",
        code="NOT_WRITABLE",
        hint="see to its permissions, or to the mount, then make the same call again",
    )


def _disk_full(run: "RunDir", why: str) -> HostUnfit:
    return HostUnfit(
        f"the disk of {run.path} is full: {why}",
        code="DISK_FULL",
        hint="free space on that disk, then make the same call again",
    )


def orphaned(run: "RunDir", seen: Observation, wish: str = "--adopt") -> Orphaned:
    """The refusal that names every living process of the training (pid, age in seconds, command) and its devices.

    `wish`: the flag of `recover` that its next command shows.
    """
    found = living(run, seen.state)
    shown = [processes.describe(one) for one in found]
    keeper = read_started(run).get("keeper")
    if not shown and keeper and processes.alive(keeper):
        shown = [processes.describe(keeper)]
    devices = str(seen.state.get("devices") or "")
    first = ""
    if shown:
        first = f" (pid {shown[0]['pid']}, running for {shown[0]['age_s']:.0f} s: {shown[0]['command']})"
    where = f" on device {devices}" if devices else ""
    if seen.verdict.code == "TRAINING_UNSEEN":
        return _unseen(run, seen)
    return Orphaned(
        f"training of {run.version_id} lives{where}{first}, but its worker is gone; nothing was started or stopped",
        hint="give it a new worker (recover --adopt), or end it (recover --terminate)",
        next_command=shlex.join(["trainer", "recover", run.path, wish]),
        details={"processes": shown, "devices": devices},
    )


def _unseen(run: "RunDir", seen: Observation) -> Orphaned:
    return Orphaned(
        f"{run.version_id}: {seen.verdict.message}; nothing was started or stopped",
        code=seen.verdict.code,
        hint="make the same call on that host, which sees what is left there",
        next_command=shlex.join(["trainer", "status", run.path]),
        details={"processes": [], "devices": ""},
    )


def _same_plan(seen: Observation, sha256: str) -> None:
    got = seen.state.get("config_sha256")
    if got and got != sha256 and seen.verdict.status not in ("prepared", "approved"):
        raise another_plan(str(got), sha256)


def _under_lock(run: "RunDir", sha256: str, begin: "Callable[[], StartRequest]") -> Attachment | None:
    """Start what has to be started; None: somebody else took the lock, or what was seen has changed (look again)."""
    fd = locks.try_exclusive(run.run_lock)
    if fd is None:
        return None
    try:
        if not locks.held(run.run_lock):
            raise locks.unreliable(run.path, "a second process got a lock that is held")
        # Seen again while nobody else can act. The lock is ours now, so it is not one of the facts.
        seen = observe(run, holding_run_lock=True)
        if seen.verdict.action in (ANSWER, ATTACH, ORPHAN, RETRY):  # ATTACH: a cluster's job is there, or may be
            return None
        _same_plan(seen, sha256)
        if seen.verdict.code == "JOB_FAILED" and os.path.exists(run.cancel_request):
            from loopai_trainer.worker import calling_off

            calling_off.end(run, seen)
            return None
        if seen.verdict.action == FINISH:
            if seen.verdict.code == "DISK_FULL":
                raise _disk_full(run, "the result of the training that has ended cannot be written")
            request = materialised_request(run, seen.state, sha256)
            return Attachment("started", worker_pid=start_worker(run, fd, request, TO_FINISH))
        _drop_stale_cancel(run, seen)
        request = begin()
        try:
            executors.get(request.executor)  # refused before anything is recorded
            _record_queued(run, seen, request)
            return Attachment("started", worker_pid=start_worker(run, fd, request, TO_LAUNCH))
        finally:
            request.close()
    finally:
        os.close(fd)


def _drop_stale_cancel(run: "RunDir", seen: Observation) -> None:
    """A request that an earlier, ended attempt no longer read is not meant for this one."""
    if seen.state.get("status") in (None, *TERMINAL) and os.path.exists(run.cancel_request):
        os.unlink(run.cancel_request)


def _record_queued(run: "RunDir", seen: Observation, request: StartRequest) -> None:
    if os.path.exists(run.run_state) and (seen.damaged or not seen.state):
        state_file.set_aside(run)
    if os.path.exists(run.result):  # that of an attempt that failed before training's exec
        result_file.set_aside(run, "attempt")
    now = utc_text(time.time())
    state: dict[str, Any] = {
        "version_id": run.version_id,
        "task_id": request.task_id,
        "status": "queued",
        "phase": "queued",
        "attempt": int(seen.state.get("attempt") or 0) + 1,
        "config_sha256": request.sha256,
        "run_dir": run.path,
        "submitted_at": now,
        "updated_at": now,
        "caller": processes.own_identity(),
        **_submission(run, request, int(seen.state.get("attempt") or 0) + 1),
    }
    state_file.write(run, state)


def _submission(run: "RunDir", request: StartRequest, attempt: int) -> "dict[str, Any]":
    """Which job of a cluster the worker of this attempt will be; written down before it is submitted."""
    executor = executors.submitting(request.executor)
    if executor is None:
        return {}
    request.handle = executor.handle(request.launch, run.path, run.version_id, attempt)
    recorded = {"name": request.executor, "handle": request.handle, "locks_reach": request.locks_reach}
    return {"executor": {**recorded, **({"not_asked": request.not_asked} if request.not_asked else {})}}
