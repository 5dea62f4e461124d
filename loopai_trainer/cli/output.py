"""How a verb ends: its answer on stdout (one JSON document or the view for people), talk on stderr, an exit code.

Light on purpose: `status --json` and `run-prepared` import it; views are loaded when a person is to be shown something.
"""

import os
import sys

from loopai_trainer.errors import EXIT_INTERRUPTED, TrainerError
from loopai_trainer.operations.answer import Answer, failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO


class Output:
    """What the shared flags say."""

    __slots__ = ("json", "no_color", "quiet")

    def __init__(self, *, json: bool = False, no_color: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.no_color = no_color
        self.quiet = quiet

    def talk(self, line: str) -> None:
        """One line for people on stderr, unless --quiet."""
        if not self.quiet:
            try:
                sys.stderr.write(line + "\n")
                sys.stderr.flush()
            except OSError:
                # A terminal that went away must not end the command that it was watching.
                pass

    def color(self, stream: "TextIO") -> bool:
        """Whether ANSI colours are welcome there (clig.dev: NO_COLOR, TERM=dumb, not a terminal, --no-color)."""
        plain = self.no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return not plain and stream.isatty()


def finish(command: str, output: Output, operation: "Callable[[], Answer]", *, only: str | None = None) -> int:
    """Run the operation, print its answer (or `only` one value of its data), return the exit code."""
    try:
        answer = operation()
    except TrainerError as error:
        answer = failure(command, error)
    except KeyboardInterrupt:
        output.talk(f"trainer {command}: interrupted")
        return EXIT_INTERRUPTED
    if only and answer.ok and answer.data is not None:
        sys.stdout.write(f"{answer.data[only]}\n")
    else:
        show(answer, output)
    return answer.exit_code


def show(answer: Answer, output: Output) -> None:
    """Print an answer: JSON, or the view for people."""
    try:
        if output.json:
            sys.stdout.write(answer.json_text() + "\n")
        else:
            from loopai_trainer.cli import views

            views.show(answer, output)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has seen enough; Python's own flush at exit must not complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
