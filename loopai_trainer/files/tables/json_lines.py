"""JSON Lines: one object a line, any line can be bad without spoiling the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sized
from typing import TypeVar

import orjson

from loopai_trainer.files.tables.faults import Fault
from loopai_trainer.files.tables.json_values import MAX_ROW_BYTES, doubtful, examine
from loopai_trainer.files.tables.source import Batch, SourceTable

BOM = b"\xef\xbb\xbf"
_MARK = int.from_bytes(os.urandom(8)) >> 2
_BETWEEN = b",%d," % _MARK
_TOGETHER_BYTES = 1 << 17
WHOLE_BYTES = 2 << 20
"""So many bytes of lines are read as a whole: each costs as many calls, and one odd line makes all of it costly."""
_CLOSELY = 256
"""So many rows are given at a time when each line is looked at: faults take more memory than the lines they are of."""

Block = TypeVar("Block", bound=Sized)


class JsonLines(SourceTable):
    """`.jsonl`, or JSON Lines under the name `.json`; positions are 1-based lines.

    Blank lines are skipped; line ends are LF, CRLF, or CR alone throughout.
    """

    layout = "JSON Lines"
    _newline = b"\n"

    def batches(self) -> Iterator[Batch]:
        """(lines, decoded rows or Faults); see SourceTable."""
        yield from self._read(None, None)

    def blocks_or_batches(
        self, whole: Callable[[bytes], Block | None], block_bytes: int | None = None
    ) -> Iterator[tuple[range, Block] | Batch]:
        """As `batches`, but some lines at a time (joined by LF) are first given to `whole`.

        What it makes of them, one item a line, is yielded with their numbers; if that is None, they are read as ever.
        `block_bytes`: how much is read at a time (None: WHOLE_BYTES).
        """
        yield from self._read(whole, block_bytes or WHOLE_BYTES)

    def _read(
        self, whole: Callable[[bytes], Block | None] | None, block_bytes: int | None
    ) -> Iterator[tuple[range, Block] | Batch]:
        position, offset = 0, 0
        for text in self._texts(block_bytes):
            if text is None:
                position += 1
                too_long: list[object] = [_too_long()]
                yield (position,), too_long
                continue
            block = whole(text) if whole is not None and self._newline == b"\n" else None
            if block is not None:
                yield range(position + 1, position + 1 + len(block)), block
                position += len(block)
                offset += len(text) + 1
                continue
            for some in _cut(text, self._newline):
                values = _parsed(some, self._newline)
                if values is None:
                    yield from self._one_by_one(some, position, offset)
                    position += some.count(self._newline) + 1
                else:
                    yield range(position + 1, position + 1 + len(values)), values
                    position += len(values)
                offset += len(some) + 1

    def _one_by_one(self, text: bytes, position: int, offset: int) -> Iterator[Batch]:
        lines: list[int] = []
        values: list[object] = []
        for raw in text.split(self._newline):
            position += 1
            try:
                value = orjson.loads(raw)
                found = examine(raw, offset, self.path) if doubtful(raw, value) else [value]
            except orjson.JSONDecodeError:
                found = examine(raw, offset, self.path)
            lines += [position] * len(found)
            values += found
            offset += len(raw) + 1
            if len(values) >= _CLOSELY:
                yield lines, values
                lines, values = [], []
        if values:
            yield lines, values

    def _texts(self, block_bytes: int | None) -> Iterator[bytes | None]:
        # Whole lines, as many as a block ends; None stands for a line that is too long to be held in memory.
        tail, skipping, first = b"", False, True
        for block in self.blocks(block_bytes):
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
            end = block.rfind(self._newline)
            if end >= 0:
                yield b"".join((tail, memoryview(block)[:end]))
                tail = block[end + 1 :]
            else:
                tail += block
            if len(tail) > MAX_ROW_BYTES:
                tail, skipping = b"", True
        if skipping:
            yield None
        elif tail:
            yield tail


def _cut(text: bytes, newline: bytes) -> Iterator[bytes]:
    """`text` in parts of whole lines, so few that all that is made of them stays near the processor."""
    start = 0
    while (end := text.find(newline, start + _TOGETHER_BYTES)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:] if start else text


def _parsed(text: bytes, newline: bytes) -> list[object] | None:
    """The value of each line of `text`; None if any of them needs a close look."""
    values = values_of_lines(text, newline)
    return None if values is None or doubtful(text, values) else values


def values_of_lines(text: bytes, newline: bytes) -> list[object] | None:
    """The value of each line of `text`, of which some may be `doubtful`; None if a line does not hold just one.

    The lines are parsed as one list with a mark between two of them. As many marks in the list itself as there were
    line ends, one after each value, mean that each line holds one whole value: no line can hold the mark, which nobody
    knows.
    """
    joined = text.replace(newline, _BETWEEN)
    try:
        marked: list[object] = orjson.loads(b"[" + joined + b"]")
    except orjson.JSONDecodeError:
        return None
    values, marks = marked[::2], marked[1::2]
    line_ends = (len(joined) - len(text)) // (len(_BETWEEN) - 1)
    return values if len(values) - 1 == len(marks) == marks.count(_MARK) == line_ends else None


def _too_long() -> Fault:
    limit = MAX_ROW_BYTES >> 20
    return Fault("ROW_TOO_LONG", f"the line is longer than {limit} MiB", "split the row; no model reads that much")
