"""Where a worker begins that a cluster has started: it takes run.lock itself, and reads the approved bytes by hash.

No open file reaches it. Its caller holds run.lock until it is submitted; whoever else gets the lock in between sees by
the job server that a worker is on its way, and lets it go again.
"""

import os
import sys
import time

from loopai_trainer.files import state_file
from loopai_trainer.files.run_dir import RunDir, TaskDir
from loopai_trainer.host import locks
from loopai_trainer.rules.run_state import LIVE
from loopai_trainer.worker import entry

_LOCK_S = 300.0
"""How long the caller may take from submitting to letting go of the lock."""

_PAUSE_S = 0.1


def main(words: list[str]) -> int:
    """The worker's exit status; 1 if this job is not the one that run_state.json names, was called off, or gets no
    lock.
    """
    path, version_id, task_path, sha256, executor, handle = words
    run = RunDir(path, version_id, TaskDir(os.path.dirname(task_path), os.path.basename(task_path)))
    _say(f"worker of {version_id}; what it has to say stands in {run.worker_log}")
    log = os.open(run.worker_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    lock_fd = _take_lock(run)
    if lock_fd is None:
        return _refuse(f"{run.run_lock} was held by somebody else for {_LOCK_S:.0f} s")
    state = state_file.read(run).state or {}
    recorded = state.get("executor") or {}
    if recorded.get("handle") != handle:
        return _refuse(f"this job is {handle!r}, but run_state.json names {recorded.get('handle')!r}")
    if state.get("status") not in LIVE:
        return _refuse(f"the run is {state.get('status')} already, so nothing is started")
    os.dup2(log, 1)
    os.dup2(log, 2)
    plan_fd = locks.above_standard(os.open(run.approved_config, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
    return entry.detached([path, version_id, task_path, str(lock_fd), str(plan_fd), sha256, executor])


def _take_lock(run: RunDir) -> int | None:
    until = time.monotonic() + _LOCK_S
    while (fd := locks.try_exclusive(run.run_lock)) is None:
        if time.monotonic() > until:
            return None
        time.sleep(_PAUSE_S)
    return fd


def _refuse(why: str) -> int:
    _say(why)
    return 1


def _say(text: str) -> None:
    """A line in the log that the cluster keeps of its job."""
    sys.stderr.write(f"loopai-trainer: {text}\n")
    sys.stderr.flush()
