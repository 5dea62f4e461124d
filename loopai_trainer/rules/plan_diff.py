"""What differs between two YAML texts: key by key, and as unified text. Pure.

What follows from the version alone is no difference: the version id, and paths that are the same seen from each one's
own run directory.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_ABSENT = object()
OWN = "{run_dir}"
"""Stands for each side's own run directory."""
_OWN_REGISTRY = f"{OWN}/prepared_data/dataset_info.json"
"""The launcher's own file; it names the snapshots, which are compared. The backend checks its content (registry.py)."""


class Change(NamedTuple):
    """One key that differs. `kind`: added, removed or changed; `before` and `after` are None where there is nothing."""

    key: str
    kind: str
    before: Any
    after: Any

    def as_json(self) -> dict[str, Any]:
        """The shape of interface section 5."""
        return {"key": self.key, "kind": self.kind, "from": self.before, "to": self.after}


def changes(
    before: Mapping[str, Any], after: Mapping[str, Any], *, before_dir: str = "", after_dir: str = ""
) -> list[Change]:
    """The keys that differ, in the order of `after`, those that are gone last. Lists of plain values count as one."""
    old, new = _comparable(before, before_dir), _comparable(after, after_dir)
    return list(_mapping("", old, new))


def unified(before: str, after: str, before_name: str, after_name: str) -> str:
    """The texts' unified diff; empty if they are the same."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), before_name, after_name
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def digest(unified_text: str) -> str:
    """SHA-256 of a unified diff's UTF-8 text, lower-case hex: what an approval record keeps of it."""
    return hashlib.sha256(unified_text.encode("utf-8")).hexdigest()


def _comparable(values: Mapping[str, Any], run_dir: str) -> dict[str, Any]:
    found: dict[str, Any] = _relative(values, run_dir) if run_dir else dict(values)
    block = found.get("loopai")
    if isinstance(block, dict):
        found["loopai"] = {key: value for key, value in block.items() if key != "version_id"}
        inputs = block.get("inputs")
        if run_dir and isinstance(inputs, dict) and isinstance(inputs.get("files"), list):
            files = [_without_hash(entry) for entry in inputs["files"]]
            found["loopai"]["inputs"] = {**inputs, "files": files}
    return found


def _without_hash(entry: Any) -> Any:
    if isinstance(entry, dict) and entry.get("path") == _OWN_REGISTRY:
        return {"path": entry["path"]}
    return entry


def _relative(value: Any, run_dir: str) -> Any:
    if isinstance(value, str):
        own = value == run_dir or value.startswith(run_dir + "/")
        return OWN + value[len(run_dir) :] if own else value
    if isinstance(value, Mapping):
        return {key: _relative(item, run_dir) for key, item in value.items()}
    if isinstance(value, list):
        return [_relative(item, run_dir) for item in value]
    return value


def _mapping(prefix: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for key in dict.fromkeys((*after, *before)):
        yield from _value(f"{prefix}{key}", before.get(key, _ABSENT), after.get(key, _ABSENT))


def _value(key: str, before: Any, after: Any) -> Iterator[Change]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _mapping(f"{key}.", before, after)
    elif _has_mappings(before) and _has_mappings(after):
        yield from _mapping(f"{key}.", _numbered(before), _numbered(after))
    elif not _same(before, after):
        yield from _leaf(key, before, after)


def _leaf(key: str, before: Any, after: Any) -> Iterator[Change]:
    """One change; a block that comes or goes is named by its leaves."""
    for one in (before, after):
        other = after if one is before else before
        if other is _ABSENT and isinstance(one, Mapping) and one:
            sides = (one, {}) if one is before else ({}, one)
            yield from _mapping(f"{key}.", *sides)
            return
    kind = "added" if before is _ABSENT else "removed" if after is _ABSENT else "changed"
    yield Change(key, kind, None if before is _ABSENT else before, None if after is _ABSENT else after)


def _same(before: Any, after: Any) -> bool:
    # 1 and true, 1 and 1.0 are equal to Python, and are not the same to a reader of YAML.
    return type(before) is type(after) and before == after and repr(before) == repr(after)


def _has_mappings(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(v, Mapping) for v in value)


def _numbered(values: Sequence[Any]) -> dict[str, Any]:
    return {str(index): value for index, value in enumerate(values)}
