"""Progress on stderr: a bar on a terminal, a line a minute elsewhere, nothing with --quiet."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import IO, Any, TextIO, cast

from loopai_trainer.cli.output import Output
from loopai_trainer.rules.run_state import LIVE

LINE_EVERY_S = 60.0
"""Elsewhere than on a terminal: often enough to show life, rarely enough for an agent's context."""
SILENT_S = 1.0
"""A wait that is shorter than this is not talked about."""
REDRAW_S = 0.1


def redraws(output: Output) -> bool:
    """Whether a line of stderr may be replaced: on a terminal that can do so, and is to be talked to."""
    return not output.quiet and os.environ.get("TERM") != "dumb" and sys.stderr.isatty()


def bytes_progress(output: Output) -> Callable[[str, int, int], None] | None:
    """For the hashing before a launch, from its second second on: a line that is redrawn, or one a minute elsewhere.

    With --verbose a line for each step.
    """
    if output.verbose:
        return Steps(output)
    return None if output.quiet else _Bytes(output)


class _Bytes:
    """So many megabytes of so many; nothing for what is done within a second."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._line = ReplacedLine(output)
        self._next_s = time.monotonic() + SILENT_S

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next_s:
            return
        line = f"{what}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
        if self._line.live:
            self._line.live("" if done >= total else line)
            self._next_s = now + REDRAW_S
        elif done < total:
            self._line.say(line)
            self._next_s = now + LINE_EVERY_S


class Steps:
    """A line when a step begins, with the time since the first one, and its size where that is known."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._begun_s = time.monotonic()
        self._what = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Say it, if it is a new step."""
        if what != self._what:
            self._what = what
            size = f" ({total:,})" if total else ""
            self._output.talk(f"[{time.monotonic() - self._begun_s:8.2f} s] {what}{size}")


class _Enduring:
    """A stream that may go away: who waits for a run goes on waiting when the terminal of its progress was closed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class ReplacedLine:
    """Lines that stay (`say`), and on a terminal one below them that is replaced (`live`, None elsewhere)."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._width = shutil.get_terminal_size().columns - 1
        self.live = self._replace if redraws(output) else None

    def say(self, line: str) -> None:
        """A line that stays."""
        if self.live:
            self._replace("")
        self._output.talk(line)

    def _replace(self, line: str) -> None:
        stream = _Enduring(sys.stderr)
        stream.write("\r" + line[: self._width].ljust(self._width) + "\r")
        stream.flush()


class RunProgress:
    """Shows a run's state as it changes: `update` takes the state (interface section 5, status data)."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._bar = _Bar(output) if redraws(output) else None
        self._last_line = 0.0
        self._last_phase = ""

    def update(self, state: Mapping[str, Any]) -> None:
        """Redraw the bar, or print a line if the phase or a fault is new or a minute has passed."""
        if self._bar:
            self._bar.update(state)
            return
        phase, now = str(state.get("phase") or state.get("status")) + fault(state), time.monotonic()
        if phase != self._last_phase or now - self._last_line >= LINE_EVERY_S:
            self._last_phase, self._last_line = phase, now
            self._output.talk(state_line(state))

    def close(self) -> None:
        """End the bar's line."""
        if self._bar:
            self._bar.close()


def state_line(state: Mapping[str, Any]) -> str:
    """One line: phase, step, loss, learning rate, time left."""
    parts = [str(state.get("phase") or state.get("status")).replace("_", " ")]
    if state.get("current_step") is not None:
        parts.append(f"step {state['current_step']}/{state.get('total_steps') or '?'}")
    for key, name in (("loss", "loss"), ("eval_loss", "eval loss"), ("learning_rate", "lr")):
        if isinstance(state.get(key), int | float):
            parts.append(f"{name} {state[key]:.4g}")
    if isinstance(state.get("eta_s"), int | float):
        parts.append(f"about {duration_text(state['eta_s'])} left")
    wrong = fault(state)
    return ", ".join(parts) + (f": {wrong}" if wrong else "")


def fault(state: Mapping[str, Any]) -> str:
    """What is wrong with a run that goes on, and what to do (its worker is stopped, its cluster is not reached)."""
    error = state.get("error")
    if not isinstance(error, Mapping) or state.get("status") not in (*LIVE, "unknown"):
        return ""
    return "; ".join(str(error[name]) for name in ("detail", "hint") if error.get(name))


def duration_text(seconds: float) -> str:
    """`3 s`, `4 min`, `2 h 10 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class _Bar:
    """A rich progress bar on stderr; rich is loaded at its first update, after training has started."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._progress: Any = None
        self._task: Any = None

    def update(self, state: Mapping[str, Any]) -> None:
        if self._progress is None:
            self._start()
        total = state.get("total_steps")
        self._progress.update(
            self._task, description=state_line(state), completed=state.get("current_step") or 0, total=total or None
        )

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        # A terminal also where no colour is wanted: rich would not draw before the end otherwise.
        plain = not self._output.color(sys.stderr)
        console = Console(
            file=cast(IO[str], _Enduring(sys.stderr)), force_terminal=True, no_color=plain, highlight=False, emoji=False
        )
        # Narrow enough that loss, learning rate and time left stand whole at 80 columns.
        columns = (BarColumn(bar_width=8), TextColumn("{task.description}", markup=False))
        self._progress = Progress(*columns, console=console, transient=False)
        self._task = self._progress.add_task("starting", total=None)
        self._progress.start()
