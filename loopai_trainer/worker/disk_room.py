"""Room on the disk that a run keeps for its own last words: given back when training has filled the disk."""

from __future__ import annotations

import os
import time
from typing import Any

from loopai_trainer.errors import TrainerError
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import processes
from loopai_trainer.worker.observe import read_started

ROOM_BYTES = 128 * 1024
"""worker_result.json, run_state.json and their temporary copies, for some hundred checkpoints."""

_GIVE_S = 1.0
_EXIT_WAIT_S = 5.0
_SLOW_EXIT_WAIT_S = 180.0
"""From training's end: when the room is given to the keeper; when exit.json is no longer waited for: on a full disk,
and on one that is only slow (an fsync under load takes a minute, and a wrong verdict cannot be taken back)."""

_HINTS = {
    True: "free space on the disk of the run directory, then prepare a new version to train again",
    False: "free space on the disk of the run directory, then make the same call again",
}
"""By whether training was started: one version is one training."""


def keep_room(run: RunDir) -> None:
    """Take the room, after training was exec'd; without it (disk full already) the run goes on all the same."""
    try:
        fd = os.open(_path(run), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, atomic.PRIVATE)
        try:
            os.posix_fallocate(fd, 0, ROOM_BYTES)
        finally:
            os.close(fd)
    except OSError:
        free_room(run)


def free_room(run: RunDir) -> None:
    """Give the room back, for what has to be written now."""
    try:
        os.unlink(_path(run))
    except OSError:
        pass  # there is none


def note_full(run: RunDir) -> None:
    """Leave word that the disk was full when training ended: an empty file, which a full disk takes too."""
    try:
        os.close(os.open(_mark(run), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, atomic.PRIVATE))
    except OSError:
        pass  # no inode is left either


def was_full(run: RunDir) -> bool:
    """Whether a worker left that word."""
    return os.path.exists(_mark(run))


class ExitWait:
    """The time in which training's main process is gone, but exit.json is not there: the keeper cannot write it.

    A keeper that somebody has stopped (SIGSTOP, a debugger) is waited for: it will write once it may go on.
    """

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self._since_s: float | None = None
        self._started: dict[str, Any] = {}

    def too_long(self) -> bool:
        """Whether to go on without it. The run's room is given back on the way, which lets the keeper write."""
        if not self._started.get("training"):
            self._started = read_started(self.run)
        main = self._started.get("training")
        if main is None or not processes.visible(main) or processes.alive(main):
            return False
        now_s = time.monotonic()
        if self._since_s is None or processes.stopped(self._started.get("keeper")):
            self._since_s = now_s
        if now_s - self._since_s > _GIVE_S:
            free_room(self.run)
        return now_s - self._since_s > (_EXIT_WAIT_S if atomic.is_full(self.run.path) else _SLOW_EXIT_WAIT_S)


def refusal(run: RunDir, error: OSError) -> TrainerError:
    """A full disk, in the words of a user."""
    return TrainerError(
        f"the disk of {run.path} is full: {error}", code="DISK_FULL", hint=_HINTS[os.path.exists(run.launch_started)]
    )


def _mark(run: RunDir) -> str:
    return os.path.join(run.launch, "disk_full")


def _path(run: RunDir) -> str:
    return os.path.join(run.launch, "room")
