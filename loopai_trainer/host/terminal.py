"""The operator's own terminal, /dev/tty: whether there is one, and one line read from it."""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from loopai_trainer.errors import ApprovalError

PATH = "/dev/tty"
"""Whatever stdin, stdout and stderr are: the terminal that controls this process (tty(4))."""

_FIRST_PTS = 136
"""Major numbers 136 to 143 are /dev/pts (Documentation/admin-guide/devices.txt of Linux)."""


class Terminal:
    """An open terminal. `stream` is written to for people; `name` is the device, such as /dev/pts/3."""

    def __init__(self, fd: int, stream: TextIO) -> None:
        self._fd = fd
        self.stream = stream
        self.name = _device_name()

    def ask(self, question: str) -> str | None:
        """One line that is typed now: what was typed or pasted before is dropped. None at the end of input."""
        self.stream.flush()
        termios.tcflush(self._fd, termios.TCIFLUSH)
        self.stream.write(question)
        self.stream.flush()
        line = os.read(self._fd, 4096)  # a terminal gives one line at a time
        if not line.endswith(b"\n"):
            self.stream.write("\n")
            self.stream.flush()
        return line.decode("utf-8", "replace").strip() if line else None


@contextmanager
def own(why: str, next_command: str) -> Iterator[Terminal]:
    """The controlling terminal, in the foreground. Raises ApprovalError NO_TERMINAL with `why` one is needed."""
    try:
        fd = os.open(PATH, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        raise _refusal(f"{why}, and there is none here", next_command) from None
    try:
        if not os.isatty(fd) or os.tcgetpgrp(fd) != os.getpgrp():
            # A background job would be stopped as soon as it read.
            raise _refusal(f"{why}, and this command does not run in its foreground", next_command)
        with open(os.dup(fd), "w", encoding="utf-8", errors="backslashreplace") as stream:
            yield Terminal(fd, stream)
    finally:
        os.close(fd)


def _device_name() -> str:
    """The device behind /dev/tty, by the number that the kernel gives it (proc(5), field tty_nr)."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        number = int(file.read().rpartition(")")[2].split()[4])
    major, minor = (number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00)
    if _FIRST_PTS <= major < _FIRST_PTS + 8:
        return f"/dev/pts/{(major - _FIRST_PTS) * 256 + minor}"
    return f"{PATH} ({major}:{minor})"


def _refusal(message: str, next_command: str) -> ApprovalError:
    return ApprovalError(
        message,
        code="NO_TERMINAL",
        hint="the operator calls it in a terminal of their own, in the foreground",
        next_command=next_command,
    )
