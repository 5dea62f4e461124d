"""Writes that survive a crash: temp file in the same folder, fsync, rename, fsync of the folder; appends in one write.

Light on purpose (os and json alone): the worker and the fast path import it.
"""

import json
import os

PRIVATE = 0o600


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
        os.write(fd, line + b"\n")
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def read_json(path: str) -> dict[str, object] | None:
    """The JSON object in `path`; None if the file is absent. Raises ValueError if it is torn or not an object."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    value = json.loads(data)
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
