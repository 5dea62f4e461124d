"""Where pyarrow takes its memory from while much data passes through it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow


@contextmanager
def steady_memory() -> Iterator[None]:
    """What would come from mimalloc comes from jemalloc, or where that is missing from the C library.

    mimalloc asks the kernel for huge pages and gives them back after each row group: to have them cleared anew for the
    next one takes a tenth of the data pass, and 20 MB. Whoever chose another allocator keeps it.
    """
    before = pyarrow.default_memory_pool()
    if before.backend_name != "mimalloc":
        yield
        return
    pyarrow.set_memory_pool(_pool())
    try:
        yield
    finally:
        pyarrow.set_memory_pool(before)


def _pool() -> pyarrow.MemoryPool:
    try:
        return pyarrow.jemalloc_memory_pool()
    except NotImplementedError:
        return pyarrow.system_memory_pool()
