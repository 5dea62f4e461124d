"""Rows of a snapshot on their way into a row group, and the one schema that they have there."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import pyarrow

from loopai_trainer.rules.rows.columns import PLAIN_ROLES, Columns

_TURN = pyarrow.struct([pyarrow.field("role", pyarrow.string()), pyarrow.field("content", pyarrow.string())])
SCHEMA = pyarrow.schema(
    [
        pyarrow.field("messages", pyarrow.list_(_TURN)),
        pyarrow.field("system", pyarrow.string()),
        pyarrow.field("tools", pyarrow.string()),
        pyarrow.field("source_line", pyarrow.int64()),
    ]
)


class RowGroup:
    """Rows, until they are `max_rows` or have `max_characters`, which is enough for a row group."""

    def __init__(self, max_rows: int, max_characters: int) -> None:
        self._max_rows = max_rows
        self._max_characters = max_characters
        self._arrays: list[Any] = []
        self._contents: list[str] = []  # those that follow the ones in arrays
        self._ends = array("i", [0])
        self._roles: list[str] = []  # of all rows, as systems and tools; empty as long as all are plain
        self._systems: list[str] = []
        self._tools: list[str] = []
        self._lines = array("q")
        self._characters = 0
        self._plain = True

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self._lines)

    @property
    def full(self) -> bool:
        """Whether it takes no more."""
        return self._characters >= self._max_characters or self.rows >= self._max_rows

    def add(self, rows: Columns, lines: Sequence[int], sizes: Sequence[int], start: int, contents: Any = None) -> int:
        """Keep rows from `start` on, until the group is full; gives where to go on.

        `sizes`: characters of all rows before each of them, and of all. So a group's bounds depend on its rows alone.
        `contents`: those of `rows` as an Arrow array, if there is one.
        """
        wanted = sizes[start] + self._max_characters - self._characters
        end = min(bisect_left(sizes, wanted, start + 1), start + self._max_rows - self.rows, len(sizes) - 1)
        first, last = sum(rows.turns[:start]), sum(rows.turns[:end])
        if self._plain and not rows.plain:
            self._plain = False
            self._roles = PLAIN_ROLES * (self._ends[-1] // 2)
            self._systems, self._tools = [""] * self.rows, [""] * self.rows
        if not self._plain:
            self._roles += rows.roles[first:last]
            self._systems += rows.systems[start:end]
            self._tools += rows.tools[start:end]
        self._ends.extend(accumulate(rows.turns[start:end], initial=self._ends.pop()))
        if contents is None:
            self._contents += rows.contents[first:last]
        else:
            self._end_array()
            self._arrays.append(contents.slice(first, last - first))
        self._lines.extend(lines[start:end])
        self._characters += sizes[end] - sizes[start]
        return end

    def _end_array(self) -> None:
        if self._contents:
            self._arrays.append(_texts(self._contents))
            self._contents = []

    def table(self) -> Any:
        """The rows in the schema; there is at least one."""
        self._end_array()
        if self._plain:
            # The same for each group but in number, so made once for all.
            roles, systems = _repeated(tuple(PLAIN_ROLES), self._ends[-1] // 2), _repeated(("",), self.rows)
            tools = systems
        else:
            roles, systems, tools = map(_texts, (self._roles, self._systems, self._tools))
        turns = pyarrow.StructArray.from_arrays([roles, pyarrow.concat_arrays(self._arrays)], fields=list(_TURN))
        messages = pyarrow.ListArray.from_arrays(_numbers(pyarrow.int32(), self._ends), turns)
        return pyarrow.Table.from_arrays(
            [messages, systems, tools, _numbers(pyarrow.int64(), self._lines)], schema=SCHEMA
        )


def _texts(texts: list[str]) -> Any:
    return pyarrow.array(texts, pyarrow.string())


def _numbers(kind: Any, values: array[int]) -> Any:
    return pyarrow.Array.from_buffers(kind, len(values), [None, pyarrow.py_buffer(values)])


def _repeated(texts: tuple[str, ...], times: int) -> Any:
    return _made(texts, 1 << times.bit_length()).slice(0, times * len(texts))


@lru_cache(maxsize=8)
def _made(texts: tuple[str, ...], times: int) -> Any:
    return _texts(list(texts) * times)
