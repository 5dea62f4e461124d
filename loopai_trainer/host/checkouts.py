"""Source checkouts that code is run from: the commit that they stand at, and whether they were changed since.

The commit is read from .git itself; only `is_dirty` starts git, and only `prepare` asks it.
"""

import os
from typing import NamedTuple

_TIMEOUT_S = 60
_HEX = frozenset("0123456789abcdef")


class Checkout(NamedTuple):
    """`commit`: 40 or 64 hex digits. `dirty`: whether files differ from it or are not in it; None: git does not say."""

    path: str
    commit: str
    dirty: bool | None


def find(folder: str) -> str | None:
    """The git checkout that holds `folder` (its top folder, real path); None if there is none."""
    path = os.path.realpath(folder)
    while True:
        if os.path.lexists(os.path.join(path, ".git")):
            return path
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent


def read(folder: str) -> Checkout | None:
    """The checkout that holds `folder`; None if there is none, or its commit cannot be read."""
    top = find(folder)
    commit = commit_of(top) if top else None
    return Checkout(top, commit, is_dirty(top)) if top and commit else None


def commit_of(top: str) -> str | None:
    """The commit that HEAD names, without git: through a worktree's file, a branch, packed-refs. None if unborn."""
    git = os.path.join(top, ".git")
    text = _text(git)
    if text.startswith("gitdir:"):
        git = os.path.join(top, text.partition(":")[2].strip())
    head = _text(os.path.join(git, "HEAD"))
    if not head.startswith("ref:"):
        return head if _is_commit(head) else None
    shared = _text(os.path.join(git, "commondir"))
    folders = [git, os.path.join(git, shared)] if shared else [git]
    name = head.partition(":")[2].strip()
    for one in folders:
        commit = _text(os.path.join(one, name)) or _packed(one, name)
        if _is_commit(commit):
            return commit
    return None


def is_dirty(top: str) -> bool | None:
    """Whether a file differs from the commit or is unknown to git; None if git is absent or refuses."""
    import subprocess

    # No hook and no monitor of that checkout may run: it is looked at, not trusted.
    argv = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", top, "status", "--porcelain"]
    env = {"PATH": os.environ.get("PATH", os.defpath), "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "HOME": "/nonexistent"}
    try:
        done = subprocess.run(
            argv, capture_output=True, stdin=subprocess.DEVNULL, env=env, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return bool(done.stdout.strip()) if done.returncode == 0 else None


def _packed(git: str, name: str) -> str:
    for line in _text(os.path.join(git, "packed-refs")).splitlines():
        commit, _, ref = line.partition(" ")
        if ref.strip() == name:
            return commit
    return ""


def _is_commit(text: str) -> bool:
    return len(text) in (40, 64) and set(text) <= _HEX


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
