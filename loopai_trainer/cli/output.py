"""How a verb ends: its answer on stdout (one JSON document or the view for people), talk on stderr, an exit code.

Light on purpose: `status --json` and `run-prepared` import it; views are loaded when a person is to be shown something.
"""

import contextlib
import os
import sys
import time

from loopai_trainer.errors import EXIT_UNEXPECTED, Interrupted, TrainerError
from loopai_trainer.operations.answer import Answer, failure
from loopai_trainer.operations.redaction import without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from loopai_trainer.rules.messages import Language


class Output:
    """What the shared flags say."""

    __slots__ = ("_language", "json", "no_color", "quiet", "verbose")

    def __init__(
        self,
        *,
        json: bool = False,
        no_color: bool = False,
        quiet: bool = False,
        verbose: bool = False,
        language: str | None = None,
    ) -> None:
        self.json = json
        self.no_color = no_color
        self.quiet = quiet
        self.verbose = verbose and not quiet
        self._language = language

    @property
    def language(self) -> "Language":
        """What views speak: --language, else LOOPAI_TRAINER_LANGUAGE, else English."""
        from loopai_trainer.rules import messages

        return messages.language_of(self._language or os.environ.get(messages.VARIABLE))

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
    begun_s = time.monotonic()
    try:
        answer = operation()
    except TrainerError as error:
        _say_where(error, output)
        answer = failure(command, error)
    except KeyboardInterrupt:
        answer = failure(command, Interrupted("interrupted before it had its answer", hint="make the same call again"))
    if only and answer.ok and answer.data is not None:
        value = answer.data[only]
        code = _written(lambda: sys.stdout.write(f"{value}\n"), answer.exit_code)
    else:
        code = show(answer, output)
    if output.verbose:
        from loopai_trainer.version import __version__

        output.talk(f"trainer {command} {__version__}: exit code {code} after {time.monotonic() - begun_s:.2f} s")
    return code


def _say_where(error: TrainerError, output: Output) -> None:
    """With --verbose: the way by which the program came to refuse, without secrets."""
    if not output.verbose:
        return
    import traceback

    from loopai_trainer.rules import secrets

    text = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    output.talk(secrets.redacted(f"refused here:\n{text}", secrets.environment_values(os.environ)))


def show(answer: Answer, output: Output) -> int:
    """Print an answer, JSON or the view for people, and return the exit code (1 if it could not be written)."""

    answer = without_secrets(answer, os.environ)

    def write() -> None:
        if output.json:
            sys.stdout.write(answer.json_text() + "\n")
        else:
            from loopai_trainer.cli import views

            views.show(answer, output)

    return _written(write, answer.exit_code)


def _written(write: "Callable[[], object]", exit_code: int) -> int:
    try:
        write()
        sys.stdout.flush()
        return exit_code
    except OSError as error:
        return unwritable(error, exit_code)


def unwritable(error: OSError, exit_code: int = 0) -> int:
    """The exit code when stdout did not take the answer: that of the answer if its reader (head, less) has gone."""
    _drop_stdout()
    if isinstance(error, BrokenPipeError):
        return exit_code  # it has seen enough: no failure
    with contextlib.suppress(OSError):
        sys.stderr.write(f"trainer: the answer could not be written: {error.strerror}\n")
    return exit_code or EXIT_UNEXPECTED


@contextlib.contextmanager
def gone_readers_are_no_failure() -> "Iterator[None]":
    """For what prints as it goes: a reader (head, less) that has seen enough ends it, and that is all."""
    try:
        yield
    except BrokenPipeError:
        _drop_stdout()


def _drop_stdout() -> None:
    """Let Python's own flush at exit write into nothing instead of failing once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
