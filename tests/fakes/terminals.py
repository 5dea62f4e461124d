"""`trainer` in a real pseudo-terminal of its own: what a person sees, and what they type."""

import codecs
import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence

LIMIT_S = 120.0
_LEFT_S = 5.0
"""How long a terminal may be silent that somebody else has still open when its program has ended."""

_OPENED = """
import json, os, sys
terminal, stdout, parents = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
fd = os.open(terminal, os.O_RDWR)  # the first terminal that a session's leader opens becomes its own (tty(4))
for number in (0, 1, 2):
    if number != 1 or not stdout:
        os.dup2(fd, number)
if stdout:
    os.dup2(os.open(stdout, os.O_WRONLY | os.O_CREAT, 0o600), 1)
"""
CALLER = f"""{_OPENED}
from loopai_trainer.host import ancestry
ancestry.command_lines = lambda: parents  # the tests themselves may run below a coding agent
from loopai_trainer.cli.fast import main
sys.argv = ["trainer", *sys.argv[4:]]
sys.exit(main())
"""
PROGRAM = f"""{_OPENED}
os.execvp(sys.argv[4], sys.argv[4:])
"""


class Terminal:
    """One call of `trainer` at a terminal of 80 columns; `stdout`: a file that its stdout goes to instead; `program`: `words` are another one."""

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        *,
        parents: Sequence[Sequence[str]] = (("bash",),),
        stdout: str = "",
        columns: int = 80,
        program: bool = False,
        cwd: str | None = None,
    ) -> None:
        self._raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._master, slave = pty.openpty()
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        name = os.ttyname(slave)
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM if program else CALLER, name, stdout, json.dumps(parents), *words],
            env={**env, "TERM": "xterm", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=cwd,
        )
        self._slave = slave  # kept open, so that the master never reads an error before the child has opened it

    @property
    def seen(self) -> str:
        """All that was seen; of a line's end that was cut in two only what is there."""
        return self._raw.replace("\r\n", "\n")

    def wait_for(self, text: str) -> str:
        """All that was seen, once `text` is among it."""
        return self.wait_until(lambda seen: text in seen)

    def wait_until(self, holds: Callable[[str], bool]) -> str:
        """All that was seen, once that holds of it."""
        self._read_until(lambda: holds(self.seen))
        return self.seen

    def type(self, text: str) -> None:
        """What a person types, with its newline."""
        os.write(self._master, text.encode())

    def resize(self, columns: int, rows: int = 24) -> None:
        """The terminal becomes that large; what was seen before is forgotten."""
        self._raw = ""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def signal(self, number: int) -> None:
        """Send the program a signal."""
        self._process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """(exit code, all that was seen)."""
        self._read_until(lambda: self._process.poll() is not None)
        os.close(self._slave)
        with contextlib.suppress(OSError):  # EIO: all was read, and nobody has the terminal open any more
            while select.select([self._master], [], [], _LEFT_S)[0]:
                self._read()
        os.close(self._master)
        return self._process.returncode, self.seen

    def _read_until(self, condition) -> None:
        until = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > until:
                self._process.kill()
                self._process.wait()
                raise AssertionError(f"it did not come: {self.seen[-2000:]}")
            if select.select([self._master], [], [], 0.05)[0]:
                self._read()

    def _read(self) -> None:
        self._raw += self._decoder.decode(os.read(self._master, 65536))
