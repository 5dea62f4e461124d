"""JSON Lines: one object a line, any line can be bad without spoiling the others."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

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
    _newline = b"\n"

    def rows(self) -> Iterator[tuple[int, object]]:
        """(line, decoded row or Fault); see SourceTable."""
        position, offset = 0, 0
        for text in self._texts():
            if text is None:
                position += 1
                yield position, _too_long()
                continue
            values = _parsed(text, self._newline)
            if values is None:
                yield from self._one_by_one(text, position, offset)
            else:
                yield from enumerate(values, position + 1)
            position += text.count(self._newline) + 1 if values is None else len(values)
            offset += len(text) + 1

    def _one_by_one(self, text: bytes, position: int, offset: int) -> Iterator[tuple[int, object]]:
        for raw in text.split(self._newline):
            position += 1
            try:
                value = orjson.loads(raw)
                found = examine(raw, offset, self.path) if doubtful(raw, value) else [value]
            except orjson.JSONDecodeError:
                found = examine(raw, offset, self.path)
            for one in found:
                yield position, one
            offset += len(raw) + 1

    def _texts(self) -> Iterator[bytes | None]:
        # Whole lines, as many as a block ends; None stands for a line that is too long to be held in memory.
        tail, skipping, first = b"", False, True
        for block in self.blocks():
            if first:
                first = False
                if block.startswith(BOM):
                    block, self.notes = block[len(BOM) :], [*self.notes, "byte-order mark left out"]
                self._newline = b"\r" if b"\r" in block and b"\n" not in block else b"\n"
            if skipping:
                end = block.find(self._newline)
                if end < 0:
                    continue
                block, skipping = block[end + 1 :], False
                yield None
            text, newline, rest = block.rpartition(self._newline)
            if newline:
                yield tail + text
                tail = rest
            else:
                tail += rest
            if len(tail) > MAX_ROW_BYTES:
                tail, skipping = b"", True
        if skipping:
            yield None
        elif tail:
            yield tail


def _parsed(text: bytes, newline: bytes) -> list[object] | None:
    """The value of each line of `text`; None if any of them needs a close look."""
    if newline == b"\r" or not text or text.endswith(b"\n"):  # the last line is blank
        return None
    try:
        # readlines looks for line ends as a processor can, split at one byte after the other.
        values: list[object] = list(map(orjson.loads, BytesIO(text).readlines()))
    except orjson.JSONDecodeError:
        return None
    return None if doubtful(text, values) else values


def _too_long() -> Fault:
    limit = MAX_ROW_BYTES >> 20
    return Fault("ROW_TOO_LONG", f"the line is longer than {limit} MiB", "split the row; no model reads that much")
