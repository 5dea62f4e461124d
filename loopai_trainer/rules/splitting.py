"""Which rows are held out, which repeat each other, and which stand on both sides: on arrays of 64-bit fingerprints."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import compress
from typing import NamedTuple

_BUCKETS = 256
"""The top byte of a fingerprint is its bucket. Only one bucket's rows are objects at a time."""
_TOP = 7 if sys.byteorder == "little" else 0
_ROWS_A_LOOK = 1 << 16
_ROWS_A_ROUND = 4 << 20
"""So many row numbers are kept at once, whatever the number of rows: 16 MB, and a round costs about 0.1 us a row."""
_INDEX = "I"
"""Four bytes: 4 billion rows."""


class SplitImpossible(ValueError):
    """Nothing would be left on one of the two sides. The message says why."""


class Repeats(NamedTuple):
    """Rows with one prompt, in file order. `answers[i]` numbers the distinct answers by first appearance, from 0."""

    rows: tuple[int, ...]
    answers: tuple[int, ...]


def wanted_rows(size: float | int, total: int) -> int:
    """Rows to hold out of `total`. `size` below 1 is a share: max(1, floor(share x total)); from 1 on a count.

    The share counts as it is written: 0.29 of 100 is 29, though the nearest float is a little less.
    Raises SplitImpossible unless both sides get a row.
    """
    if isinstance(size, bool) or not size > 0 or size != size or size == float("inf"):
        raise SplitImpossible(f"{size!r} is neither a share between 0 and 1 nor a number of rows")
    if size < 1:
        wanted = max(1, int(Decimal(repr(size)) * total))
    elif size == int(size) and not (isinstance(size, float) and size == 1):
        wanted = int(size)
    else:
        raise SplitImpossible(f"{size!r} is neither a share between 0 and 1 nor a number of rows")
    if wanted >= total:
        raise SplitImpossible(f"{wanted} of {total} rows for validation leave none to train on")
    return wanted


def choose_validation(prompts: Sequence[int], wanted: int) -> bytearray:
    """1 for each row that is held out: the `wanted` rows with the smallest fingerprints, repeats of a prompt together.

    A prompt whose rows would not fit is passed over, so there may be fewer; if no prompt fits, the one with the fewest
    rows is taken. Raises SplitImpossible if all rows have one prompt.
    """
    chosen, count = bytearray(len(prompts)), 0
    smallest: list[int] | None = None
    rounds = max(_rounds(len(prompts)), _rounds_for(wanted, len(prompts)))
    for rows in _by_prompt(prompts, rounds):
        if count + len(rows) <= wanted:
            count += len(rows)
            for row in rows:
                chosen[row] = 1
            if count == wanted:
                return chosen
        elif smallest is None or len(rows) < len(smallest):
            smallest = rows
    if count == 0:
        if smallest is None or len(smallest) == len(prompts):
            raise SplitImpossible("all rows have the same prompt, which has to stay on one side")
        for row in smallest:
            chosen[row] = 1
    return chosen


def repeats(prompts: Sequence[int], answers: Sequence[int]) -> Iterator[Repeats]:
    """Every prompt that stands in more than one row."""
    for rows in _by_prompt(prompts, _rounds(len(prompts)), repeated_only=True):
        numbers: dict[int, int] = {}
        yield Repeats(tuple(rows), tuple(numbers.setdefault(answers[row], len(numbers)) for row in rows))


def shared(train: Sequence[int], validation: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(first train row, validation row) for each validation row whose prompt stands in the training rows too."""
    rounds = _rounds(max(len(train), len(validation)))
    for trained, held_out in zip(_bucketed(train, rounds), _bucketed(validation, rounds), strict=True):
        wanted = {validation[row] for row in held_out}
        first: dict[int, int] = {}
        for row in trained:
            if train[row] in wanted:
                first.setdefault(train[row], row)
        for row in held_out:
            if validation[row] in first:
                yield first[validation[row]], row


def _by_prompt(prompts: Sequence[int], rounds: int, *, repeated_only: bool = False) -> Iterator[list[int]]:
    """Rows of each prompt, by ascending fingerprint; rows of one prompt in file order."""
    for bucket in _bucketed(prompts, rounds):
        pairs: Iterable[tuple[int, int]] = zip(map(prompts.__getitem__, bucket), bucket, strict=True)
        if repeated_only:
            pairs = _repeated(list(pairs))
        groups: dict[int, list[int]] = {}
        for value, row in pairs:
            groups.setdefault(value, []).append(row)
        for value in sorted(groups):
            yield groups[value]


def _repeated(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those whose fingerprint stands more than once; hardly any file has many."""
    last = dict(pairs)
    if len(last) == len(pairs):
        return []
    again = {value for value, row in pairs if last[value] != row}
    return [pair for pair in pairs if pair[0] in again]


def _rounds(count: int) -> int:
    rounds = 1
    while rounds < _BUCKETS and count > rounds * _ROWS_A_ROUND:
        rounds *= 2
    return rounds


def _rounds_for(wanted: int, count: int) -> int:
    """So many that the first one most likely has the `wanted` rows with the smallest fingerprints, and few others."""
    rounds = 1
    while rounds < _BUCKETS and rounds * 2.5 * wanted <= count:
        rounds *= 2
    return rounds


def _bucketed(values: Sequence[int], rounds: int) -> Iterator[array[int]]:
    """Rows of each bucket, all buckets in order; in each round the rows of a part of them are looked for."""
    share = _BUCKETS // rounds
    for start in range(0, _BUCKETS, share):
        buckets = [array(_INDEX) for _ in range(share)]
        added = [bucket.append for bucket in buckets]
        here = bytes(start <= number < start + share for number in range(_BUCKETS))
        for first in range(0, len(values), _ROWS_A_LOOK):
            tops = _top_bytes(values[first : first + _ROWS_A_LOOK])
            rows: Iterable[int] = range(first, first + len(tops))
            if rounds > 1:
                flags = tops.translate(here)
                tops, rows = bytes(compress(tops, flags)), compress(rows, flags)
            for row, number in zip(rows, tops, strict=True):
                added[number - start](row)
        yield from buckets


def _top_bytes(values: Sequence[int]) -> bytes:
    return bytes(memoryview(array("Q", values)).cast("B")[_TOP :: array("Q").itemsize])
