"""Values in nested mappings by a dotted key (`data.train_files`), as verl's configuration names them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


def get(values: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key; None if there is none."""
    value: Any = values
    for part in key.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def has(values: Mapping[str, Any], key: str) -> bool:
    """Whether there is a value at a dotted key, None included."""
    *parents, last = key.split(".")
    value = get(values, ".".join(parents)) if parents else values
    return isinstance(value, dict) and last in value


def in_the_way(values: Mapping[str, Any], key: str) -> str | None:
    """The dotted key of a value that is no mapping, and would have to be one to hold `key`; None if there is none."""
    parents = key.split(".")[:-1]
    above = (".".join(parents[:count]) for count in range(1, len(parents) + 1))
    return next((one for one in above if not isinstance(get(values, one), dict | None)), None)


def put(values: dict[str, Any], key: str, value: Any) -> Any:
    """Set the value at a dotted key, in place; the mappings on the way are copied. Gives the value before."""
    *parents, last = key.split(".")
    target = values
    for part in parents:
        child = target.get(part)
        copied = dict(child) if isinstance(child, dict) else {}
        target[part] = copied
        target = copied
    before = target.get(last)
    target[last] = value
    return before


def take_out(values: dict[str, Any], key: str) -> None:
    """Remove a dotted key, in place, if it is there; the mappings on the way are copied."""
    if has(values, key):
        put(values, key, None)
        *parents, last = key.split(".")
        holder = get(values, ".".join(parents)) if parents else values
        del holder[last]


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of everything that is no mapping, and of empty mappings, in order."""
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{key}.")
        else:
            yield key, value


def related(key: str, other: str) -> bool:
    """Whether the two are the same key, or one lies below the other."""
    return key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.")
