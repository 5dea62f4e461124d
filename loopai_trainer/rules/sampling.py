"""Which rows stand for all of them: a fixed choice, spread evenly, that needs no memory."""

from __future__ import annotations

from collections.abc import Iterator

_MIX = 0x9E37_79B9_7F4A_7C15
"""2^64 divided by the golden ratio: Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4)."""


def sample(total: int, limit: int | None) -> Iterator[int]:
    """Ascending 0-based indices of `min(total, limit)` rows; all of them for None.

    One from each of `limit` stretches of equal size, at a mixed place in it, so that rows which repeat with a period
    are not missed. The same arguments give the same rows.
    """
    if limit is None or limit >= total:
        yield from range(total)
        return
    for stretch in range(limit):
        start, end = stretch * total // limit, (stretch + 1) * total // limit
        mixed = (stretch + 1) * _MIX & (1 << 64) - 1
        yield start + (mixed >> 32) % (end - start)
