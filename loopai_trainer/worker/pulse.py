"""How long a worker pauses between two looks at its training: not at all once its main process has ended."""

from __future__ import annotations

import os
import select
import time

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import processes
from loopai_trainer.worker.observe import read_started

_FIRST_S, _LATER_S = 0.2, 1.0
_EAGER_FOR_S = 30.0
"""Short pauses in the first half minute, when most goes wrong and people look; then a second, for days."""

_OVER_S = 0.05
"""After the end, until the keeper has written how it ended."""


class Pulse:
    """The pauses of one worker."""

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self._begun_s = time.monotonic()
        self._fd: int | None = None
        self._over = False

    def wait(self) -> None:
        """Pause until the next look is due, or training's main process ends (its pidfd then can be read)."""
        if self._over:
            time.sleep(_OVER_S)
            return
        pause_s = _FIRST_S if time.monotonic() - self._begun_s < _EAGER_FOR_S else _LATER_S
        if self._fd is None and not self._open():
            time.sleep(_FIRST_S)
            return
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)  # type: ignore[arg-type]  # mypy does not follow _open
        if poll.poll(pause_s * 1000):
            self._over = True
            self.close()

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> bool:
        main = read_started(self.run).get("training")
        if main is None or not processes.visible(main):
            return False
        try:
            fd = os.pidfd_open(main["pid"])
        except OSError:
            self._over = processes.visible(main) and not processes.alive(main)
            return False
        # Looked at after the pidfd was opened: it then names this very process, even if the pid is used again.
        if not processes.alive(main):
            os.close(fd)
            self._over = True
            return False
        self._fd = fd
        return True
