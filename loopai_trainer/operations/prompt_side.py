"""What is known of one source of GRPO data after it was read: its rows' keys, places and sizes, and counts of them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow
import pyarrow.compute as compute

from loopai_trainer.files.prompt_files import Spool
from loopai_trainer.operations.row_pass import FileFacts, Split

MAX_METADATA = 20
"""Combinations of names that are kept; they serve to recommend a reward, and who has more has no one reward."""


@dataclass(slots=True)
class PromptSide:
    """A source that was read. Rows are counted among the usable ones, unless it is said otherwise.

    `native`: the exact copy of a native file, with `bad` a flag for each of its rows; else the rows are in `spool`.
    `positions`: the source line or row of each row. `sizes`: characters of each prompt. `metadata`: the different
    combinations of names that converted rows give their data set or task; an empty one if some row gives none, or if
    there are more of them than are kept.
    """

    where: Split
    facts: FileFacts
    native: str = ""
    spool: Spool | None = None
    bad: bytearray = field(default_factory=bytearray)
    positions: array[int] = field(default_factory=lambda: array("Q"))
    sizes: array[int] = field(default_factory=lambda: array("I"))
    adapters: Counter[str] = field(default_factory=Counter)
    data_sources: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    markers: Counter[str] = field(default_factory=Counter)
    metadata: dict[tuple[str, ...], None] = field(default_factory=dict)
    reused: bool = False

    @property
    def path(self) -> str:
        """The file that holds the usable rows (and the bad ones of a native file)."""
        return self.native or (self.spool.path if self.spool else "")

    def lengths(self, mask: Any = None) -> Counter[int]:
        """How many rows have so many characters in their prompt. `mask`: an Arrow mask of the rows that count."""
        sizes = pyarrow.Array.from_buffers(
            pyarrow.uint32(), len(self.sizes), [None, pyarrow.py_buffer(memoryview(self.sizes))]
        )
        counted = compute.value_counts(sizes if mask is None else sizes.filter(mask))
        return Counter(dict(zip(*(field.to_pylist() for field in counted.flatten()), strict=True)))

    def name(self, combinations: Iterable[Sequence[str]]) -> None:
        """Note what rows name their data set or task."""
        for names in combinations:
            found = tuple(names)
            if found not in self.metadata:
                self.metadata[found if len(self.metadata) < MAX_METADATA else ()] = None

    def places(self, usable: list[int]) -> list[int]:
        """What a person finds these rows by: lines, rows, or numbers of items."""
        return [self.facts.item_of(row) if self.facts.by_item else int(self.positions[row]) for row in usable]
