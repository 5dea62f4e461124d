"""The end of a log of any size in constant memory; carriage returns end a line too, control codes are taken out."""

from __future__ import annotations

import os
import re

MAX_BYTES = 1 << 20
"""So much of the end is looked at: a progress bar may have written one "line" of many megabytes."""
MAX_LINE = 4000

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|\x1b[@-_]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
    r"|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""ECMA-48's control sequences and strings (titles, links), control codes, and what turns the direction of writing."""


def tail(path: str, count: int, end: int | None = None) -> tuple[list[str], bool]:
    """(the last `count` lines before byte `end`, whether there is more before them). A missing file has no lines."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            size = size if end is None else min(size, end)
            begin = max(0, size - MAX_BYTES)
            file.seek(begin)
            data = file.read(size - begin)
    except FileNotFoundError:
        return [], False
    lines = split_lines(data)
    cut_start = size > MAX_BYTES
    if cut_start and len(lines) > 1:
        lines = lines[1:]  # its beginning was not read
    return lines[-count:] if count else [], cut_start or len(lines) > count


def split_lines(data: bytes) -> list[str]:
    """Text lines of raw output: bytes that are no UTF-8 are replaced, empty redraws left out, long lines shortened."""
    text = data.decode("utf-8", "replace")
    clean = (_ESCAPES.sub("", line) for line in re.split(r"\r\n|\n|\r", text))
    return [_shortened(line) for line in clean if line.strip()]


def _shortened(line: str) -> str:
    return line if len(line) <= MAX_LINE else line[:MAX_LINE] + f" ... ({len(line) - MAX_LINE} more characters)"


class Follower:
    """New lines of a growing file, across rotation: a file that was replaced or cut is read from its beginning."""

    def __init__(self, path: str, *, from_end: bool) -> None:
        self.path = path
        self._offset = 0
        self._inode: int | None = None
        self._rest = b""
        if from_end and os.path.exists(path):
            status = os.stat(path)
            self._offset, self._inode = status.st_size, status.st_ino

    @property
    def offset(self) -> int:
        """The byte from which on it reads."""
        return self._offset

    def lines(self) -> list[str]:
        """Whole lines that were written since the last call."""
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._inode, self._offset = status.st_ino, 0
                file.seek(self._offset)
                data = file.read(MAX_BYTES)
        except FileNotFoundError:
            return []
        self._offset += len(data)
        buffered = self._rest + data
        end = max(buffered.rfind(b"\n"), buffered.rfind(b"\r")) + 1
        if len(buffered) - end > MAX_BYTES:
            end = len(buffered)
        self._rest = buffered[end:]
        return split_lines(buffered[:end])
