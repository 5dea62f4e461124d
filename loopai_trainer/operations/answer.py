"""The answer of a verb: one value that the terminal view and the JSON envelope are both made from.

Light on purpose (json alone): `status --json` and `run-prepared` import it.
"""

import json

from loopai_trainer.errors import TrainerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from loopai_trainer.records import Problem

SCHEMA = "loopai-trainer/1"


class Answer:
    """`data` has the shape that interface section 5 gives the command; `error` is set when `ok` is false."""

    __slots__ = ("command", "data", "error", "exit_code", "message", "ok", "status")

    def __init__(
        self,
        command: str,
        data: "Mapping[str, Any] | None",
        *,
        status: str = "completed",
        message: str = "",
        error: TrainerError | None = None,
        exit_code: int | None = None,
        ok: bool | None = None,
    ) -> None:
        self.command = command
        self.data = data
        self.status = status
        self.message = message
        self.error = error
        self.exit_code = (error.exit_code if error else 0) if exit_code is None else exit_code
        self.ok = error is None if ok is None else ok

    def envelope(self) -> "dict[str, Any]":
        """The JSON envelope of interface section 5."""
        return {
            "schema": SCHEMA,
            "command": self.command,
            "ok": self.ok,
            "status": self.status,
            "message": self.message,
            "data": None if self.data is None else dict(self.data),
            "error": None if self.error is None else error_json(self.error),
        }

    def json_text(self) -> str:
        """The envelope as one strict JSON document."""
        text = json.dumps(self.envelope(), ensure_ascii=False, allow_nan=False, indent=2)
        # A file name of bytes that are not UTF-8 has lone surrogates, which no stream takes: as \\udcXX it stays JSON.
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def failure(command: str, error: TrainerError) -> Answer:
    """The answer of a verb that refused."""
    return Answer(command, None, status="failed", message=error.message, error=error)


def error_json(error: TrainerError) -> "dict[str, Any]":
    """The common error shape (spec/001 "Errors", interface section 5)."""
    return {
        **error.brief(),
        "next_command": error.next_command,
        "problems": [problem_json(problem) for problem in error.problems],
        **error.details,
    }


def problem_json(problem: "Problem") -> "dict[str, Any]":
    """One finding as JSON; `line` and `row` are never both set."""
    return {name: getattr(problem, name) for name in _PROBLEM_FIELDS}


_PROBLEM_FIELDS = ("severity", "code", "where", "path", "line", "row", "field", "message", "hint", "origin")
