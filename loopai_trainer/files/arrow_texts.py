"""Many Arrow texts as one, in which a search costs a fraction of what it costs text by text."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from typing import Any

import pyarrow
import pyarrow.compute as compute


def one_text(data: Any) -> Any:
    """An array of one text that is all of `data` (bytes, or an Arrow buffer, None if it is empty), not copied."""
    data = b"" if data is None else data
    ends = pyarrow.array([0, len(data)], pyarrow.int32()).buffers()[1]
    return pyarrow.Array.from_buffers(pyarrow.string(), 1, [None, ends, pyarrow.py_buffer(data)])


def holds(data: Any, mark: str) -> bool:
    """Whether the bytes of an Arrow buffer (or None, which is empty) hold `mark` as UTF-8 anywhere."""
    if data is None or not data.size:
        return False
    find = _memmem() if mark[:1].islower() else None
    if find is None:
        return bool(compute.match_substring_regex(one_text(data), re.escape(mark))[0].as_py())
    # RE2 goes from one first letter to the next; where that is a common one, the C library takes half the time.
    sought = mark.encode()
    return find(data.address, data.size, sought, len(sought)) is not None


@functools.cache
def _memmem() -> Callable[[int, int, bytes, int], int | None] | None:
    find: Any = getattr(ctypes.CDLL(None), "memmem", None)
    if find is not None:
        find.restype = ctypes.c_void_p
        find.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return find  # type: ignore[no-any-return]
