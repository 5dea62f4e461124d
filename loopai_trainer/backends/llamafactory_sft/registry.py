"""Holds the registry that training will read, and the snapshots that it names, against the plan."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.records import Problem

_MAX_BYTES = 1 << 20
"""Ours has a few hundred bytes an entry."""

SPLITS = ("train", "validation")


def registry_problems(native: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Entries of dataset_info.json that do not lead to the checked snapshot, read as prepare has written it.

    The file is pinned by its hash, but a hash in the plan may have been edited along with the file.
    """
    from loopai_trainer.files import snapshots

    path = os.path.join(str(native.get("dataset_dir")), "dataset_info.json")
    registry = _read(path)
    if registry is None:
        message = f"{path} cannot be read as LLaMA-Factory's registry"
        yield _error("REGISTRY_CHANGED", message, "prepare again", path, "dataset_dir")
        return
    for name in SPLITS:
        if not inputs.get(name):
            continue
        wanted, found = snapshots.registry_entry(inputs[name]["path"]), registry.get(name)
        if found == wanted:
            continue
        what = _difference(found, wanted)
        message = f"dataset_info.json: {name} {what}: training would read other data than was checked"
        yield _error("REGISTRY_CHANGED", message, "undo the edit, or prepare again", path, f"loopai.inputs.{name}")


def row_problems(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Numbers of rows in the plan that are not those of the snapshots: steps and epochs are computed from them."""
    for name in SPLITS:
        if not inputs.get(name):
            continue
        path, said, field = inputs[name]["path"], inputs[name].get("rows"), f"loopai.inputs.{name}.rows"
        held = _parquet_rows(path)
        if held is None:
            message = f"{name}: {path} cannot be read as Parquet"
            yield _error("SNAPSHOT_UNREADABLE", message, "prepare again", path, field)
        elif said != held:
            message = f"{name}: the plan says {said!r} rows, the snapshot holds {held}"
            yield _error("ROWS_MISMATCH", message, f"set {field}: {held}, or prepare again", path, field)


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
        value = json.loads(data) if len(data) <= _MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _difference(found: Any, wanted: Mapping[str, Any]) -> str:
    if not isinstance(found, dict):
        return "is missing"
    changed = [key for key in dict.fromkeys((*wanted, *found)) if found.get(key) != wanted.get(key)]
    return f"has another {' and '.join(changed)} than prepare wrote"


def _parquet_rows(path: str) -> int | None:
    """From the file's footer; None if there is none."""
    import pyarrow
    import pyarrow.parquet

    try:
        return int(pyarrow.parquet.read_metadata(path).num_rows)
    except (OSError, pyarrow.ArrowException):
        return None


def _error(code: str, message: str, hint: str, path: str, field: str) -> Problem:
    return Problem("error", code, "config", message, hint, path=path, field=field)
