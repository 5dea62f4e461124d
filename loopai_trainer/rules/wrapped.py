"""LoopAI's wrapped values: what its Configer hands out around each field of a task's state, and takes as an update."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

_HANDED_OUT = frozenset(("value", "default_value", "type"))
_UPDATE = frozenset(("value", "type"))
_NAMES: tuple[tuple[str, type | tuple[type, ...]], ...] = (
    ("bool", bool),
    ("int", int),
    ("float", float),
    ("dict", dict),
    ("list", list),
    ("str", str),
)
"""LoopAI's name of a type -> Python's, in the order in which a value is asked (a bool is an int in Python)."""

_OF_NAME: Mapping[str, type | tuple[type, ...]] = {
    **dict(_NAMES),
    "none": type(None),
    "json": (dict, list),
    "object": dict,
    "array": list,
}


def wrap(value: Any) -> dict[str, Any]:
    """`{"value", "default_value", "type"}`, as LoopAI's readers expect each field."""
    return {"value": value, "default_value": value, "type": type_name(value)}


def type_name(value: Any) -> str:
    """LoopAI's name of the value's type."""
    return "none" if value is None else next((name for name, kind in _NAMES if isinstance(value, kind)), "str")


def unwrap(value: Any) -> Any:
    """The value inside, if this is a wrapper and not somebody's mapping that happens to have a key `value`.

    A wrapper has `value`, `type` and `default_value`, or `value` and `type` alone with a type that fits: a reward's
    own arguments `{"value": 3}` stay what they are.
    """
    if not isinstance(value, Mapping):
        return value
    if value.keys() >= _HANDED_OUT and isinstance(value["type"], str):
        return value["value"]
    if value.keys() == _UPDATE and _fits(value["value"], value["type"]):
        return value["value"]
    return value


def unwrapped(section: Mapping[str, Any]) -> dict[str, Any]:
    """A section with every field's value instead of its wrapper."""
    return {str(name): unwrap(value) for name, value in section.items()}


def rewrapped(stored: Any, value: Any) -> Any:
    """`value` in the form in which the field was stored: inside its wrapper, if it had one."""
    if unwrap(stored) is stored:
        return value
    return {**stored, "value": value, "type": type_name(value)}


def output_file(results: Any) -> str | None:
    """`output_file` of somebody's mapping results; LoopAI has also kept these as JSON, and as a Python literal."""
    results = unwrap(results)
    if isinstance(results, str):
        results = _literal(results)
    made = unwrap(results.get("output_file")) if isinstance(results, Mapping) else None
    return made if isinstance(made, str) and made.strip() else None


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _fits(value: Any, name: Any) -> bool:
    kind = _OF_NAME.get(name) if isinstance(name, str) else None
    return kind is not None and (value is None or isinstance(value, kind))
