"""Copies of large files, byte for byte; they share the disk's blocks where the file system can do that."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os

from loopai_trainer.files import atomic

_FICLONE = 0x40049409
"""Source: linux/fs.h, _IOW(0x94, 9, int)."""
_PIECE_BYTES = 64 << 20
_NOT_HERE = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF, errno.ENOTTY)
"""What file systems answer that cannot do it."""


def copy_exactly(source: str, target: str) -> None:
    """Make `target`, which must not exist, a copy of the file `source`. Raises OSError."""
    with open(source, "rb", buffering=0) as reads:
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, atomic.PRIVATE)
        with open(fd, "wb", buffering=0) as writes:
            if not _reflinked(reads.fileno(), fd):
                _copied(reads.fileno(), fd)
            writes.flush()
            os.fsync(fd)


def _reflinked(source: int, target: int) -> bool:
    with contextlib.suppress(OSError):
        fcntl.ioctl(target, _FICLONE, source)
        return True
    return False


def _copied(source: int, target: int) -> None:
    try:
        while os.copy_file_range(source, target, _PIECE_BYTES):
            pass
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        os.lseek(source, 0, os.SEEK_SET)
        os.lseek(target, 0, os.SEEK_SET)
        while piece := os.read(source, 1 << 20):
            while piece:
                piece = piece[os.write(target, piece) :]
