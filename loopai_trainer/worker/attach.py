"""One training a version: under run.lock a call starts the worker, or attaches, or gives the stored result.

The lock passes to the worker by inheritance: from the caller's flock to the worker's end there is no moment in which
nobody holds it. Light on purpose: all of this happens before training's exec.
"""

import os
import sys
import time

from loopai_trainer import executors
from loopai_trainer.errors import HostUnfit, Orphaned, PlanChanged, TrainingFailed
from loopai_trainer.files import atomic, result_file, state_file
from loopai_trainer.files.event_log import utc_text
from loopai_trainer.host import locks, processes
from loopai_trainer.rules.run_state import ANSWER, ATTACH, FINISH, ORPHAN, RETRY, TERMINAL
from loopai_trainer.worker.observe import Observation, living, observe, read_started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir

MODULE = "loopai_trainer.worker.entry"
_RETRY_S = 15.0
"""How long a keeper may take from its start to launch/started before it counts as hanging."""
_PAUSE_S = 0.05


class StartRequest:
    """What `begin` hands over once it has consumed the approval: the exact approved bytes and their hash."""

    __slots__ = ("config", "executor", "sha256", "task_id")

    def __init__(self, config: bytes, sha256: str, task_id: str, executor: str = "local") -> None:
        self.config = config
        self.sha256 = sha256
        self.task_id = task_id
        self.executor = executor


class Attachment:
    """`kind`: finished (`observation` holds the end), attached (a worker lives, or another caller is starting it) or
    started (by this call). `worker_pid`: to be reaped by this process, None if the worker is not its child.
    """

    __slots__ = ("kind", "observation", "worker_pid")

    def __init__(self, kind: str, observation: Observation | None = None, worker_pid: int | None = None) -> None:
        self.kind = kind
        self.observation = observation
        self.worker_pid = worker_pid


def start_or_attach(run: "RunDir", sha256: str, begin: "Callable[[], StartRequest]") -> Attachment:
    """Make sure that the one training of this version runs, has run, or is refused.

    `begin` is called under run.lock, only when nothing has started yet; what it raises releases the lock and passes
    through. Raises Orphaned (training lives without a worker; nothing is touched), PlanChanged (the version runs,
    or ran, with another hash than `sha256`) and HostUnfit DISK_FULL.
    """
    try:
        return _start_or_attach(run, sha256, begin)
    except OSError as error:
        if not atomic.means_full(error):
            raise
        raise _disk_full(run, str(error)) from None


def _start_or_attach(run: "RunDir", sha256: str, begin: "Callable[[], StartRequest]") -> Attachment:
    until = time.monotonic() + _RETRY_S
    while True:
        seen = observe(run)
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


def _disk_full(run: "RunDir", why: str) -> HostUnfit:
    return HostUnfit(
        f"the disk of {run.path} is full: {why}",
        code="DISK_FULL",
        hint="free space on that disk, then make the same call again",
    )


def orphaned(run: "RunDir", seen: Observation) -> Orphaned:
    """The refusal that names every living process of the training: pid, age in seconds, command."""
    found = living(run, seen.state)
    shown = [processes.describe(one) for one in found]
    keeper = read_started(run).get("keeper")
    if not shown and keeper and processes.alive(keeper):
        shown = [processes.describe(keeper)]
    first = f" (pid {shown[0]['pid']}, running for {shown[0]['age_s']:.0f} s)" if shown else ""
    return Orphaned(
        f"training of {run.version_id} lives{first}, but its worker is gone; nothing was started or stopped",
        hint="let it end by itself, or end its processes, and call again",
        next_command=f"trainer status {run.version_id}",
        details={"processes": shown},
    )


def _same_plan(seen: Observation, sha256: str) -> None:
    got = seen.state.get("config_sha256")
    if got and got != sha256 and seen.verdict.status not in ("prepared", "approved"):
        raise _another_plan(str(got), sha256)


def _another_plan(expected: str, got: str) -> PlanChanged:
    return PlanChanged(
        f"this version was started with another approved YAML\n  expected: {expected}\n  got:      {got}",
        hint="use the hash that it was started with, or prepare a new version",
        details={"expected": expected, "got": got},
    )


def _under_lock(run: "RunDir", sha256: str, begin: "Callable[[], StartRequest]") -> Attachment | None:
    """Start what has to be started; None: somebody else took the lock, or what was seen has changed (look again)."""
    fd = locks.try_exclusive(run.run_lock)
    if fd is None:
        return None
    try:
        if not locks.held(run.run_lock):
            raise HostUnfit(
                f"locks do not hold in {run.path}: two trainings could start",
                code="LOCKS_UNRELIABLE",
                hint="put the output directory on a file system with working flock",
            )
        # Seen again while nobody else can act. The lock is ours now, so it is not one of the facts.
        seen = observe(run, holding_run_lock=True)
        if seen.verdict.action in (ANSWER, ORPHAN, RETRY):
            return None
        _same_plan(seen, sha256)
        if seen.verdict.action == FINISH:
            if seen.verdict.code == "DISK_FULL":
                raise _disk_full(run, "the result of the training that has ended cannot be written")
            return _start_worker(run, fd, _finish_request(run, seen, sha256), finish=True)
        _drop_stale_cancel(run, seen)
        request = begin()
        executors.get(request.executor)  # refused before anything is recorded
        _record_queued(run, seen, request)
        return _start_worker(run, fd, request, finish=False)
    finally:
        os.close(fd)


def _finish_request(run: "RunDir", seen: Observation, sha256: str) -> StartRequest:
    """The approved bytes as the dead worker materialised them, for the worker that takes up its finalising."""
    import hashlib

    try:
        with open(run.approved_config, "rb") as file:
            config = file.read()
    except OSError as error:
        raise TrainingFailed(
            f"training of {run.version_id} has ended without a result, and its approved YAML cannot be read: {error}",
            code="WORKER_LOST",
            hint=f"look at {run.train_log}; prepare a new version to train again",
            recoverable=False,
        ) from None
    got = hashlib.sha256(config).hexdigest()
    if got != sha256:
        raise _another_plan(got, sha256)
    executor = seen.state.get("executor")
    name = executor.get("name") if isinstance(executor, dict) else None
    return StartRequest(config, sha256, os.path.basename(run.task.path), str(name or "local"))


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
    }
    state_file.write(run, state)


def _start_worker(run: "RunDir", lock_fd: int, request: StartRequest, *, finish: bool) -> Attachment:
    executor = executors.get(request.executor)
    plan_fd = _anonymous_file(request.config)
    try:
        argv = [
            *(sys.executable, "-P", "-m", MODULE),
            *(run.path, run.version_id, run.task.path, str(lock_fd), str(plan_fd), request.sha256, request.executor),
            *(("--finish",) if finish else ()),
        ]
        locks.name_holder(lock_fd, f"{run.version_id}: a worker started by pid {os.getpid()}")
        atomic.make_private_dir(run.path)
        handle = executor.start(argv, run.path, run.worker_log, (lock_fd, plan_fd))
    finally:
        os.close(plan_fd)
    return Attachment("started", worker_pid=_child_pid(request.executor, handle))


def _child_pid(executor: str, handle: str) -> int | None:
    return int(handle.split("/")[0]) if executor == "local" else None


def _anonymous_file(data: bytes) -> int:
    """A descriptor of an anonymous file with these bytes: no path, so nobody can change what the worker reads."""
    fd = locks.above_standard(os.memfd_create("approved-plan", os.MFD_CLOEXEC))
    while data:
        data = data[os.write(fd, data) :]
    return fd
