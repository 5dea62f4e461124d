"""JSON values one after the other: a top-level list, or objects written over several lines.

Only brackets and quotes are followed here; each item's text is then judged as a line of JSON Lines is, so that both
give the same verdict, and one bad item does not end the reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

from loopai_trainer.files.tables.faults import Fault
from loopai_trainer.files.tables.json_lines import BOM
from loopai_trainer.files.tables.json_values import MAX_ROW_BYTES, count_byte, doubtful, examine
from loopai_trainer.files.tables.source import Batch, SourceTable

_BLANKS = re.compile(rb"[ \t\r\n]*")
_SCALAR = re.compile(rb'"[^"]*"|[^ \t\r\n,\[\]{}"]+')
_TO_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"]*"[^"\[\]{}]*+)*+([\[\]{}])')
"""Up to the next bracket outside strings, in a text whose escaped quotes are masked; possessive, so linear."""
_HEAD = re.compile(rb'\{\s*"[^"\\]*"')
_OPENING = b"[{"
_HELD_BYTES = 1 << 16
_COMMA_HINTS = {
    True: "one comma between two items, none before the first",
    False: "put the objects into a list: [ at the start, ] at the end",
}


class JsonItems(SourceTable):
    """A `.json` list (`in_list`), or whole objects one after the other. Positions: the line on which an item starts."""

    def __init__(self, path: str, size_bytes: int, *, in_list: bool) -> None:
        super().__init__(path, size_bytes)
        self.in_list = in_list
        self.layout = "JSON list" if in_list else "JSON objects"
        self._window = _Window(self.blocks())
        self._guess = _SeparatorGuess()

    def batches(self) -> Iterator[Batch]:
        """(first line of each item, decoded rows or Faults); see SourceTable."""
        window, guess = self._window, self._guess
        window.fill(len(BOM))
        if window.data.startswith(BOM):
            window.advance(len(BOM))
            self.notes = [*self.notes, "byte-order mark left out"]
        if self.in_list:
            window.skip_blanks()
            window.advance(1)
        before = 0
        held = _Held()
        for fault in self._to_items():
            if fault is not None:
                yield from held.take()
                yield (window.line,), [fault]
                continue
            for batch in guess.run(window, self.path):
                yield from held.take()
                yield batch
            raw = self._scan_item()
            if raw is None:
                yield from held.take()
                yield (window.line,), [self._unclosed()]
                return
            line, offset = window.line, window.offset + window.position
            if line == before and not self.shared_lines:
                # What is said of the items before does not depend on those after them.
                yield from held.take()
                self.shared_lines = True
            before = line
            held.add(line, self._judged(raw, offset), len(raw))
            if held.full:
                yield from held.take()
            window.advance(len(raw))
        yield from held.take()

    def _judged(self, raw: bytes, offset: int) -> list[object]:
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return examine(raw, offset, self.path)
        return examine(raw, offset, self.path) if doubtful(raw, value) else [value]

    def _to_items(self) -> Iterator[Fault | None]:
        """None each time that an item begins at the window's position; Faults of what stands between items."""
        window, first = self._window, True
        while True:
            commas = self._skip_commas()
            byte = window.peek()
            if byte == b"":
                if self.in_list:
                    yield Fault(
                        "JSON_CUT", "the list is not closed: the file ends before its ']'", "complete the file", "file"
                    )
                return
            if self.in_list and byte == b"]":
                if commas:
                    yield _file_fault(
                        "JSON_TRAILING_COMMA", "a comma stands before the list's ']'", "remove that comma"
                    )
                window.advance(1)
                window.skip_blanks()
                if window.peek():
                    yield _file_fault(
                        "JSON_EXTRA", "there is more text after the list's ']'", "keep one list in the file"
                    )
                return
            if byte in (b"]", b"}"):
                yield _file_fault("JSON_INVALID", f"a {byte.decode()!r} closes nothing", "correct the brackets")
                return
            if commas != (1 if self.in_list and not first else 0):
                yield _file_fault("JSON_INVALID", f"{commas} commas before this item", _COMMA_HINTS[self.in_list])
            first = False
            yield None

    def _skip_commas(self) -> int:
        commas = 0
        self._window.skip_blanks()
        while self._window.peek() == b",":
            commas += 1
            self._window.advance(1)
            self._window.skip_blanks()
        return commas

    def _scan_item(self) -> bytes | None:
        """The text of the item at the window's position; None if it never ends or is too long."""
        window = self._window
        while True:
            end = _item_end(window)
            if end is not None:
                return window.data[window.position : end]
            if window.ended or len(window.data) - window.position > MAX_ROW_BYTES:
                return None
            window.grow()

    def _unclosed(self) -> Fault:
        window = self._window
        raw = window.data[window.position :]
        if len(raw) > MAX_ROW_BYTES:
            limit = MAX_ROW_BYTES >> 20
            return _file_fault("ROW_TOO_LONG", f"the item that starts here is longer than {limit} MiB", "split the row")
        found = examine(raw, window.offset + window.position, self.path)
        fault = found[-1] if found and isinstance(found[-1], Fault) else None
        if fault is None:
            return _file_fault("JSON_CUT", "the item that starts here never ends", "complete the file")
        return fault


def _file_fault(code: str, message: str, hint: str) -> Fault:
    return Fault(code, message, hint, scope="file")


def _item_end(window: _Window) -> int | None:
    """Where the item at the window's position ends, if that can be told from the window; brackets are only counted."""
    data, masked = window.data, window.masked()
    if data[window.position] not in _OPENING:
        found = _SCALAR.match(masked, window.position)
        if found is None:
            return None
        return found.end() if found.end() < len(data) or window.ended else None
    depth, position = 0, window.position
    while True:
        found = _TO_BRACKET.match(masked, position)
        if found is None:
            return None
        position = found.end()
        depth += 1 if masked[position - 1] in _OPENING else -1
        if depth == 0:
            return position


class _Held:
    """Items found one by one, until they are enough to be handed on together."""

    def __init__(self) -> None:
        self._lines: list[int] = []
        self._values: list[object] = []
        self._size = 0

    @property
    def full(self) -> bool:
        return self._size >= _HELD_BYTES

    def add(self, line: int, values: list[object], size: int) -> None:
        self._lines += [line] * len(values)
        self._values += values
        self._size += size

    def take(self) -> Iterator[Batch]:
        if self._values:
            yield self._lines, self._values
        self._lines, self._values, self._size = [], [], 0


class _Window:
    """The part of the file that is in memory. `offset`: where it begins in the file; `line`: that of `position`."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._masked: bytes | None = None
        self.data = b""
        self.position = 0
        self.offset = 0
        self.line = 1
        self.ended = False

    def grow(self) -> bool:
        """Read on, forgetting what lies before `position`; False at the end of the file."""
        block = next(self._blocks, b"")
        if not block:
            self.ended = True
            return False
        self.data = self.data[self.position :] + block
        self.offset += self.position
        self.position = 0
        self._masked = None
        return True

    def fill(self, count: int) -> None:
        """Have at least `count` bytes after `position`, if the file has them."""
        while len(self.data) - self.position < count and self.grow():
            pass

    def advance(self, count: int) -> None:
        """Go `count` bytes on."""
        end = self.position + count
        self.line += self.data.count(b"\n", self.position, end)
        self.position = end

    def skip_blanks(self) -> None:
        """Go on to the next byte that is not a blank."""
        while True:
            found = _BLANKS.match(self.data, self.position)
            end = found.end() if found else self.position
            self.advance(end - self.position)
            if self.position < len(self.data) or not self.grow():
                return

    def peek(self) -> bytes:
        """The byte at `position`; empty at the end of the file."""
        self.fill(1)
        return self.data[self.position : self.position + 1]

    def masked(self) -> bytes:
        """`data` with escape sequences of the same length masked, so that every quote left opens or closes a string."""
        if self._masked is None:
            data = self.data
            self._masked = data.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in data else data
        return self._masked


class _SeparatorGuess:
    """Finds an item's end by the bytes that stood between two earlier items, which costs one search instead of a scan.

    It cannot be wrong: a text that parses as one JSON value is the item. A miss costs time only, so after many misses
    it is given up.
    """

    def __init__(self) -> None:
        self._separator = b""
        self._between = 0
        self._lines_between = 0
        self._hits = 0
        self._misses = 0

    def run(self, window: _Window, path: str) -> Iterator[Batch]:
        """Items from the window's position on, for as long as the guess holds; the window then stands at an item."""
        if self._misses > 16 and self._misses > self._hits:
            return
        if not self._separator:
            self._learn(window)
            return
        separator, between, data = self._separator, self._between, window.data
        first = start = window.position
        line, loads = window.line, orjson.loads
        starts: list[int] = []
        lines: list[int] = []
        values: list[object] = []
        while (at := data.find(separator, start + 1)) >= 0:
            raw = data[start : at + 1]
            try:
                values.append(loads(raw))
            except orjson.JSONDecodeError:
                self._separator = b""
                break
            starts.append(start)
            lines.append(line)
            start = at + between
            line += count_byte(raw, b"\n") + self._lines_between
        self._hits += len(values)
        if values:
            doubt = doubtful(data[first:start], values)
            yield _one_by_one(window, [*starts, start], lines, values, path) if doubt else (lines, values)
        self._misses += 1
        window.position, window.line = start, line

    def _learn(self, window: _Window) -> None:
        # Needs an item's closing brace, the bytes between, and the next item's first key.
        head = _HEAD.match(window.data, window.position)
        before = window.data.rfind(b"}", 0, window.position)
        if head is None or before < 0:
            return
        between = window.data[before + 1 : window.position]
        if between.strip() == b",":
            self._separator = window.data[before : head.end()]
            self._between = len(between) + 1
            self._lines_between = between.count(b"\n")


def _one_by_one(window: _Window, starts: list[int], lines: list[int], values: list[object], path: str) -> Batch:
    """Items that the window's bytes from `starts[i]` up to `starts[i + 1]` hold, at least one of which is doubtful."""
    at: list[int] = []
    items: list[object] = []
    for number, (line, value) in enumerate(zip(lines, values, strict=True)):
        start = starts[number]
        text = window.data[start : starts[number + 1]]
        found = [value]
        if doubtful(text, value):
            found = examine(text[: text.rindex(b"}") + 1], window.offset + start, path)
        at += [line] * len(found)
        items += found
    return at, items
