"""Writes that survive a crash: temp file in the same folder, fsync, rename, fsync of the folder; appends in one write.

Light on purpose (os and json alone): the worker and the fast path import it.
"""

import errno
import json
import os

PRIVATE = 0o600
_FULL_BYTES = 64 * 1024
"""With less than this a record and its temporary copy no longer fit."""


def means_full(error: OSError) -> bool:
    """Whether a write failed because the disk, or the user's share of it, is used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_full(folder: str) -> bool:
    """Whether the file system of `folder` has no room left for a record; False if that cannot be asked."""
    try:
        there = os.statvfs(folder)
    except OSError:
        return False
    return there.f_bavail * there.f_frsize < _FULL_BYTES


def make_private_dir(path: str) -> None:
    """Create `path` and its missing parents; those that are made get mode 0700."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        make_private_dir(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def write_bytes(path: str, data: bytes, mode: int = PRIVATE, *, sync: bool = True) -> None:
    """Replace `path` by `data` in one step; readers see the old or the new content, never a part.

    `sync=False` leaves the two fsyncs out: after a power cut the old content may be back.
    """
    folder = os.path.dirname(path)
    temp = os.path.join(folder, f".{os.path.basename(path)}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(data)
            file.flush()
            if sync:
                os.fsync(fd)
        os.replace(temp, path)
    except BaseException:
        _remove(temp)
        raise
    if sync:
        sync_folder(folder)


def write_text(path: str, text: str, mode: int = PRIVATE) -> None:
    """write_bytes of UTF-8 text."""
    write_bytes(path, text.encode("utf-8"), mode)


def write_json(path: str, value: object, mode: int = PRIVATE, *, sync: bool = True) -> None:
    """write_bytes of strict JSON (no NaN), two spaces of indent, newline at the end."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2) + "\n"
    write_bytes(path, text.encode("utf-8"), mode, sync=sync)


def append_line(path: str, line: bytes, *, sync: bool = False) -> None:
    """Append `line` (without its newline) in one write, so that concurrent writers never interleave."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE)
    try:
        if os.write(fd, line + b"\n") != len(line) + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def read_json(path: str) -> dict[str, object] | None:
    """The JSON object in `path`; None if the file is absent. Raises ValueError if it is torn, or no file, or no object.

    A folder, a link to itself or a pipe in its place is damage like any other; a pipe is not waited for.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            with open(fd, "rb", closefd=False) as file:
                data = file.read()
        finally:
            os.close(fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.ELOOP, errno.ENXIO):
            raise ValueError(f"{path} is no file: {error.strerror}") from None
        raise
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} does not hold a JSON object")
    return value


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def sync_folder(folder: str) -> None:
    """Make names that were given or taken in `folder` survive a power cut."""
    fd = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
