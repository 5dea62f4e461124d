"""The fingerprint of a model folder: one SHA-256 over the name, size and hash of every file in it."""

import _thread  # for its lock; threading is loaded with the threads, for large models
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator

from loopai_trainer.errors import ConfigError
from loopai_trainer.files.hashing import HashCache, sha256_bytes, sha256_file
from loopai_trainer.records import Model

WEIGHT_ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
THREADS_FROM_BYTES = 32 * 1024 * 1024
"""Less than this is hashed before threads would have been made."""
THREADS = 4
"""hashlib lets other threads run while it hashes; more threads than this wait for the disk."""
_IGNORED = frozenset((".git", ".cache"))
"""Bookkeeping of git and of the hub's downloader, at the top: it changes by itself and no loader reads it."""

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""


def fingerprint_model(
    folder: str, cache: HashCache | None = None, progress: Progress | None = None, *, weights_read: bool = True
) -> Model:
    """The model in `folder`: SHA-256 over its sorted (relative name, size, sha256), and its config.json.

    `weights_read` False (hash_weights: stat): of weight files only name, size, mtime and ctime count. ctime is the
    kernel's: `touch` cannot set it, but neither does it survive a copy.

    Symbolic links are followed, as the hub's cache layout needs. Raises ConfigError for a folder that is absent,
    has a link that leads nowhere or in a circle, or holds something that is not a file; InputChanged.
    """
    folder = os.path.abspath(folder)
    if not os.path.isdir(folder):
        raise _refusal(folder, "is not a folder")
    sizes = dict(sorted(_files(folder, "", ())))
    read = {name: size for name, size in sizes.items() if weights_read or not name.endswith(WEIGHT_ENDINGS)}
    total, done, lock = sum(read.values()), 0, _thread.allocate_lock()

    def count(piece: int) -> None:
        nonlocal done
        with lock:
            done += piece
            if progress:
                progress(done, total)

    def line(name: str) -> str:
        path = os.path.join(folder, name)
        if not weights_read and name.endswith(WEIGHT_ENDINGS):
            status = os.stat(path)
            return f"{name}\0{status.st_size}\0stat {status.st_mtime_ns} {status.st_ctime_ns}\n"
        return f"{name}\0{sizes[name]}\0{sha256_file(path, cache, count)}\n"

    lines = _in_threads(line, sizes) if total >= THREADS_FROM_BYTES else [line(name) for name in sizes]
    return Model(
        path=folder,
        fingerprint=sha256_bytes("".join(lines).encode("utf-8", "surrogateescape")),
        weight_bytes=sum(size for name, size in sizes.items() if name.endswith(WEIGHT_ENDINGS)),
        config=_config(os.path.join(folder, "config.json")),
    )


def _in_threads(line: Callable[[str], str], names: Iterable[str]) -> list[str]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(line, names))


def _files(folder: str, prefix: str, above: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, int]]:
    """(relative name, size) of every file; `above` holds the identities of the folders that lead here."""
    status = os.stat(folder)
    here = (status.st_dev, status.st_ino)
    if here in above:
        raise _refusal(folder, "is a link to a folder that holds it")
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            if name in _IGNORED:
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                raise _refusal(entry.path, "is a link that leads nowhere") from None
            if stat.S_ISDIR(status.st_mode):
                yield from _files(entry.path, name + "/", (*above, here))
            elif stat.S_ISREG(status.st_mode):
                yield name, status.st_size
            else:
                raise _refusal(entry.path, "is neither a file nor a folder")


def _config(path: str) -> dict[str, object]:
    """config.json; empty if it is absent or damaged, which the backend's check reports."""
    try:
        with open(path, "rb") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _refusal(path: str, what: str) -> ConfigError:
    return ConfigError(f"the model cannot be read: {path} {what}", code="MODEL_INVALID", hint="correct --model")
