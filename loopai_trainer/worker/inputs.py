"""Looking again at the files and the model that an approved plan pins."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from loopai_trainer.files import fingerprints, hashing, user_dirs
from loopai_trainer.records import Plan, Problem
from loopai_trainer.rules import plan as plans


def changed_inputs(plan: Plan, environ: Mapping[str, str], *, verify_all: bool = False) -> list[Problem]:
    """A finding for each pinned file or model folder that is not the approved one any more.

    A file whose device, inode, size, mtime and ctime are those of an earlier hashing is not read again, unless
    `verify_all`. Raises InputChanged if a file changes while it is read.
    """
    path = os.path.join(user_dirs.user_dir("cache", environ), "hashes.jsonl")
    cache = hashing.HashCache(path, trust=not verify_all)
    return [*_changed_files(plan, cache), *_changed_model(plan, cache)]


def _changed_files(plan: Plan, cache: hashing.HashCache) -> Iterator[Problem]:
    for entry in plans.inputs(plan):
        if os.path.islink(entry.path) or not os.path.isfile(entry.path):
            yield _problem("INPUT_MISSING", entry.path, f"{entry.label}: {entry.path} is no longer a file")
            continue
        got = hashing.sha256_file(entry.path, cache)
        if got != entry.sha256:
            yield _problem("INPUT_CHANGED", entry.path, _changed(entry.label, entry.path, entry.sha256, got))


def _changed_model(plan: Plan, cache: hashing.HashCache) -> Iterator[Problem]:
    pinned = plan.loopai["inputs"]["model"]
    path = pinned["path"]
    if not os.path.isdir(path):
        yield _problem("INPUT_MISSING", path, f"model: the folder {path} is gone")
        return
    got = fingerprints.fingerprint_model(path, cache).fingerprint
    if got != pinned["fingerprint"]:
        yield _problem("INPUT_CHANGED", path, _changed("model", path, pinned["fingerprint"], got))


def _changed(label: str, path: str, expected: str, got: str) -> str:
    return f"{label}: {path} changed since it was approved\n  expected: {expected}\n  got:      {got}"


def _problem(code: str, path: str, message: str) -> Problem:
    return Problem("error", code, "config", message, path=path)
