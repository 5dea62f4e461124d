"""Looking again at the files and the model that an approved plan pins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from loopai_trainer.files import fingerprints, hashing, user_dirs
from loopai_trainer.records import Plan, Problem
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules import plan_flags

Progress = Callable[[str, int, int], None]
"""(what, bytes done, bytes in all)"""


def changed_inputs(
    plan: Plan, environ: Mapping[str, str], *, verify_all: bool = False, progress: Progress | None = None
) -> list[Problem]:
    """A finding for each pinned file or model folder that is not the approved one any more.

    A file whose device, inode, size, mtime and ctime are those of an earlier hashing is not read again, unless
    `verify_all`. Raises InputChanged if a file changes while it is read.
    """
    cache = hashing.HashCache(user_dirs.hash_cache(environ), trust=not verify_all)
    return [*_changed_files(plan, cache, progress), *_changed_model(plan, cache, progress)]


def strangers(plan: Plan) -> list[Problem]:
    """A finding for each file beside the pinned ones in `inputs/` that the plan does not know.

    Training may import from there: a planted `numpy.py` would go before the real one. Compiled code (`__pycache__`) is
    taken away before training's exec (worker.launching).
    """
    pinned = {entry.path for entry in plans.inputs(plan)}
    folders = {os.path.dirname(path) for path in pinned if os.path.basename(os.path.dirname(path)) == "inputs"}
    found = [path for folder in sorted(folders) for path in _held(folder)]
    return [
        _problem("INPUT_CHANGED", path, f"{path} lies beside the approved inputs, but is not in the plan")
        for path in found
        if path not in pinned
    ]


def _held(folder: str) -> Iterator[str]:
    """Everything in a folder of inputs, and in the folders in it (a checkpoint to go on from)."""
    for name in _importable(folder):
        path = os.path.join(folder, name)
        inside = list(_held(path)) if os.path.isdir(path) and not os.path.islink(path) else []
        yield from inside or [path]


def _importable(folder: str) -> list[str]:
    """Names that Python or a configuration could refer to; temporary files of our own writing begin with a dot."""
    try:
        return sorted(name for name in os.listdir(folder) if name != "__pycache__" and not name.startswith("."))
    except OSError:
        return []  # the pinned files in it are told as missing


def _changed_files(plan: Plan, cache: hashing.HashCache, progress: Progress | None) -> Iterator[Problem]:
    for entry in plans.inputs(plan):
        if os.path.islink(entry.path) or not os.path.isfile(entry.path):
            yield _problem("INPUT_MISSING", entry.path, f"{entry.label}: {entry.path} is no longer a file")
            continue
        try:
            got = hashing.sha256_file(entry.path, cache, _counter(entry, progress))
        except OSError as error:
            yield _problem("INPUT_MISSING", entry.path, f"{entry.label}: {entry.path} cannot be read: {error.strerror}")
            continue
        if got != entry.sha256:
            yield _problem("INPUT_CHANGED", entry.path, _changed(entry.label, entry.path, entry.sha256, got))


def _changed_model(plan: Plan, cache: hashing.HashCache, progress: Progress | None) -> Iterator[Problem]:
    pinned = plan.loopai["inputs"].get("model")
    if pinned is None:
        return
    path = pinned["path"]
    if not os.path.isdir(path):
        yield _problem("INPUT_MISSING", path, f"model: the folder {path} is gone")
        return
    tell = None if progress is None else lambda done, total: progress("hashing the model", done, total)
    # Only what the approved YAML says in so many words keeps the weights from being read.
    weights_read = pinned.get("hash_weights") != plan_flags.STAT
    try:
        got = fingerprints.fingerprint_model(path, cache, tell, weights_read=weights_read).fingerprint
    except OSError as error:
        yield _problem("INPUT_MISSING", path, f"model: {error.filename} cannot be read: {error.strerror}")
        return
    if got != pinned["fingerprint"]:
        yield _problem("INPUT_CHANGED", path, _changed("model", path, pinned["fingerprint"], got))


def _counter(entry: plans.PlannedInput, progress: Progress | None) -> Callable[[int], None] | None:
    if progress is None:
        return None
    total, done = os.stat(entry.path).st_size, 0

    def count(piece: int) -> None:
        nonlocal done
        done += piece
        progress(f"hashing {entry.label}", done, total)

    return count


def _changed(label: str, path: str, expected: str, got: str) -> str:
    return f"{label}: {path} changed since it was approved\n  expected: {expected}\n  got:      {got}"


def _problem(code: str, path: str, message: str) -> Problem:
    return Problem("error", code, "config", message, path=path)
