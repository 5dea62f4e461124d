"""The worker's story: launch, watch, stop if asked, sweep, finalise. It owns one training from exec to result."""

from __future__ import annotations

import os
import time

from loopai_trainer.errors import ApprovalError, Cancelled, TrainingFailed
from loopai_trainer.files import atomic
from loopai_trainer.files.event_log import utc_text
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import locks, processes
from loopai_trainer.worker import input_times, launching
from loopai_trainer.worker.cancelling import GRACE_S, read_request
from loopai_trainer.worker.observe import read_exit, read_started
from loopai_trainer.worker.record import Record, tell
from loopai_trainer.worker.resolving import approved_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from loopai_trainer.contract import Backend
    from loopai_trainer.records import ApprovedPlan, Launch
    from loopai_trainer.worker.ground import Ground
    from loopai_trainer.worker.watching import Watcher

_START_PAUSE_S = 0.02


class Ended:
    """How training ended, for the finaliser. `exit_record`: launch/exit.json, None if nobody saw the end.

    `reason`: (code, message) if the worker itself stopped it, or lost it. `remarks`: what a person should know of its
    steps. Times are seconds since the epoch.
    """

    __slots__ = (
        *("cancelled", "ended_at", "exit_record", "planned_steps", "reason", "remarks", "started_at", "survivors"),
    )

    def __init__(
        self, exit_record: Mapping[str, Any] | None, started_at: float, reason: tuple[str, str] | None = None
    ) -> None:
        self.exit_record = exit_record
        self.started_at = started_at
        self.ended_at = started_at
        self.cancelled = False
        self.reason = reason
        self.planned_steps: int | None = None
        self.survivors: list[processes.Identity] = []
        self.remarks: list[str] = []


class Job:
    """What a worker works on.

    `finish` makes the content of worker_result.json (with `status` and `error`) from the files of a run that has ended.
    `terminated()`: SIGTERM has come, which is a request to cancel. `device_fds`: locks that the keeper is to hold too.
    """

    __slots__ = ("approved", "backend", "device_fds", "finish", "record", "run", "terminated")

    def __init__(
        self,
        run: RunDir,
        approved: ApprovedPlan,
        backend: Backend,
        record: Record,
        finish: Callable[[Ended], dict[str, Any]],
        terminated: Callable[[], bool] = lambda: False,
        device_fds: tuple[int, ...] = (),
    ) -> None:
        self.run = run
        self.approved = approved
        self.backend = backend
        self.record = record
        self.finish = finish
        self.terminated = terminated
        self.device_fds = device_fds


def own(job: Job) -> str:
    """Start training and see it through to its result; returns the last status."""
    if _cancel_request(job) is not None:
        return _cancelled_before_start(job)
    started_at = time.time()
    try:
        keeper_pid = _launch(job)
    except Cancelled:
        return _cancelled_before_start(job)
    _wait_for_exec(job, keeper_pid)
    _tell_loopai(job)
    ended = _watch(job, started_at)
    return _finalise(job, ended, keeper_pid)


def take_up(job: Job) -> str:
    """Finalise a training that ended while its worker was dead; returns the last status."""
    from loopai_trainer.worker.disk_room import was_full

    exit_record = read_exit(job.run)
    reason = None
    if exit_record is None:
        reason = ("WORKER_LOST", _why_unseen(job.run))
    ended = Ended(exit_record, _recorded_start(job), reason)
    ended.ended_at = time.time()
    if was_full(job.run):
        _blame_disk(job.run, ended)
    watcher = _watcher(job)
    watcher.take_up()
    _read_rest(job, watcher, ended)
    request = read_request(job.run)
    failed = exit_record is None or exit_record.get("returncode") != 0
    if _was_stopped(job) or (request is not None and failed):
        ended.cancelled, ended.reason = True, None
    return _finalise(job, ended, None)


def _was_stopped(job: Job) -> bool:
    """Whether a worker that has died since had begun to stop training on request, whatever it made of the signal."""
    return bool(job.record.state.get("cancel"))


def _why_unseen(run: RunDir) -> str:
    keeper = read_started(run).get("keeper") or {}
    if keeper.get("boot_id") not in (None, processes.boot_id()):
        return "the host was restarted while training ran"
    return "worker and keeper were gone before training's end could be seen"


def adopt(job: Job) -> str:
    """Watch a living training, whose worker is dead, to its end, and finalise it; returns the last status."""
    job.record.event("adopted", str(job.record.state["status"]), "a new worker watches this training")
    _tell_loopai(job)
    ended = _watch(job, _recorded_start(job), adopted=True)
    return _finalise(job, ended, None)


def _tell_loopai(job: Job) -> None:
    """From now on: training was exec'd, so what that loads delays nothing."""
    from loopai_trainer.worker.handover import Handover

    job.record.follow(Handover(job.run, job.record).changed)


def _launch(job: Job) -> int:
    """Everything up to the keeper's start; returns its pid."""
    lock_fd = launching.take_training_lock(job.run)
    try:
        return launching.start_keeper(job.run, *_prepared_launch(job), lock_fd, job.device_fds)
    finally:
        os.close(lock_fd)  # the keeper has its own by now; or nothing was started, and the lock must not seem held


def _prepared_launch(job: Job) -> tuple[Launch, str]:
    """Folders, launch files and the record of the start; returns what is to be exec'd, and its mark."""
    run, record = job.run, job.record
    tmp = launching.make_folders(run)
    mark = processes.mark(run.version_id, int(record.state["attempt"]), run.path)
    devices = str(job.approved.plan.loopai["launch"].get("devices") or "")
    record.move("running", "starting", "training is being started", tmp_dir=tmp, mark=mark, devices=devices)
    paths = launching.paths_of(run, tmp)
    resolved = approved_text(
        job.approved.plan, job.backend, os.environ, paths, lambda: _cancel_request(job) is not None
    )
    launch = job.backend.launch(job.approved, paths, os.environ)
    launch = launching.placed(run, job.approved.plan, job.backend, launch, paths)
    launching.write_launch_files(run, launch)
    if resolved is not None:
        atomic.write_text(run.launch_resolved, resolved)
    input_times.note(run, job.approved.plan)
    launching.note_request(run, launch, list(job.approved.plan.loopai["launch"].get("pass_env") or ()))
    return launch, mark


def _wait_for_exec(job: Job, keeper_pid: int) -> None:
    """Until training was exec'd, or could not be. Raises TrainingFailed if the keeper ends before it wrote anything."""
    run = job.run
    while True:
        started = read_started(run)
        if started.get("training") or os.path.exists(run.launch_exit):
            if os.path.exists(run.launch_started):
                _use_up_approval(run)
            job.record.note(**{name: one for name, one in started.items() if one})
            return
        if not locks.held(run.training_lock):
            if os.path.exists(run.launch_started):
                return  # it died after that: the watch below says so
            _reap(keeper_pid)
            raise _not_started(run)
        time.sleep(_START_PAUSE_S)


def _use_up_approval(run: RunDir) -> None:
    """Tell the task's history, which a clean-up of the run's folder leaves alone: one approval is one training."""
    from loopai_trainer.files import approval_file

    try:
        approval_file.note_training(run, time.time())
    except (ApprovalError, OSError):
        pass  # launch/started says the same for as long as the folder is left alone


def _not_started(run: RunDir) -> TrainingFailed:
    if atomic.is_full(run.path):
        hint = "free space on that disk, then make the same call again"
        return TrainingFailed(f"the disk of {run.path} is full: nothing was started", code="DISK_FULL", hint=hint)
    return TrainingFailed(
        "the keeper ended before it could start training", code="KEEPER_LOST", hint=f"look at {run.worker_log}"
    )


def _watch(job: Job, started_at: float, *, adopted: bool = False) -> Ended:
    """Follow training to its end, whoever brings it about. `adopted`: another worker has written down the beginning."""
    from loopai_trainer.worker.ground import firm_ground

    with firm_ground(job.run, job.record) as ground:
        return _followed(job, started_at, ground, adopted)


def _followed(job: Job, started_at: float, ground: Ground, adopted: bool) -> Ended:
    from loopai_trainer.worker.disk_room import ExitWait, keep_room, note_full
    from loopai_trainer.worker.pulse import Pulse
    from loopai_trainer.worker.stopping import stop_training, sweep

    run, record = job.run, job.record
    keep_room(run)
    watcher, exit_wait, pulse = _watcher(job), ExitWait(run), Pulse(run)
    if adopted:
        watcher.take_up()
    ended = Ended(None, started_at)
    ended.cancelled = _was_stopped(job)
    disk_full = False
    while not os.path.exists(run.launch_exit):
        ground.check()
        watcher.tick()
        request = _cancel_request(job)
        disk_full = atomic.is_full(run.path)
        if exit_wait.too_long():
            break
        if not locks.held(run.training_lock):
            ground.outlast(run.training_lock)
            if not os.path.exists(run.launch_exit):
                ended.reason = ("KEEPER_LOST", "the keeper is gone, and with it training's exit status")
            break
        if request is not None:
            ended.cancelled = True
            record.phase("stopping", f"asked to stop by {request.get('requested_by', 'somebody')}", cancel=request)
            ended.survivors = stop_training(run, record, _grace_s(request))
            break
        ended.reason = watcher.stop_reason or _lost_helper(run)
        if ended.reason is not None:
            record.phase("stopping", ended.reason[1])
            ended.survivors = stop_training(run, record, GRACE_S)
            break
        pulse.wait()
    pulse.close()
    ground.check()
    ended.survivors = sweep(run, record)
    ground.check()
    ended.ended_at = time.time()
    ended.exit_record = read_exit(run)
    if disk_full or atomic.is_full(run.path):
        note_full(run)
        _blame_disk(run, ended)
    _read_rest(job, watcher, ended)
    return ended


def _lost_helper(run: RunDir) -> tuple[str, str] | None:
    """Why training cannot go on since one of its helpers has ended; None: none has, or training has ended, too."""
    if not os.path.exists(run.launch_helper_ended) or os.path.exists(run.launch_exit):
        return None
    try:
        record = atomic.read_json(run.launch_helper_ended) or {}
    except (OSError, ValueError):
        record = {}
    how = record.get("exec_error") or f"exit status {record.get('returncode')}"
    return ("HELPER_LOST", f"{record.get('name', 'a helper')} ended while training needed it: {how}")


def _blame_disk(run: RunDir, ended: Ended) -> None:
    """A training that failed while its disk was full failed for that, whatever its last words (which it lost) were."""
    exit_record = ended.exit_record or {}
    if ended.cancelled or exit_record.get("returncode") == 0 or exit_record.get("exec_error"):
        return
    if ended.reason is None or ended.reason[0] in ("KEEPER_LOST", "WORKER_LOST"):
        code = exit_record.get("returncode")
        how = f"training ended with exit status {code}" if code is not None else "nobody could write how training ended"
        ended.reason = ("DISK_FULL", f"the disk of {run.path} was full: {how}")


def _watcher(job: Job) -> Watcher:
    from loopai_trainer.worker.watching import Watcher

    paths = launching.paths_of(job.run, str(job.record.state.get("tmp_dir", "")))
    return Watcher(job.run, job.approved.plan, job.backend, paths, job.record)


def _read_rest(job: Job, watcher: Watcher, ended: Ended) -> None:
    """What training appended between the last look and its end."""
    watcher.finish()
    ended.remarks = watcher.remarks
    if watcher.stop_reason is not None and not ended.cancelled:
        ended.reason = watcher.stop_reason
    elif ended.reason is None and not ended.cancelled and (ended.exit_record or {}).get("returncode") == 0:
        ended.reason = _unsaid(watcher.unsaid)
    ended.planned_steps = job.record.state.get("total_steps")


def _unsaid(kinds: list[str]) -> tuple[str, str] | None:
    # A guard that is silent when training's output changes its form would be no guard.
    if not kinds:
        return None
    what = " and ".join(kind.replace("_", " ") for kind in kinds)
    return (
        "EXAMPLES_UNKNOWN",
        f"training never reported its number of {what}, so it cannot be held against the approved one",
    )


def _finalise(job: Job, ended: Ended, keeper_pid: int | None) -> str:
    from loopai_trainer.worker.ending import conclude, stored_result

    run, record = job.run, job.record
    if keeper_pid is not None:
        _reap(keeper_pid)
    if ended.survivors:
        pids = [one["pid"] for one in ended.survivors]
        tell(f"processes that could not be ended: {pids}")
        record.event("stopping", str(record.state["status"]), "some processes could not be ended", data={"pids": pids})
    record.move("finalizing", "finalizing", "training has ended; its results are being looked at")
    result = stored_result(run, int(record.state["attempt"]))
    if result is None:
        result = {**job.finish(ended), "exit": ended.exit_record, "survivors": ended.survivors}
        if ended.cancelled:
            result["status"] = "cancelled"  # cancelled is cancelled, whatever training made of the signal
    return conclude(run, record, result)


def _cancelled_before_start(job: Job) -> str:
    from loopai_trainer.worker.ending import conclude, short_result

    error = Cancelled("the run was cancelled before training was started", hint="prepare a new version to train")
    return conclude(job.run, job.record, short_result(job.record, "cancelled", error))


def _cancel_request(job: Job) -> Mapping[str, Any] | None:
    request = read_request(job.run)
    if request is None and job.terminated():
        return {"requested_by": "SIGTERM to the worker", "at": utc_text(time.time()), "grace_s": GRACE_S}
    return request


def _grace_s(request: Mapping[str, Any]) -> float:
    grace_s = request.get("grace_s")
    return float(grace_s) if isinstance(grace_s, int | float) and grace_s >= 0 else GRACE_S


def _recorded_start(job: Job) -> float:
    """When training was started, by the file that the keeper wrote then."""
    try:
        return os.stat(job.run.launch_started).st_mtime
    except OSError:
        return time.time()


def _reap(keeper_pid: int) -> None:
    """Collect the keeper if it has ended; one that stays for survivors is left to init."""
    until = time.monotonic() + 1.0
    try:
        while os.waitpid(keeper_pid, os.WNOHANG)[0] == 0 and time.monotonic() < until:
            time.sleep(0.01)
    except ChildProcessError:
        pass
