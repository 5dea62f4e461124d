"""rejected_rows.jsonl: the rows that were left out on request, each with the reason, so that they can be mended."""

from __future__ import annotations

import json
import os

import orjson

from loopai_trainer.files import atomic
from loopai_trainer.records import Problem

_MAX_RAW_BYTES = 65536
"""Of a line that could not be read; longer ones are found by their line number."""


class RejectedRows:
    """Collects rejected rows in a temporary file; `finish` gives it its name. Use as a context manager."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows = 0
        folder, name = os.path.split(path)
        self._temp = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        fd = os.open(self._temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, atomic.PRIVATE)
        self._file = os.fdopen(fd, "wb")

    def __enter__(self) -> RejectedRows:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        if os.path.lexists(self._temp):
            os.unlink(self._temp)

    def add(self, problem: Problem, value: object) -> None:
        """One row: `value` as it was decoded, or its bytes if it could not be."""
        # Not "row", which is the value: a Parquet row's number would be lost.
        position = {"source_row": problem.row} if problem.row is not None else {"line": problem.line}
        if isinstance(value, bytes):
            value = value[:_MAX_RAW_BYTES].decode("utf-8", "replace")
        record = {
            "where": problem.where,
            **position,
            "code": problem.code,
            "field": problem.field,
            "message": problem.message,
            "row": value,
        }
        self._file.write(_json(record) + b"\n")
        self.rows += 1

    def finish(self) -> str | None:
        """Give the file its name; None, and no file, if nothing was rejected."""
        self._file.flush()
        if not self.rows:
            return None
        os.fsync(self._file.fileno())
        os.replace(self._temp, self.path)
        atomic.sync_folder(os.path.dirname(self.path))
        return self.path


def _json(record: dict[str, object]) -> bytes:
    try:
        return orjson.dumps(record, default=str)
    except TypeError:
        pass
    try:
        return json.dumps(record, default=str).encode("ascii")
    except (TypeError, ValueError, RecursionError):
        return json.dumps({**record, "row": None}).encode("ascii")
