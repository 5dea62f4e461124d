"""A run directory that is deleted below a living training: nothing can be locked or told any more, so it is ended.

Left alone it would train on where no command finds it, and a new version in its place would be a second one.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import processes
from loopai_trainer.worker.ending import EndNotWritten
from loopai_trainer.worker.observe import members
from loopai_trainer.worker.record import Record, tell

_GRACE_S = 10.0
_GOING_S = 2.0
"""How long what is missing may be the beginning of a deletion: `rm -r` of a large run directory goes file by file."""


class Ground:
    """The run directory as an open descriptor; a name would find whatever is put in its place."""

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self.fd = os.open(run.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def gone(self) -> bool:
        """Whether it was deleted: it then has no name left. A file system that is away for a while is not that."""
        return os.fstat(self.fd).st_nlink == 0

    def check(self) -> None:
        """Raises FileNotFoundError if it was deleted."""
        if self.gone():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.run.path)

    def outlast(self, path: str) -> None:
        """Wait while `path` is missing, for a moment. Raises FileNotFoundError if the whole directory goes with it."""
        until_s = time.monotonic() + _GOING_S
        while not os.path.lexists(path) and time.monotonic() < until_s:
            self.check()
            time.sleep(0.05)
        self.check()


@contextmanager
def firm_ground(run: RunDir, record: Record) -> Iterator[Ground]:
    """While training is watched. Raises EndNotWritten, once nothing of it lives, if the run directory was deleted."""
    ground = Ground(run)
    try:
        yield ground
    except OSError:
        if not ground.gone():
            raise
        left = processes.terminate(lambda: _of_training(record), grace_s=_GRACE_S)
        tell(f"{run.path} was deleted: its training was ended; still alive: {[one['pid'] for one in left]}")
        raise EndNotWritten(errno.ENOENT, "the run directory was deleted", run.path) from None
    finally:
        os.close(ground.fd)


def _of_training(record: Record) -> list[processes.Identity]:
    """By what the record remembers, since all files are gone; the keeper ends with its last child."""
    state = record.state
    found = [*processes.descendants(state.get("keeper")), *members(state)]
    found += [state["training"]] if state.get("training") else []
    return [one for one in found if processes.alive(one)]
