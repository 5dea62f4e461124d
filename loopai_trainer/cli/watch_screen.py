"""The live screen of `watch`: drawn again each second and at each new size of the terminal, and put back at the end."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from loopai_trainer.cli import follow, watch_view
from loopai_trainer.cli.output import Output, finish, gone_readers_are_no_failure, unwritable
from loopai_trainer.cli.progress import LINE_EVERY_S
from loopai_trainer.errors import Interrupted
from loopai_trainer.operations import commands
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.watch import Sample, Watch

LOOK_S = 1.0
_SIZE_S = 0.1
"""How soon a new size of the terminal is noticed."""


def run(start: Callable[[], Watch], output: Output) -> int:
    """Watch to the end; returns the exit code. 0: the run has ended, however it did."""

    def operation() -> Answer:
        with gone_readers_are_no_failure():
            show(start(), output)
        return Answer("watch", None)

    try:
        return finish("watch", output, operation)
    except follow.Unwritable as stop:
        return unwritable(stop.error)


def show(watch: Watch, output: Output) -> None:
    """Show the run until it ends. Raises Interrupted for Ctrl-C, SIGTERM and SIGHUP: the run goes on."""
    try:
        with _signals_leave():
            sample = _on_screen(watch, output) if _is_screen() else _as_lines(watch)
    except KeyboardInterrupt:
        again = commands.watch(watch.run.path)
        raise Interrupted("no longer watching; the run goes on", hint="watch it again", next_command=again) from None
    finally:
        watch.close()
    if _is_screen():
        stays = watch_view.summary(sample, shutil.get_terminal_size().columns, sys.stdout.encoding)
        follow.print_text("\n".join(stays))


def _as_lines(watch: Watch) -> Sample:
    """A line when the phase changes, and every minute."""
    shown: tuple[object, ...] = ()
    said_s = 0.0
    while True:
        sample = watch.look()
        key = watch_view.state_key(sample)
        if key != shown or time.monotonic() - said_s >= LINE_EVERY_S or not sample.goes_on:
            shown, said_s = key, time.monotonic()
            follow.print_text(watch_view.line(sample))
        if not sample.goes_on:
            return sample
        time.sleep(LOOK_S)


def _on_screen(watch: Watch, output: Output) -> Sample:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(force_terminal=True, no_color=not output.color(sys.stdout), highlight=False, emoji=False)

    def drawn(sample: Sample) -> Text:
        lines = watch_view.frame(sample, console.width, console.height, console.encoding)
        text = Text("\n".join(lines), no_wrap=True, overflow="crop", end="")
        text.stylize("bold", 0, len(lines[0]) if lines else 0)
        return text

    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            sample = watch.look()
            live.update(drawn(sample), refresh=True)
            if not sample.goes_on:
                return sample
            for _ in _new_sizes(console):
                live.update(drawn(sample), refresh=True)


def _new_sizes(console: object) -> Iterator[object]:
    """The sizes that the terminal takes until it is time for the next look."""
    until = time.monotonic() + LOOK_S
    size = console.size  # type: ignore[attr-defined] # rich is loaded late
    while time.monotonic() < until:
        time.sleep(_SIZE_S)
        if (now := console.size) != size:  # type: ignore[attr-defined] # as above
            size = now
            yield now


def _is_screen() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def _signals_leave() -> Iterator[None]:
    """SIGTERM and SIGHUP leave as Ctrl-C does, so that the terminal is put back; ignored ones stay ignored."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    heard = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]
    former = {number: signal.signal(number, leave) for number in heard}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
