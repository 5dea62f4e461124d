"""A page for people: a console that obeys the shared flags, never crops, and speaks the reader's language."""

from __future__ import annotations

import os
from typing import TextIO

from rich.console import Console
from rich.text import Text

from loopai_trainer.cli import long_lines
from loopai_trainer.cli.output import Output
from loopai_trainer.rules import messages


class Page(Console):
    """`say("approval.start_once")`: that text, in the language of the reader."""

    def __init__(self, output: Output, stream: TextIO) -> None:
        colour = output.color(stream)
        super().__init__(
            file=stream, no_color=not colour, force_terminal=colour, highlight=False, soft_wrap=True, emoji=False
        )
        self.say = messages.speaker(output.language)

    def lines(self, shown: Text | str) -> None:
        """Print lines (as text, or in markup) of which none looks like two: what is too long goes on behind a mark."""
        text = Text.from_markup(shown, emoji=False) if isinstance(shown, str) else shown
        for pieces in long_lines.broken(text, self.columns()):
            for piece in pieces:
                self.print(piece)

    def columns(self) -> int:
        """The width of the very terminal that this is written to, whatever COLUMNS says; else the console's."""
        try:
            return os.get_terminal_size(self.file.fileno()).columns or self.width
        except (OSError, ValueError):
            return self.width

    def on_broken_pipe(self) -> None:
        """Say that the reader has gone: rich would exit with 1; `trainer list | head` is no failure (cli.output)."""
        raise BrokenPipeError
