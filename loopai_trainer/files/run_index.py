"""The index of runs in the user's state folder: one line a run, so that a version is found from any directory.

It can be lost without harm: a version is also found below the output directory. Light: `status --json` imports it.
"""

import json
import os

from loopai_trainer.files import atomic, user_dirs
from loopai_trainer.files.run_dir import RunDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def index_path(environ: "Mapping[str, str]") -> str:
    """The index file."""
    return os.path.join(user_dirs.user_dir("state", environ), "runs.jsonl")


def add(run_path: str, environ: "Mapping[str, str]", version_id: str) -> None:
    """Note a run directory. A state folder that cannot be written is no reason to fail."""
    path = index_path(environ)
    try:
        atomic.make_private_dir(os.path.dirname(path))
        atomic.append_line(
            path, json.dumps({"version_id": version_id, "path": run_path}, ensure_ascii=False).encode("utf-8")
        )
    except OSError:
        pass


def known_runs(environ: "Mapping[str, str]") -> "Iterator[RunDir]":
    """Run directories in the index that still exist, newest first, each once."""
    for path, version_id in noted(environ):
        if os.path.isdir(path):
            yield RunDir(path, version_id)


def noted(environ: "Mapping[str, str]") -> "Iterator[tuple[str, str]]":
    """(path, version id) of every line, newest first, each path once; a folder may be gone by now."""
    seen: set[str] = set()
    for path, version_id in reversed(_lines(index_path(environ))):
        if path not in seen:
            seen.add(path)
            yield path, version_id


def _lines(path: str) -> list[tuple[str, str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
    except OSError:
        return []
    try:  # as one document: a third of the CPU of ten thousand small ones
        values = json.loads("[" + ",".join(lines) + "]")
    except (ValueError, RecursionError):
        values = [_value(line) for line in lines]
    return [found for found in map(_entry, values) if found]


def _value(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _entry(value: object) -> tuple[str, str] | None:
    if not isinstance(value, dict):
        return None
    path, version_id = value.get("path"), value.get("version_id")
    return (path, version_id) if isinstance(path, str) and isinstance(version_id, str) else None
