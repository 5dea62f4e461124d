"""Copies of small inputs that training reads (DeepSpeed JSON, chat templates): what was checked is what runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from loopai_trainer.errors import ConfigError
from loopai_trainer.files import atomic
from loopai_trainer.records import Problem
from loopai_trainer.rules import dotted

MAX_BYTES = 16 * 1024 * 1024
"""More than this is no small structural input."""


class Copy(NamedTuple):
    """A copy to be written: its absolute path, its bytes and their SHA-256 (lower-case hex)."""

    path: str
    data: bytes
    sha256: str


def take(
    native: Mapping[str, Any], keys: Sequence[str], folder: str, template_folder: str
) -> tuple[dict[str, Any], list[Copy]]:
    """Point each of the dotted `keys` that names a file at its copy in `folder`. Raises ConfigError (unreadable file).

    A relative name is looked for beside the template first, then in the working folder.
    """
    changed = dict(native)
    copies: list[Copy] = []
    for key in keys:
        value = dotted.get(native, key)
        if isinstance(value, str) and value:
            path = _found(value, template_folder)
            copy = _copy_of(key, path, str(Path(folder) / f"{key}{Path(path).suffix}"))
            copies.append(copy)
            dotted.put(changed, key, copy.path)
    return changed, copies


def copies(files: Mapping[str, str], folder: str) -> list[Copy]:
    """Copies of files (name in `folder` -> where each lies now). Raises ConfigError for an unreadable one."""
    return [_copy_of(name, path, str(Path(folder) / name)) for name, path in files.items()]


def _found(name: str, template_folder: str) -> str:
    beside = Path(template_folder) / name
    return str(beside if beside.is_file() else Path(name))


def write(copies: Sequence[Copy]) -> None:
    """Write the copies, read-only (mode 0444)."""
    for copy in copies:
        atomic.make_private_dir(str(Path(copy.path).parent))
        atomic.write_bytes(copy.path, copy.data, mode=0o444)


def restore(copies: Sequence[Copy]) -> None:
    """Write those copies that are gone, or are not what they were."""
    write([copy for copy in copies if _held(copy.path) != copy.data])


def _held(path: str) -> bytes | None:
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read(MAX_BYTES + 1)


def _copy_of(key: str, path: str, target: str) -> Copy:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _refusal(key, path, f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise _refusal(key, path, f"is larger than {MAX_BYTES} bytes")
    return Copy(target, data, hashlib.sha256(data).hexdigest())


def _refusal(key: str, path: str, said: str) -> ConfigError:
    problem = Problem(
        "error", "FILE_UNREADABLE", "config", f"{key}: {path} {said}", "name a readable file", path=path, field=key
    )
    return ConfigError(problem.message, hint=problem.hint, problems=[problem])
