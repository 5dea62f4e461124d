"""No wait is silent: what a command is at is said on stderr once it has taken a second; shorter ones say nothing.

A timer's signal says it, not a thread: what an operation asks is started by fork, and a fork wants no threads.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar

from loopai_trainer.cli.output import Output
from loopai_trainer.cli.progress import LINE_EVERY_S, Steps, duration_text, redraws

FIRST_S = 1.0
REDRAW_S = 0.5
LEAST_BYTES = 1_000_000
"""Amounts below a megabyte say nothing about how long it takes."""

Result = TypeVar("Result")


class Patience:
    """Within it, `doing` is said, or the last step that it was called with; `end` for who speaks for themselves.

    Called as what takes progress wants it: (what, bytes done, bytes in all or 0 where that is not known).
    """

    def __init__(self, output: Output, doing: str) -> None:
        self._at = (doing, "")
        self._quiet = output.quiet
        self._steps = Steps(output) if output.verbose else None
        self._redraws = redraws(output) and not output.verbose
        self._began_s = time.monotonic()
        self._timed = False
        self._former: Any = None
        self._former_timer = (0.0, 0.0)
        self._drawn = ""
        self._said, self._said_s = "", 0.0

    def __enter__(self) -> Patience:
        if not self._quiet and threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGALRM, self._tick)
            signal.siginterrupt(signal.SIGALRM, False)  # reads of libraries in C are not to fail for it
            self._timed = True
            every_s = REDRAW_S if self._redraws else FIRST_S
            self._former_timer = signal.setitimer(signal.ITIMER_REAL, FIRST_S, every_s)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def __call__(self, what: str, done: int, total: int) -> None:
        """It is at `what` now, at so many bytes of so many."""
        if self._steps is not None:
            self._steps(what, done, total)
        self._at = (what, f", {done / 1e6:,.0f} of {total / 1e6:,.0f} MB" if total >= LEAST_BYTES else "")

    def end(self) -> None:
        """Say nothing from now on, and take the line away that was drawn."""
        if not self._timed:
            return
        self._timed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._former)
        signal.setitimer(signal.ITIMER_REAL, *self._former_timer)
        if self._drawn:
            _write("\r" + " " * len(self._drawn) + "\r")

    def before(self, call: Callable[..., Result]) -> Callable[..., Result]:
        """`call`, which speaks for itself: this ends first."""

        def ended(*arguments: Any, **named: Any) -> Result:
            self.end()
            return call(*arguments, **named)

        return ended

    def _tick(self, number: int, frame: FrameType | None) -> None:
        (doing, amount), now_s = self._at, time.monotonic()
        line = f"{doing}{amount}, {duration_text(now_s - self._began_s)}"
        if self._redraws:
            width = shutil.get_terminal_size().columns - 1
            self._drawn = line[:width].ljust(min(len(self._drawn), width))
            _write("\r" + self._drawn)
        elif doing != self._said or now_s - self._said_s >= LINE_EVERY_S:
            self._said, self._said_s = doing, now_s
            _write(line + "\n")


def patiently(output: Output, doing: str, operation: Callable[[Patience], Result]) -> Callable[[], Result]:
    """The operation, called with the patience that it has to be told of; for cli.output.finish."""

    def operate() -> Result:
        with Patience(output, doing) as patience:
            return operation(patience)

    return operate


def _write(text: str) -> None:
    # Past Python's own buffer: the signal may have come in the middle of a write into that.
    with contextlib.suppress(OSError, ValueError):
        os.write(sys.stderr.fileno(), text.encode("utf-8", "replace"))
