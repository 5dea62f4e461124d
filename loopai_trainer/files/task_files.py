"""Task snapshots: the JSON Lines files that tasks are read from, named by their hash, never written again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from loopai_trainer.files import atomic
from loopai_trainer.records import InputFile

READ_ONLY = 0o444


def write(folder: str, name: str, lines: Sequence[bytes], source: tuple[str, str]) -> InputFile:
    """Write tasks, one a line, as `name-<first 16 hex of the SHA-256>.jsonl`, mode 0444.

    `lines`: JSON objects without line ends; `source`: path and SHA-256 of the file that they came from. Raises OSError.
    """
    data = b"".join(line + b"\n" for line in lines)
    digest = hashlib.sha256(data).hexdigest()
    path = os.path.join(folder, f"{name}-{digest[:16]}.jsonl")
    if os.path.lexists(path):
        os.unlink(path)  # read-only, and perhaps damaged
    atomic.write_bytes(path, data, mode=READ_ONLY)
    return InputFile(path, digest, len(data), len(lines), *source)


def remove_others(folder: str, wanted: Sequence[str]) -> None:
    """Remove task snapshots that an earlier prepare left in `folder`."""
    keep = {os.path.basename(path) for path in wanted}
    for name in os.listdir(folder):
        if name.startswith(("train-", "validation-")) and name.endswith(".jsonl") and name not in keep:
            os.unlink(os.path.join(folder, name))
