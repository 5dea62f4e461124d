"""Parquet: rows by batches of bounded size; positions are 0-based rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

import pyarrow
import pyarrow.parquet

from loopai_trainer.files.tables.faults import Fault
from loopai_trainer.files.tables.source import BLOCK_BYTES, Batch, SourceTable

BATCH_BYTES = 2 << 20
MAX_BATCH_ROWS = 4096


class ParquetRows(SourceTable):
    """`.parquet`; the file's bytes are hashed in a pass of their own, since its pages are not read in order."""

    layout = "Parquet"
    unit: Literal["line", "row"] = "row"

    def batches(self) -> Iterator[Batch]:
        """(rows, decoded rows or Faults); see SourceTable."""
        position = 0
        try:
            for _ in self.blocks():
                pass
            with pyarrow.parquet.ParquetFile(self.path, buffer_size=BLOCK_BYTES) as file:
                twice = [name for name, count in Counter(file.schema_arrow.names).items() if count > 1]
                if twice:
                    yield (0,), [_twice(twice[0])]
                    return
                for batch in _batches(file):
                    values = _decoded(batch)
                    yield range(position, position + len(values)), values
                    position += len(values)
        except (pyarrow.ArrowException, OSError) as error:
            yield (position,), [_broken(error)]


def _batches(file: Any) -> Iterator[Any]:
    """Record batches of bounded size. One row group at a time: asked for all, pyarrow 26 keeps what it read of each."""
    rows = _batch_rows(file.metadata)
    for index in range(file.num_row_groups):
        yield from file.iter_batches(batch_size=rows, row_groups=[index], use_threads=False)
        pyarrow.default_memory_pool().release_unused()


def _batch_rows(metadata: Any) -> int:
    """Rows that take about BATCH_BYTES uncompressed, by the row group with the longest rows."""
    longest = 1
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        if group.num_rows:
            longest = max(longest, group.total_byte_size // group.num_rows)
    return max(1, min(MAX_BATCH_ROWS, BATCH_BYTES // longest))


def _decoded(batch: Any) -> list[object]:
    try:
        values: list[object] = batch.to_pylist()
    except (UnicodeDecodeError, ValueError, OverflowError):
        return [_decoded_row(batch.slice(index, 1)) for index in range(batch.num_rows)]
    return values


def _decoded_row(one: Any) -> object:
    try:
        values: list[object] = one.to_pylist()
    except UnicodeDecodeError:
        return Fault("ENCODING", "a text column holds bytes that are not UTF-8", "write the file again from UTF-8 text")
    except (ValueError, OverflowError) as error:
        return Fault("PARQUET_VALUE", f"a value cannot be read: {error}", "write the file again without that column")
    return values[0]


def _twice(name: str) -> Fault:
    return Fault("DUPLICATE_KEY", f"two columns are named {name!r}", "keep one of the two", "file", field=name)


def _broken(error: Exception) -> Fault:
    first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return Fault("PARQUET_INVALID", f"not a readable Parquet file: {first_line}", "write the file again", "file")
