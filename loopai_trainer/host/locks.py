"""Kernel locks (flock) of a run: taken once, inherited by the worker or the keeper, released by the kernel alone.

Light on purpose: `status --json` imports it.
"""

import errno
import fcntl
import os
import time

from loopai_trainer.errors import HostUnfit

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""What flock answers on a file system without locks (flock(2); NFS without a lock daemon says ENOLCK)."""


def try_exclusive(path: str, *, tries: int = 5, pause_s: float = 0.01) -> int | None:
    """Take the lock of `path` (made if absent) and return its descriptor, close-on-exec; None: somebody holds it.

    Raises HostUnfit LOCKS_UNRELIABLE on a file system without locks.
    """
    fd = above_standard(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        if try_fd(fd, tries=tries, pause_s=pause_s):
            return fd
    except OSError as error:
        os.close(fd)
        if error.errno in _NO_LOCKS:
            raise unreliable(os.path.dirname(path), str(error)) from None
        raise
    os.close(fd)
    return None


def try_fd(fd: int, *, tries: int = 5, pause_s: float = 0.01) -> bool:
    """Take the lock of an open file; False: somebody holds it.

    Tried a few times, since a reader's `held` takes the lock for some microseconds.
    """
    for turn in range(tries):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if turn + 1 < tries:
                time.sleep(pause_s)
    return False


def unreliable(folder: str, why: str) -> HostUnfit:
    """The refusal of a file system on which two processes could hold one lock."""
    return HostUnfit(
        f"locks do not hold in {folder} ({why}): two trainings could start",
        code="LOCKS_UNRELIABLE",
        hint="put the output directory on a file system with working flock, such as a local disk",
    )


def held(path: str) -> bool:
    """Whether somebody holds the lock of `path`; true in a sandbox too that hides the holder's pid and forbids writing.

    Source: measured inside the sandbox of codex 0.171.0, with flock on an O_RDONLY descriptor.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise unreliable(os.path.dirname(path), str(error)) from None
        raise
    finally:
        os.close(fd)
    return False


def above_standard(fd: int) -> int:
    """The descriptor, moved above 2: callers without standard streams get low ones, which a worker replaces."""
    if fd > 2:
        return fd
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved


def owns(fd: int) -> bool:
    """Whether the open file behind `fd` holds its lock exclusively, or can take it now."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def name_holder(fd: int, text: str) -> None:
    """Write into the lock file who holds it, for people; nothing is ever decided from it."""
    data = text.encode("utf-8") + b"\n"
    os.pwrite(fd, data, 0)
    os.ftruncate(fd, len(data))
