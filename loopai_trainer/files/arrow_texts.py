"""Many Arrow texts as one, in which a search costs a fraction of what it costs text by text."""

from __future__ import annotations

from typing import Any

import pyarrow


def one_text(data: Any) -> Any:
    """An array of one text that is all of `data` (bytes, or an Arrow buffer, None if it is empty), not copied."""
    data = b"" if data is None else data
    ends = pyarrow.array([0, len(data)], pyarrow.int32()).buffers()[1]
    return pyarrow.Array.from_buffers(pyarrow.string(), 1, [None, ends, pyarrow.py_buffer(data)])
