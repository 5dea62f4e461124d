"""Locks of GPUs, one file a device in a folder that all users of this host share: two runs never take the same one.

A kernel lock (flock) is held by the worker and the keeper of a run, so it lasts as long as either lives. What stands in
the file says who holds it: for people, and for finding a training that outlived both.
"""

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from loopai_trainer.errors import HostUnfit
from loopai_trainer.host import locks

FOLDER_VARIABLE = "LOOPAI_TRAINER_DEVICE_LOCK_DIR"
_BASES = ("/run/lock", "/dev/shm", "/tmp")
"""Never TMPDIR or XDG_RUNTIME_DIR: they differ from user to user, and the devices do not."""

_NAME = "loopai-trainer-devices"
_SHARED = 0o1777
_FILE_MODE = 0o666
_HOLDER_BYTES = 4096


class Held(Exception):
    """The device `name` is locked; `holder` is what its file says, {} if nothing that can be read."""

    def __init__(self, name: str, holder: dict[str, Any]) -> None:
        super().__init__(name)
        self.name = name
        self.holder = holder


class Lock:
    """A lock that was taken: its descriptor, and what the file says of a former holder that did not clear it."""

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self.fd = fd
        self.former = _holder(fd)


def folder(environ: Mapping[str, str]) -> str:
    """The folder of the locks, made if absent: LOOPAI_TRAINER_DEVICE_LOCK_DIR, else below the first base for all users.

    Raises HostUnfit LOCKS_UNRELIABLE if it is a link, or not a folder that all users can share.
    """
    own = environ.get(FOLDER_VARIABLE)
    base = next((base for base in _BASES if _is_shared(base)), "")
    path = os.path.abspath(own) if own else os.path.join(base, _NAME)
    try:
        try:
            os.mkdir(path)
        except FileExistsError:
            pass
        else:
            os.chmod(path, _SHARED)
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(20, "it is not a folder")
    except OSError as error:
        raise _unfit(path, error) from None
    return path


def take(names: Sequence[str], place: str) -> list[Lock]:
    """The locks of all `names` (device ids) in the folder `place`, in one order for everybody.

    Raises Held, with nothing held, if one is locked; HostUnfit LOCKS_UNRELIABLE if a file cannot be made or locked.
    """
    taken: list[Lock] = []
    try:
        for name in sorted(names):
            fd = _take(name, place)
            taken.append(Lock(name, fd))
    except BaseException:
        release(taken)
        raise
    return taken


def release(taken: Sequence[Lock]) -> None:
    """Close them: free, unless a worker or a keeper has them too."""
    for lock in taken:
        os.close(lock.fd)


def name_holder(lock: Lock, holder: Mapping[str, Any]) -> None:
    """Write who holds it."""
    locks.name_holder(lock.fd, json.dumps(holder, ensure_ascii=True))


def _take(name: str, place: str) -> int:
    path = os.path.join(place, re.sub(r"[^0-9A-Za-z.-]", "_", name) + ".lock")
    try:
        fd = _open(path)
        if locks.try_fd(fd):
            return fd
    except OSError as error:
        raise _unfit(path, error) from None
    holder = _holder(fd)
    os.close(fd)
    raise Held(name, holder)


def _open(path: str) -> int:
    """Open the file, made if absent; without O_CREAT if it is there, which proc(5)'s protected_regular would refuse."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(path, flags)
    except FileNotFoundError:
        fd = _make(path, flags)
    fd = locks.above_standard(fd)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(22, "it is not a file", path)
    return fd


def _make(path: str, flags: int) -> int:
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    except FileExistsError:
        return os.open(path, flags)
    os.fchmod(fd, _FILE_MODE)  # whatever the umask: another user's run has to be able to lock it too
    return fd


def _holder(fd: int) -> dict[str, Any]:
    try:
        value = json.loads(os.pread(fd, _HOLDER_BYTES, 0))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_shared(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and mode & _SHARED == _SHARED


def _unfit(path: str, error: OSError) -> HostUnfit:
    return HostUnfit(
        f"GPUs cannot be locked against other runs: {path}: {error.strerror or error}",
        code="LOCKS_UNRELIABLE",
        hint=f"name a folder that all users of this host can write in {FOLDER_VARIABLE}",
    )
