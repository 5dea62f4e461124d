"""Where a worker begins (`detached`, by worker.starting): its descriptors, its signals, its last resort.

The approved bytes come through an anonymous file, are hashed again here, and are materialised from memory: no path
that anybody could change lies between the approval and the launch.
"""

from __future__ import annotations

import os
import time

from loopai_trainer import backends
from loopai_trainer.errors import Busy, TrainerError
from loopai_trainer.files import atomic, event_log, state_file
from loopai_trainer.files.event_log import utc_text
from loopai_trainer.files.run_dir import RunDir, TaskDir
from loopai_trainer.host import locks, processes
from loopai_trainer.rules import dev_bounds
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules.cluster import HERE
from loopai_trainer.rules.run_state import LIVE, TERMINAL
from loopai_trainer.worker import guards, own, starting
from loopai_trainer.worker.record import Record, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_FINISH_TRIES = 3


class Arguments:
    """The words of the worker's command line, as worker.attach writes them."""

    def __init__(self, words: list[str]) -> None:
        path, version_id, task_path, lock_fd, plan_fd, self.sha256, self.executor = words[:7]
        task = TaskDir(os.path.dirname(task_path), os.path.basename(task_path))
        self.run = RunDir(path, version_id, task)
        self.lock_fd = int(lock_fd)
        self.plan_fd = int(plan_fd)
        self.mode, self.device_fds = starting.read_words(words[7:])

    @property
    def follows(self) -> bool:
        """Whether training was exec'd already, by an earlier worker."""
        return self.mode != starting.TO_LAUNCH


class Asked:
    """Whether SIGTERM has come."""

    def __init__(self) -> None:
        self.by_signal = False

    def __call__(self) -> bool:
        """True from the signal on."""
        return self.by_signal

    def listen(self, numbers: tuple[int, ...], deaf: tuple[int, ...] = ()) -> None:
        """Take `numbers` as a request to cancel, and note the `deaf` ones only (handlers, which exec resets)."""
        import signal

        for number in numbers:
            signal.signal(number, self._ask)
        for number in deaf:
            signal.signal(number, lambda *_: None)

    def _ask(self, *_: object) -> None:
        self.by_signal = True


_WORK = {
    starting.TO_LAUNCH: own.own,
    starting.TO_FINISH: own.take_up,
    starting.TO_ADOPT: own.adopt,
    starting.TO_TERMINATE: own.adopt,
}


def main(words: list[str], asked: Asked | None = None) -> int:
    """Do the worker's work in this process; returns its exit status. The executor `inline` calls it in the caller."""
    arguments = Arguments(words)
    record: Record | None = None
    try:
        if not locks.owns(arguments.lock_fd):
            message = f"run.lock of {arguments.run.path} did not come with the worker"
            raise Busy(message, code="LOCKED", hint="start it with `trainer run-prepared`, not by hand")
        record = _open_record(arguments)
        job = _job(arguments, record, asked or Asked())
        status = _WORK[arguments.mode](job)
        if dev_bounds.is_dev(job.approved.plan):
            from loopai_trainer.worker import dev_weights

            dev_weights.remove(arguments.run)
        for fd in arguments.device_fds:
            locks.name_holder(fd, "")  # nobody any more
        return 0 if status == "completed" else 1
    except Exception as error:  # noqa: BLE001 - the worker's boundary: the failure is recorded, its traceback logged
        _fail(arguments.run, record, error)
        return 1


def _open_record(arguments: Arguments) -> Record:
    read = state_file.read(arguments.run)
    ended = (read.state or {}).get("status") in TERMINAL
    if read.damaged or (arguments.follows and ended):
        tell(f"{read.damaged or 'its end is not believed'}; kept as {state_file.set_aside(arguments.run)}")
    state: dict[str, Any] = {
        "version_id": arguments.run.version_id,
        "task_id": os.path.basename(arguments.run.task.path),
        "attempt": _last_attempt(arguments.run) if arguments.follows else 1,
        "run_dir": arguments.run.path,
        **(read.state or {}),
    }
    if not arguments.follows:
        state["started_at"] = utc_text(time.time())
    state["config_sha256"] = arguments.sha256
    state["worker"] = identity = processes.own_identity()
    handle = "/".join(str(part) for part in identity.values())
    submitted = state.get("executor")
    if isinstance(submitted, dict) and submitted.get("name") == arguments.executor not in HERE:
        state["executor"] = {**submitted, "host": os.uname().nodename}
    else:
        state["executor"] = {"name": arguments.executor, "handle": handle}
    if state.get("status") not in LIVE:
        # A training that is to be finished was running, whatever a lost or false record says.
        state["status"] = "running" if arguments.follows else ""
    locks.name_holder(arguments.lock_fd, f"{arguments.run.version_id}: worker {os.getpid()} since {state['worker']}")
    return Record(arguments.run, state)


def _job(arguments: Arguments, record: Record, asked: Asked) -> own.Job:
    data = _read_all(arguments.plan_fd)
    approved = plans.approve(data, arguments.sha256, arguments.run.config)
    plan = approved.plan
    record.state.update(task_id=plan.task_id, framework=plan.framework, stage=plan.stage)
    if dev_bounds.is_dev(plan):
        record.state["mode"] = dev_bounds.BLOCK
    if not arguments.follows:
        guards.check_place(arguments.run, plan)
        guards.check_fresh(arguments.run, plan)
        atomic.make_private_dir(os.path.dirname(arguments.run.approved_config))
        atomic.write_bytes(arguments.run.approved_config, data)
    backend = backends.get(plan.framework, plan.stage)

    def finish(ended: own.Ended) -> dict[str, Any]:
        from loopai_trainer.worker.results import finish_run

        return finish_run(arguments.run, plan, backend, ended)

    return own.Job(arguments.run, approved, backend, record, finish, asked, arguments.device_fds)


def _last_attempt(run: RunDir) -> int:
    """The attempt that wrote the last event, for a state that is lost."""
    attempts = [event.get("attempt") for event in event_log.read(run.events)]
    return max((one for one in attempts if isinstance(one, int)), default=1)


def _read_all(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    data = os.pread(fd, size, 0)
    while len(data) < size:
        data += os.pread(fd, size - len(data), len(data))
    return data


def _fail(run: RunDir, record: Record | None, error: Exception) -> None:
    """Record why the worker gives up; while training lives, its run is not called ended (it is orphaned)."""
    import traceback

    from loopai_trainer.worker.disk_room import refusal
    from loopai_trainer.worker.ending import EndNotWritten, conclude, error_json, short_result

    tell("".join(traceback.format_exception(error)).rstrip())
    if record is None or isinstance(error, EndNotWritten):
        return  # the next call finishes it from the files
    if isinstance(error, OSError) and atomic.means_full(error):
        error = refusal(run, error)
    unforeseen = not isinstance(error, TrainerError)
    if not isinstance(error, TrainerError):
        error = TrainerError(
            f"the worker failed: {type(error).__name__}: {error}",
            code="WORKER_FAILED",
            hint=f"look at {run.worker_log}",
        )
    if locks.held(run.training_lock):
        record.event("worker", str(record.state["status"]), error.message, error=error_json(error))
        return
    if unforeseen and _leave_to_the_next(run, record, error):
        return
    if record.state["status"] == "":
        record.state["status"] = "queued"
    try:
        conclude(run, record, short_result(record, "failed", error))
    except EndNotWritten as fault:
        tell(str(fault))


def _leave_to_the_next(run: RunDir, record: Record, error: TrainerError) -> bool:
    """Whether a training that has ended is left to the next worker, which the next call starts with fresh code.

    A package that was upgraded under a run of days, or a fault in looking at results, must not make a good training
    a failed one; the third worker that fails says so for good.
    """
    from loopai_trainer.worker.ending import error_json

    failures = int(record.state.get("finish_failures") or 0) + 1
    if not os.path.exists(run.launch_started) or failures >= _FINISH_TRIES:
        return False
    record.event("worker", str(record.state["status"]), error.message, error=error_json(error))
    record.phase(str(record.state["phase"]), "the results will be looked at again", finish_failures=failures)
    return True


def detached(words: list[str]) -> int:
    """The worker as a process of its own: only its own descriptors, the run directory as cwd, deaf to terminals."""
    arguments = Arguments(words)
    _close_others((0, 1, 2, arguments.lock_fd, arguments.plan_fd, *arguments.device_fds))
    os.chdir(arguments.run.path)
    asked = Asked()
    asked.by_signal = arguments.mode == starting.TO_TERMINATE
    asked.listen((15,), deaf=(1, 2))  # SIGTERM; SIGHUP and SIGINT
    return main(words, asked)


def _close_others(kept: tuple[int, ...]) -> None:
    """Close what a caller left open without close-on-exec: a pipe that an agent reads must see its end."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor of the listing itself
    for fd in kept[3:]:
        os.set_inheritable(fd, False)
