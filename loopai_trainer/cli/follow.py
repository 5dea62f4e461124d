"""Commands that follow: lines as they come; with --json JSON lines, the first naming the schema."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator

from loopai_trainer.cli.output import Output, finish, unwritable
from loopai_trainer.operations.answer import SCHEMA, Answer
from loopai_trainer.rules import secrets


def lines(command: str, output: Output, start: Callable[[], Iterator[object]]) -> int:
    """Print each item (text, or an event) until the run ends or the reader goes away. Returns the exit code.

    The lines are the answer: nothing is shown at the end but a refusal, as JSON only if it is all there is.
    """
    last = Output(json=output.json, no_color=output.no_color, quiet=output.quiet, verbose=output.verbose)

    def operation() -> Answer:
        hidden = secrets.environment_values(os.environ)
        for index, item in enumerate(start()):
            last.json = False
            if index == 0 and output.json:
                print_text(json.dumps({"type": "version", "schema": SCHEMA}))
            print_text(_line(secrets.redacted_value(item, hidden), output))
        last.json = False
        return Answer(command, None)

    # As for `wait`: a polite signal ends the following alone (exit 130); what `nohup` had ignored stays ignored.
    heard = [number for number in _POLITE if signal.getsignal(number) is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, signal.default_int_handler)
    try:
        return finish(command, last, operation)
    except Unwritable as stop:
        return unwritable(stop.error)
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


_POLITE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Unwritable(Exception):
    """stdout takes no more lines; told apart from files of the run that cannot be read."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def _line(item: object, output: Output) -> str:
    if output.json:
        value = item if isinstance(item, dict) else {"type": "line", "line": item}
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    if isinstance(item, dict):
        from loopai_trainer.cli.views import event_line

        return event_line(item)
    return str(item)


def print_text(text: str) -> None:
    """Write lines to stdout. Raises Unwritable."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError as error:
        raise Unwritable(error) from None
