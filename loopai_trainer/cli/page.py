"""A page for people: a console that obeys the shared flags, never crops, and speaks the reader's language."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console

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

    def on_broken_pipe(self) -> None:
        """Say that the reader has gone: rich would exit with 1; `trainer list | head` is no failure (cli.output)."""
        raise BrokenPipeError
