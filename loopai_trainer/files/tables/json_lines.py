"""JSON Lines: one object a line, any line can be bad without spoiling the others."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from loopai_trainer.files.tables.faults import Fault
from loopai_trainer.files.tables.json_values import MAX_ROW_BYTES, doubtful, examine
from loopai_trainer.files.tables.source import SourceTable

BOM = b"\xef\xbb\xbf"


class JsonLines(SourceTable):
    """`.jsonl`, or JSON Lines under the name `.json`; positions are 1-based lines.

    Blank lines are skipped; line ends are LF, CRLF, or CR alone throughout.
    """

    layout = "JSON Lines"

    def rows(self) -> Iterator[tuple[int, object]]:
        """(line, decoded row or Fault); see SourceTable."""
        loads = orjson.loads
        position, offset = 0, 0
        for raw in self._lines():
            if raw is None:
                position += 1
                yield position, _too_long()
                continue
            position += 1
            try:
                value = loads(raw)
            except orjson.JSONDecodeError:
                for found in examine(raw, offset, self.path):
                    yield position, found
            else:
                if doubtful(raw, value):
                    for found in examine(raw, offset, self.path):
                        yield position, found
                else:
                    yield position, value
            offset += len(raw) + 1

    def _lines(self) -> Iterator[bytes | None]:
        # None stands for a line that is too long to be held in memory.
        newline, tail, skipping, first = b"\n", b"", False, True
        for block in self.blocks():
            if first:
                first = False
                if block.startswith(BOM):
                    block, self.notes = block[len(BOM) :], [*self.notes, "byte-order mark left out"]
                newline = b"\r" if b"\r" in block and b"\n" not in block else newline
            if skipping:
                end = block.find(newline)
                if end < 0:
                    continue
                block, skipping = block[end + 1 :], False
                yield None
            lines = (tail + block).split(newline)
            tail = lines.pop()
            yield from lines
            if len(tail) > MAX_ROW_BYTES:
                tail, skipping = b"", True
        if skipping:
            yield None
        elif tail:
            yield tail


def _too_long() -> Fault:
    limit = MAX_ROW_BYTES >> 20
    return Fault("ROW_TOO_LONG", f"the line is longer than {limit} MiB", "split the row; no model reads that much")
