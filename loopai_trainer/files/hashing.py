"""SHA-256 of files, streamed, with a cache that knows when a file may have changed.

Light on purpose: `run-prepared` imports it before training starts.
"""

import _thread  # for its lock; threading itself costs a third of starting Python
import hashlib
import json
import os
import time
from collections.abc import Callable

from loopai_trainer.errors import InputChanged

PIECE_BYTES = 1 << 20
RACY_S = 2.0
"""A file changed less than this ago may change again within one tick of its clock: its hash is not remembered."""
MAX_CACHE_LINES = 20_000

Progress = Callable[[int], None]
"""Called with the number of bytes that were just hashed."""
Identity = tuple[int, int, int, int, int]
"""(device, inode, size, mtime_ns, ctime_ns): equal for an unchanged file."""


def sha256_bytes(data: bytes) -> str:
    """Lower-case hex digest."""
    return hashlib.sha256(data).hexdigest()


def identity(stat: os.stat_result) -> Identity:
    """What the cache tells files apart by."""
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


class HashCache:
    """Remembers hashes in a file of JSON lines; any number of processes and threads may share it.

    `path` None: nothing is kept. `trust` False: every file is read again (and the cache is corrected).
    """

    def __init__(self, path: str | None, *, trust: bool = True) -> None:
        self.path = path
        self.trust = trust
        self._lock = _thread.allocate_lock()
        self._known: dict[Identity, str] | None = None

    def get(self, key: Identity) -> str | None:
        """The remembered hash, if any."""
        if not self.trust:
            return None
        with self._lock:
            if self._known is None:
                self._known = self._load()
            return self._known.get(key)

    def put(self, key: Identity, digest: str) -> None:
        """Remember a hash. A cache that cannot be written is no reason to stop."""
        with self._lock:
            if self._known is not None:
                self._known[key] = digest
            if self.path is not None:
                self._append(self.path, json.dumps([*key, digest]).encode() + b"\n")

    def _append(self, path: str, line: bytes) -> None:
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, line)
            finally:
                os.close(fd)
        except OSError:
            self.path = None

    def _load(self) -> dict[Identity, str]:
        known: dict[Identity, str] = {}
        if self.path is None:
            return known
        try:
            with open(self.path, "rb") as file:
                lines = file.readlines()
        except OSError:
            return known
        for line in lines[-MAX_CACHE_LINES:]:
            entry = _entry(line)
            if entry:
                known[entry[0]] = entry[1]
        if len(lines) > 2 * MAX_CACHE_LINES:
            self._rewrite(self.path, lines[-MAX_CACHE_LINES:])
        return known

    def _rewrite(self, path: str, lines: list[bytes]) -> None:
        """Forget the oldest. A line that another process appends meanwhile is lost: that file is hashed once more."""
        temp = f"{path}.{os.getpid()}.tmp"
        try:
            with open(temp, "wb") as file:
                file.writelines(lines)
            os.replace(temp, path)
        except OSError:
            return


def sha256_file(path: str, cache: HashCache | None = None, progress: Progress | None = None) -> str:
    """Lower-case hex digest of a file's bytes, from the cache if the file is the same as when it was hashed.

    Raises InputChanged if the file changes while it is read, OSError if it cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        before = identity(os.fstat(fd))
        known = cache.get(before) if cache else None
        if known is not None:
            if progress:
                progress(before[2])
            return known
        digest = _stream(fd, before[2], progress)
        after = identity(os.fstat(fd))
    finally:
        os.close(fd)
    if after != before:
        raise InputChanged(f"{path} changed while it was read", hint="let the writer finish, then try again")
    if cache and time.time_ns() - max(after[3], after[4]) > RACY_S * 1e9:
        cache.put(after, digest)
    return digest


def _stream(fd: int, size: int, progress: Progress | None) -> str:
    """Digest of the file's bytes, at most one piece more than `size`: a file that grows on and on must have an end."""
    digest = hashlib.sha256()
    buffer = bytearray(PIECE_BYTES)
    view = memoryview(buffer)
    done = 0
    while done <= size and (count := os.readv(fd, [buffer])):
        done += count
        digest.update(view[:count])
        if progress:
            progress(count)
    return digest.hexdigest()


def _entry(line: bytes) -> tuple[Identity, str] | None:
    """A cache line; None for one that is torn or foreign."""
    try:
        device, inode, size, mtime_ns, ctime_ns, digest = json.loads(line)
    except (ValueError, TypeError):
        return None
    if not (isinstance(digest, str) and len(digest) == 64):
        return None
    return (device, inode, size, mtime_ns, ctime_ns), digest
