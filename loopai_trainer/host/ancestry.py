"""The processes above this one: parent, its parent, up to the first of this pid namespace."""

from __future__ import annotations

import os

_MOST = 64
"""Deeper chains do not occur; a limit keeps a chain that changes while it is read from going on."""


def command_lines() -> list[list[str]]:
    """Their command lines (the bare name where there is none), nearest first; one that is hidden ends the list."""
    found: list[list[str]] = []
    pid = os.getppid()
    while pid > 0 and len(found) < _MOST:
        stat = _read(f"/proc/{pid}/stat")
        if not stat:
            break
        words = [word.decode("utf-8", "replace") for word in _read(f"/proc/{pid}/cmdline").rstrip(b"\0").split(b"\0")]
        name = stat.partition(b"(")[2].rpartition(b")")[0].decode("utf-8", "replace")
        found.append(words if words != [""] else [name])
        # proc(5): the name may hold spaces and brackets, so the fields are counted from the last bracket.
        pid = int(stat.rpartition(b")")[2].split()[1])
    return found


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:
        return b""
