"""Which item of its source list each row of a snapshot was: kept in the Parquet file, where lines do not tell.

Only for sources of which several items stand on one line; of all others a row's `source_line` says enough.
"""

from __future__ import annotations

import base64
import itertools
import zlib
from array import array
from collections.abc import Iterable

import pyarrow.parquet

_KEY = "loopai.items"
_CHUNK = 1 << 16


def packed(items: Iterable[int]) -> dict[str, str]:
    """Metadata for a ParquetWriter: the distances of ascending 1-based `items`, which are nearly all 1, compressed."""
    compressor = zlib.compressobj()
    distances = (after - before for before, after in itertools.pairwise(itertools.chain([0], items)))
    parts: list[bytes] = []
    while chunk := array("I", itertools.islice(distances, _CHUNK)):
        parts.append(compressor.compress(chunk.tobytes()))
    return {_KEY: base64.b64encode(b"".join([*parts, compressor.flush()])).decode("ascii")}


def read(path: str) -> array[int] | None:
    """The item of each row of the snapshot, four bytes a row; None: lines tell its rows apart. Raises OSError,

    ArrowException.
    """
    with pyarrow.parquet.ParquetFile(path) as file:
        stored = (file.metadata.metadata or {}).get(_KEY.encode())
    if stored is None:
        return None
    distances = array("I", zlib.decompress(base64.b64decode(stored)))
    return array("I", itertools.accumulate(distances))
