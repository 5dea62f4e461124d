"""What a traced training opened: strace's files, one a process, or the lines of our own audit hook."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

STRACE = (
    *("strace", "-f", "-ff", "-y", "-s", "8192", "--seccomp-bpf"),
    *("-e", "trace=open,openat,openat2,execve,execveat,clone,clone3,fork,vfork"),
)
"""Reading needs a descriptor, and a descriptor of a file comes from these alone (io_uring's are not seen).
`--seccomp-bpf` stops a process at these calls only: a third more CPU, not several times as much."""

_CHILD = re.compile(r"^(?:clone|clone3|fork|vfork)\(.*\)\s+= (\d+)$")
_OPENED = re.compile(r"^(?:open|openat|openat2)\(.*\)\s+= \d+<(.*)>(?:\(deleted\))?$")
_ABSENT = re.compile(r'^(?:open|openat|openat2)\((?:AT_FDCWD|\d+)?(?:<(.*?)>)?(?:, )?"(.*?)".* = -1 ENOENT')
_EXECUTED = re.compile(r'^execve\("(.*?)", .* = 0$')
_NO_READING = ("O_WRONLY", "O_DIRECTORY", "O_PATH")


class Opened(NamedTuple):
    """A file that a training process opened for reading, or (`absent`) looked for and did not find."""

    path: str
    absent: bool


def from_strace(prefix: Path, main_pid: int) -> Iterator[Opened]:
    """From `PREFIX.PID` files: those of `main_pid` and of all that came from it, threads included."""
    waiting, seen = [main_pid], set()
    while waiting:
        pid = waiting.pop()
        if pid in seen:
            continue
        seen.add(pid)
        trace = Path(f"{prefix}.{pid}")
        for line in trace.read_text("utf-8", "replace").splitlines() if trace.exists() else ():
            child = _CHILD.match(line)
            if child:
                waiting.append(int(child[1]))
            else:
                yield from _opened(line)


def _opened(line: str) -> Iterator[Opened]:
    if any(flag in line for flag in _NO_READING):
        return
    opened, executed, absent = _OPENED.match(line), _EXECUTED.match(line), _ABSENT.match(line)
    if opened or executed:
        yield Opened(_path((opened or executed)[1]), False)
    elif absent:
        yield Opened(os.path.normpath(os.path.join(_path(absent[1] or "/"), _path(absent[2]))), True)


def _path(text: str) -> str:
    """strace writes bytes that are not plain ASCII as octal escapes."""
    return os.fsdecode(text.encode("latin-1", "replace").decode("unicode_escape").encode("latin-1", "replace"))


HOOK = """
import json, os, sys

def _watch():
    log = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    # Kept here: modules are taken apart before the last files are opened.
    dumps, write, join, exists, cwd, decode = json.dumps, os.write, os.path.join, os.path.exists, os.getcwd, os.fsdecode

    def hook(event, values):
        if event != "open" or not isinstance(values[0], (str, bytes)):
            return
        path, mode, flags = values
        if (flags & 3) != 1 and not (isinstance(mode, str) and mode[:1] in "wax"):
            path = join(cwd(), decode(path))
            write(log, (dumps([path, exists(path)]) + "\\n").encode())

    sys.addaudithook(hook)

_watch()
"""
"""A sitecustomize.py: every open() of Python code is noted. What C, C++ and Rust open by themselves is not seen."""


def from_hook(log: Path) -> Iterator[Opened]:
    """From the lines that HOOK wrote."""
    for line in log.read_text("utf-8").splitlines() if log.exists() else ():
        path, there = json.loads(line)
        yield Opened(os.path.normpath(path), not there)
