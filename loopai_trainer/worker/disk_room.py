"""Room on the disk that a run keeps for its own last words: given back when training has filled the disk."""

from __future__ import annotations

import os

from loopai_trainer.errors import TrainerError
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir

ROOM_BYTES = 128 * 1024
"""worker_result.json, run_state.json and their temporary copies, for some hundred checkpoints."""

HINT = "free space on the disk of the run directory, then prepare a new version to train again"


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


def refusal(run: RunDir, error: OSError) -> TrainerError:
    """A full disk, in the words of a user."""
    return TrainerError(f"the disk of {run.path} is full: {error}", code="DISK_FULL", hint=HINT)


def _path(run: RunDir) -> str:
    return os.path.join(run.launch, "room")
