"""The file behind a table: its bytes read once, in blocks, hashed and counted on the way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Literal

BLOCK_BYTES = 1 << 19

Batch = tuple[Sequence[int], list[object]]
"""Positions and decoded rows or Faults, equally many, as they follow each other in the file."""


class SourceTable:
    """Rows of one source file. `unit` says what positions count: 1-based lines or 0-based rows.

    `shared_lines`: items were seen so far that start on one line, so that a line alone does not tell which is meant.
    After `batches()` or `rows()` was read to its end, `sha256` (lower-case hex) and `bytes_read` are the whole file's.
    """

    layout = ""
    unit: Literal["line", "row"] = "line"

    def __init__(self, path: str, size_bytes: int) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self.bytes_read = 0
        self.notes: list[str] = []
        self.shared_lines = False
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Digest of the bytes read so far."""
        return self._digest.hexdigest()

    def rows(self) -> Iterator[tuple[int, object]]:
        """(position, decoded row or Fault), in file order, in constant memory. Raises nothing for what a file holds."""
        for positions, values in self.batches():
            yield from zip(positions, values, strict=True)

    def batches(self) -> Iterator[Batch]:
        """What `rows` gives, as many at a time as were decoded together; none is empty."""
        raise NotImplementedError

    def blocks(self, size: int | None = None) -> Iterator[bytes]:
        """The file's bytes, `size` (None: BLOCK_BYTES) at a time. Raises OSError."""
        with open(self.path, "rb", buffering=0) as file:
            while block := file.read(size or BLOCK_BYTES):
                self._digest.update(block)
                self.bytes_read += len(block)
                yield block
