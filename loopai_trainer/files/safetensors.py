"""Reads safetensors files without torch: their headers, whether they are whole, and whether all values are finite.

Source: the format of safetensors 0.8.0: 8 bytes little-endian header length, JSON header, tensor data.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors library itself."""
PIECE_BYTES = 16 << 20
LFS_START = b"version https://git-lfs"

_FLOATS: Mapping[str, tuple[int, int]] = {
    "F64": (8, 0x7FF0_0000_0000_0000),
    "F32": (4, 0x7F80_0000),
    "BF16": (2, 0x7F80),
    "F16": (2, 0x7C00),
}
"""dtype -> (bytes a value, its exponent bits): all of them set means Inf or NaN (IEEE 754)."""


class Tensor(NamedTuple):
    """One tensor: `start` and `end` are byte offsets in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


class Damaged(ValueError):
    """The file is not a whole safetensors file; the text says what is wrong."""


def read_header(path: str) -> list[Tensor]:
    """All tensors of a file, in file order. Raises Damaged unless the file holds exactly what its header lists."""
    with open(path, "rb") as file:
        start = file.read(8)
        if LFS_START.startswith(start) and start:
            raise Damaged("it is a Git LFS pointer, not the weights (run `git lfs pull` where it was cloned)")
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(start, "little")
        if len(start) < 8 or not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
            raise Damaged(f"it has no safetensors header ({size} bytes)")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise Damaged("its safetensors header is not JSON") from None
    tensors = _tensors(header, 8 + length)
    end = max((tensor.end for tensor in tensors), default=8 + length)
    if size != end:
        raise Damaged(f"it has {size} bytes, its header wants {end}")
    return tensors


def not_finite(path: str) -> str | None:
    """The name of the first tensor that holds NaN or Inf; None if all float values are finite.

    Formats of 8 bits and fewer are skipped. Reads the file once, in pieces of 16 MiB. Raises Damaged.
    """
    tensors = [tensor for tensor in read_header(path) if tensor.dtype in _FLOATS]
    with open(path, "rb", buffering=0) as file:
        for tensor in tensors:
            file.seek(tensor.start)
            if any(_has_full_exponent(piece, tensor.dtype) for piece in _pieces(file, tensor.end - tensor.start)):
                return tensor.name
    return None


def _tensors(header: object, data_start: int) -> list[Tensor]:
    if not isinstance(header, dict):
        raise Damaged("its safetensors header is not a mapping")
    found = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            first, last = entry["data_offsets"]
            tensor = Tensor(name, entry["dtype"], tuple(entry["shape"]), data_start + first, data_start + last)
        except (TypeError, KeyError, ValueError):
            raise Damaged(f"its header has no dtype, shape and data_offsets for {name!r}") from None
        if not data_start <= tensor.start <= tensor.end:
            raise Damaged(f"its header gives impossible offsets for {name!r}")
        found.append(tensor)
    return sorted(found, key=lambda tensor: tensor.start)


def _pieces(file: Any, length: int) -> Iterator[bytes]:
    while length > 0:
        piece = file.read(min(length, PIECE_BYTES))
        if not piece:
            raise Damaged("it ended while it was read")
        length -= len(piece)
        yield piece


def _has_full_exponent(piece: bytes, dtype: str) -> bool:
    import pyarrow
    import pyarrow.compute as compute

    width, exponent = _FLOATS[dtype]
    kind = {8: pyarrow.uint64(), 4: pyarrow.uint32(), 2: pyarrow.uint16()}[width]
    count = len(piece) // width
    values = pyarrow.Array.from_buffers(kind, count, [None, pyarrow.py_buffer(piece)])
    mask = pyarrow.scalar(exponent, kind)
    found = compute.any(compute.equal(compute.bit_wise_and(values, mask), mask)).as_py()
    return bool(found)
