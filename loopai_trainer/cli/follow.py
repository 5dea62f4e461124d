"""Commands that follow: lines as they come; with --json JSON lines, the first naming the schema."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator

from loopai_trainer.cli.output import Output, finish, gone_readers_are_no_failure
from loopai_trainer.operations.answer import SCHEMA, Answer
from loopai_trainer.rules import secrets


def lines(command: str, output: Output, start: Callable[[], Iterator[object]]) -> int:
    """Print each item (text, or an event) until the run ends or the reader goes away. Returns the exit code.

    The lines are the answer: nothing is shown at the end but a refusal, as JSON only if it is all there is.
    """
    last = Output(json=output.json, no_color=output.no_color, quiet=output.quiet)

    def operation() -> Answer:
        hidden = secrets.environment_values(os.environ)
        with gone_readers_are_no_failure():
            for index, item in enumerate(start()):
                last.json = False
                if index == 0 and output.json:
                    _print(json.dumps({"type": "version", "schema": SCHEMA}))
                _print(_line(secrets.redacted_value(item, hidden), output))
        last.json = False
        return Answer(command, None)

    return finish(command, last, operation)


def _line(item: object, output: Output) -> str:
    if output.json:
        value = item if isinstance(item, dict) else {"type": "line", "line": item}
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    if isinstance(item, dict):
        from loopai_trainer.cli.views import event_line

        return event_line(item)
    return str(item)


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
