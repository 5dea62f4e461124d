"""Rows of a prepared Parquet file: which to try, and those rows, read as a stream.

Runs in verl's environment (pyarrow, numpy). Two passes over the columns that are needed; memory is bounded by a
batch and four bytes a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy
import pyarrow
import pyarrow.compute
import pyarrow.parquet

UNREADABLE = (OSError, pyarrow.ArrowException, KeyError)
"""Raised by a file that is not there, is no Parquet, or lacks a column."""

BATCH_ROWS = 4096
COLUMNS = ("data_source", "prompt", "reward_model", "extra_info", "images", "videos")
_MIX = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: spreads a sample evenly and the same way each time."""

_ODD = (r"\d,\d", r"[^\x00-\x7f]", r"^\s|\s$|^$", r"^-")
"""Ground truths that scorers stumble over: commas, other digits and signs, spaces around, minus."""


class Scan(NamedTuple):
    """`characters`: of each row's prompt (0 where they cannot be counted); `firsts`: first rows of each data_source;
    `odd`: rows with a ground truth that scorers stumble over."""

    rows: int
    characters: Any
    firsts: dict[str, list[int]]
    odd: list[int]


def scan(path: str) -> Scan:
    """Looks at every row once."""
    characters: list[Any] = []
    firsts: dict[str, list[int]] = {}
    odd: dict[str, list[int]] = {pattern: [] for pattern in _ODD}
    start = 0
    for batch in _batches(path, ("data_source", "prompt", "reward_model")):
        characters.append(_characters(batch))
        _note_sources(batch, start, firsts)
        _note_odd(batch, start, odd)
        start += batch.num_rows
    counted = numpy.concatenate(characters) if characters else numpy.zeros(0, dtype=numpy.int32)
    return Scan(start, counted, firsts, sorted({row for rows in odd.values() for row in rows}))


def to_try(found: Scan, count: int, seed: int) -> list[int]:
    """Rows for the reward, the most telling first: each data_source, odd ones, first and last, longest, random."""
    if not found.rows:
        return []
    order = [row for rows in zip(*found.firsts.values(), strict=False) for row in rows]
    order += [row for rows in found.firsts.values() for row in rows]
    order += found.odd
    order += [0, found.rows - 1, int(found.characters.argmax()), 1, found.rows - 2]
    order += [int(row) for row in numpy.random.default_rng(seed).permutation(min(found.rows, 10_000))[:count]]
    order += [int(row) for row in numpy.random.default_rng(seed).integers(0, found.rows, count)]
    chosen = list(dict.fromkeys(row for row in order if 0 <= row < found.rows))
    return chosen[: max(count, len(found.firsts) + len(found.odd))]


def to_measure(found: Scan, limit: int | None, longest: int) -> tuple[Any, Any]:
    """(rows whose lengths stand for all, further rows that are likely to be the longest), ascending."""
    if limit is None or limit >= found.rows:
        return numpy.arange(found.rows), numpy.zeros(0, dtype=numpy.int64)
    edges = numpy.arange(limit + 1, dtype=numpy.int64) * found.rows // limit
    mixed = numpy.array([((number + 1) * _MIX & (1 << 64) - 1) >> 32 for number in range(limit)])
    sample = edges[:-1] + mixed % (edges[1:] - edges[:-1])
    top = numpy.argpartition(found.characters, max(0, found.rows - longest))[-longest:]
    return sample, numpy.setdiff1d(top, sample)


def read(path: str, rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(row, its columns) for the rows named, ascending."""
    wanted = numpy.unique(numpy.asarray(rows, dtype=numpy.int64))
    start = 0
    for batch in _batches(path, COLUMNS):
        inside = wanted[(wanted >= start) & (wanted < start + batch.num_rows)]
        if len(inside):
            taken = batch.take(pyarrow.array(inside - start)).to_pylist()
            yield from zip((int(row) for row in inside), taken, strict=True)
        start += batch.num_rows


def _batches(path: str, columns: Sequence[str]) -> Iterator[Any]:
    with pyarrow.parquet.ParquetFile(path) as file:
        present = [name for name in columns if name in file.schema_arrow.names]
        yield from file.iter_batches(BATCH_ROWS, columns=present)


def _characters(batch: Any) -> Any:
    prompts = batch.column("prompt")
    try:
        lengths = pyarrow.compute.utf8_length(prompts.flatten().field("content"))
        ends = numpy.concatenate(([0], numpy.cumsum(lengths.fill_null(0).to_numpy(zero_copy_only=False))))
        sizes = pyarrow.compute.list_value_length(prompts).fill_null(0).to_numpy(zero_copy_only=False)
        edges = numpy.concatenate(([0], numpy.cumsum(sizes)))
        return (ends[edges[1:]] - ends[edges[:-1]]).astype(numpy.int32)
    except (pyarrow.ArrowException, AttributeError, KeyError):
        return numpy.zeros(batch.num_rows, dtype=numpy.int32)  # content of another type, such as parts with images


def _note_sources(batch: Any, start: int, firsts: dict[str, list[int]]) -> None:
    sources = batch.column("data_source")
    for source in sources.unique().to_pylist():
        known = firsts.setdefault(str(source), [])
        if len(known) < 2:
            same = pyarrow.compute.equal(sources, source).to_numpy(zero_copy_only=False)
            known += [start + int(row) for row in numpy.flatnonzero(same)[: 2 - len(known)]]


def _note_odd(batch: Any, start: int, odd: dict[str, list[int]]) -> None:
    try:
        truths = pyarrow.compute.struct_field(batch.column("reward_model"), "ground_truth")
        for pattern, rows in odd.items():
            if len(rows) < 2:
                hit = pyarrow.compute.match_substring_regex(truths, pattern).fill_null(False)
                rows += [start + int(row) for row in numpy.flatnonzero(hit.to_numpy(zero_copy_only=False))[:2]]
    except (pyarrow.ArrowException, KeyError):
        return  # ground truths of another type are all odd, and tried anyway
