"""Looking again at everything that an approved plan pins: files, model folder, environment. Light until it hashes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from loopai_trainer.errors import BackendMissing, InputChanged
from loopai_trainer.files import user_dirs
from loopai_trainer.records import Plan, Problem
from loopai_trainer.rules import plan as plans

if TYPE_CHECKING:
    from loopai_trainer.contract import Backend


def verify(plan: Plan, backend: Backend, environ: Mapping[str, str], *, verify_all: bool = False) -> None:
    """Hash every pinned input again and compare. Raises InputChanged that lists all that differ (exit 6).

    `verify_all` reads every byte again; otherwise a file whose device, inode, size, mtime and ctime are those of an
    earlier hashing is not read twice.
    """
    problems = [
        *_file_problems(plan, environ, verify_all),
        *_model_problems(plan, environ, verify_all),
        *_environment_problems(plan, backend, environ),
    ]
    if problems:
        raise changed(problems)


def changed(problems: list[Problem], code: str = "INPUT_CHANGED") -> InputChanged:
    """The refusal for inputs that are not the approved ones."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return InputChanged(
        problems[0].message + more,
        code=code,
        hint="prepare again, so that the present inputs are checked and approved",
        problems=problems,
    )


def _file_problems(plan: Plan, environ: Mapping[str, str], verify_all: bool) -> Iterator[Problem]:
    from loopai_trainer.files import hashing

    cache = hashing.HashCache(hash_cache_path(environ), trust=not verify_all)
    for entry in plans.inputs(plan):
        if os.path.islink(entry.path) or not os.path.isfile(entry.path):
            yield _problem(entry.path, f"{entry.label}: {entry.path} is no longer a file", "INPUT_MISSING")
            continue
        got = hashing.sha256_file(entry.path, cache)
        if got != entry.sha256:
            yield _problem(
                entry.path,
                f"{entry.label}: {entry.path} changed since it was approved\n"
                f"  expected: {entry.sha256}\n  got:      {got}",
                "INPUT_CHANGED",
            )


def _model_problems(plan: Plan, environ: Mapping[str, str], verify_all: bool) -> Iterator[Problem]:
    from loopai_trainer.files import fingerprints, hashing

    pinned = plan.loopai["inputs"]["model"]
    cache = hashing.HashCache(hash_cache_path(environ), trust=not verify_all)
    if not os.path.isdir(pinned["path"]):
        yield _problem(pinned["path"], f"model: the folder {pinned['path']} is gone", "INPUT_MISSING")
        return
    got = fingerprints.fingerprint_model(pinned["path"], cache).fingerprint
    if got != pinned["fingerprint"]:
        yield _problem(
            pinned["path"],
            f"model: {pinned['path']} changed since it was approved\n"
            f"  expected: {pinned['fingerprint']}\n  got:      {got}",
            "INPUT_CHANGED",
        )


def _environment_problems(plan: Plan, backend: Backend, environ: Mapping[str, str]) -> Iterator[Problem]:
    from loopai_trainer.host import environments

    pinned = plan.loopai["backend"]
    try:
        environment = environments.resolve(pinned["environment"], plan.framework, environ)
        versions = backend.probe(environment)
    except BackendMissing as error:
        yield _problem(pinned["environment"], f"environment: {error.message}", "ENVIRONMENT_CHANGED")
        return
    for what, expected, got in (
        ("python", pinned["python"], environment.python),
        (f"{pinned['package']} version", pinned["version"], versions.version),
        ("installed packages (sha256)", pinned["environment_sha256"], versions.sha256),
    ):
        if expected != got:
            message = f"environment: {what} changed since it was approved\n  expected: {expected}\n  got:      {got}"
            yield _problem(pinned["environment"], message, "ENVIRONMENT_CHANGED")


def hash_cache_path(environ: Mapping[str, str]) -> str:
    """The user's cache of file hashes."""
    return os.path.join(user_dirs.user_dir("cache", environ), "hashes.jsonl")


def _problem(path: str, message: str, code: str) -> Problem:
    return Problem("error", code, "config", message, path=path)
