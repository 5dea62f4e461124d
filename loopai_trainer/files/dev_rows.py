"""The few rows of a snapshot that a dev run trains on: a file of its own, so that no setting can reach the rest."""

from __future__ import annotations

import itertools
import os
from typing import Any

import pyarrow
import pyarrow.parquet

from loopai_trainer.errors import NotShown
from loopai_trainer.files import atomic, hashing
from loopai_trainer.records import InputFile

LOOKED_AT = 1024
"""Rows from the beginning among which the longest are looked for: reading all of a large file would not be cheap."""
_READ_ONLY = 0o444
_OF_THE_WHOLE_FILE = (b"loopai.items",)


def write(source: str, target: str, rows: int, *, longest: bool = False) -> InputFile:
    """Write at most `rows` rows of a Parquet or JSON Lines file, mode 0444: the first ones, in their order.

    `longest`: only half of them are the first; the others are the longest of the first LOOKED_AT, since those are what
    a memory gives out at. Raises OSError, NotShown for a file that cannot be read.
    """
    kind = os.path.splitext(source)[1]
    if kind == ".parquet":
        data, count = _parquet(source, rows, longest)
    elif kind == ".jsonl":
        data, count = _lines(source, rows)
    else:
        message = f"{source} is neither Parquet nor JSON Lines: a few rows of it cannot be taken"
        raise NotShown(message, hint="prepare with .jsonl or .parquet data")
    atomic.make_private_dir(os.path.dirname(target))
    atomic.write_bytes(target, data, _READ_ONLY)
    return InputFile(target, hashing.sha256_bytes(data), len(data), count)


def _parquet(source: str, rows: int, longest: bool) -> tuple[bytes, int]:
    try:
        with pyarrow.parquet.ParquetFile(source) as file:
            schema = file.schema_arrow
            batches = list(itertools.islice(file.iter_batches(batch_size=LOOKED_AT if longest else rows), 1))
            table = pyarrow.Table.from_batches(batches, schema=schema)
    except pyarrow.ArrowException as error:
        message = f"{source} cannot be read as Parquet: {error}"
        raise NotShown(message, hint="prepare again: it takes a new copy of the data") from None
    kept = {key: value for key, value in (schema.metadata or {}).items() if key not in _OF_THE_WHOLE_FILE}
    chosen = table.take(pyarrow.array(_chosen(table, rows, longest), pyarrow.int64())).replace_schema_metadata(
        kept or None
    )
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(chosen, sink, compression="none")
    return sink.getvalue().to_pybytes(), chosen.num_rows


def _chosen(table: Any, rows: int, longest: bool) -> list[int]:
    """Positions, ascending."""
    count = table.num_rows
    if count <= rows or not longest:
        return list(range(min(rows, count)))
    first = rows - rows // 2
    sizes = [table.slice(position, 1).nbytes for position in range(first, count)]
    by_size = sorted(range(len(sizes)), key=lambda position: -sizes[position])
    return [*range(first), *sorted(first + position for position in by_size[: rows - first])]


def _lines(source: str, rows: int) -> tuple[bytes, int]:
    with open(source, "rb") as file:
        lines = list(itertools.islice((line for line in file if line.strip()), rows))
    return b"".join(lines), len(lines)
