"""The guard of one node: runs a command and ends everything below it when its own starter is gone, or says so.

Run by file path with `-I -S`; standard library alone. Its standard input is a pipe from the starter: a number of
seconds (the grace) or the pipe's end means stop. Ray kills the children of an actor that dies, so the guard itself is a
grandchild in a session of its own: the child only hands on its exit status.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_S = 0.2
_GRACE_S = 20.0
_KILL_S = 10.0


def main(argv: list[str]) -> int:
    """Exit status of the command, 128 + N if signal N ended it; 127 if it cannot be started."""
    guard = os.fork()
    if guard:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the guard is told by the pipe
        return _status(os.waitpid(guard, 0)[1])
    os.setsid()
    code = 127
    try:
        code = _guard(argv)
    finally:
        os._exit(code)


def _guard(argv: list[str]) -> int:
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    stopping = Stopping()
    # Blocked until the child has its own answer to it: one that comes between the two would be lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    main_pid = os.fork()
    if main_pid == 0:
        try:
            os.setsid()
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.execvpe(argv[0], argv, os.environ)
        except OSError as error:
            os.write(2, f"{argv[0]}: {error}\n".encode())
        finally:
            os._exit(127)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
    code = None
    while code is None and not stopping.asked():
        code = _reap(main_pid)
    _end(stopping.grace_s)
    if code is None:
        code = _last.get(main_pid)
    return 137 if code is None else code


class Stopping:
    """Whether the starter is gone, or has asked for the end; SIGTERM is such a wish too."""

    def __init__(self) -> None:
        self.grace_s = _GRACE_S
        self._term = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self._term = True

    def asked(self) -> bool:
        """Waits a moment for it."""
        readable, _, _ = select.select([0], [], [], _LOOK_S)
        if readable:
            text = os.read(0, 64).decode("ascii", "replace").strip()
            try:
                self.grace_s = float(text)
            except ValueError:
                pass  # the pipe's end: the starter is gone
        return self._term or bool(readable)


_last: dict[int, int] = {}
"""Exit statuses of children that were collected."""


def _reap(main_pid: int) -> int | None:
    """Collect ended children; the main one's exit status once it has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
        _last[pid] = _status(status)
    return _last.get(main_pid)


def _end(grace_s: float) -> None:
    """TERM to all below, once each; then KILL, until none is left or time is up."""
    asked: set[int] = set()
    kill_at = time.monotonic() + grace_s
    until = kill_at + _KILL_S
    while time.monotonic() < until:
        _reap(-1)
        living = _below(os.getpid())
        if not living:
            return
        hard = time.monotonic() >= kill_at
        for pid in living:
            if hard or pid not in asked:
                asked.add(pid)
                _send(pid, signal.SIGKILL if hard else signal.SIGTERM)
        time.sleep(0.05)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended, or is somebody else's now


def _below(root: int) -> list[int]:
    """All processes below `root`; those that have lost their parent are the guard's own children (subreaper)."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] not in (b"Z", b"X"):
                children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    queue = list(children.get(root, ()))
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, ())
    return found


def _status(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
