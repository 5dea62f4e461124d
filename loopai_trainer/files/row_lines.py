"""JSON Lines of chats, many rows at a time, if all of them are good in the plainest way.

What is not certain here is left to others: a text as JSON to the table's own reader, a row to its check.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow

from loopai_trainer.files.tables.json_lines import values_of_lines
from loopai_trainer.files.tables.json_values import count_byte, doubtful
from loopai_trainer.rules.rows.columns import Columns, plain_columns

BLOCK_BYTES = 1 << 18
"""Fewer bytes cost as many calls; what is made of more does not stay near the processor, and an odd line costs more."""
_PATIENCE = 8
"""After so many texts in vain, no more of a file are tried: each costs its parsing twice."""
_ESCAPED_COLON = re.compile(rb"\\u003[aA]")


@dataclass(slots=True)
class RowTexts:
    """Rows that follow each other, and `contents`: the texts of all their turns as an Arrow array."""

    columns: Columns
    contents: Any

    def __len__(self) -> int:
        return len(self.columns.turns)


class RowLines:
    """Texts of whole lines -> the rows on them, if `check` finds each of them good and has nothing to say; else None.

    `check`: judges rows; None as long as it is not known, when nothing is taken.
    """

    def __init__(self) -> None:
        self.check: object = None
        self._patience = _PATIENCE

    def __call__(self, text: bytes) -> RowTexts | None:
        """The rows of `text`, which has no line end at its end. Raises nothing."""
        if self.check is None or not self._patience:
            return None
        found = self._read(text)
        self._patience = self._patience - 1 if found is None else _PATIENCE
        return found

    def _read(self, text: bytes) -> RowTexts | None:
        values: list[Any] | None = values_of_lines(text, b"\n")
        rows = None if values is None else plain_columns(self.check, values)
        if values is None or rows is None:
            return None
        contents = pyarrow.array(rows.contents, pyarrow.string())
        keys = sum(map(len, values)) + rows.inner_keys
        return RowTexts(rows, contents) if _once(text, keys, contents) or not doubtful(text, values) else None


def _once(text: bytes, keys: int, contents: Any) -> bool:
    """Whether it is certain that no key stands twice in one object; `doubtful` asks the same, at twice the cost.

    `keys`: how many keys are known of the objects in `text`; `contents`: some of the texts in it, and no others.
    A colon follows each key. If all others stand in `contents`, and no escape can have brought one there, there is no
    further key, lost or not.
    """
    # An empty text is not plain, so that there are bytes.
    data = contents.buffers()[2].to_pybytes()
    return count_byte(text, b":") == keys + count_byte(data, b":") and not _ESCAPED_COLON.search(text)
