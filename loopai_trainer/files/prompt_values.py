"""Columns of nested values whose types are only known when all rows were seen: JSON text first, typed at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow

_CANNOT = (pyarrow.ArrowException, TypeError, ValueError, OverflowError)


class ValueTypes:
    """The Arrow type of each key of many objects. A key whose values fit no one type is kept as JSON text."""

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}
        self.mixed: set[str] = set()

    def observe(self, objects: Sequence[dict[str, Any] | None]) -> None:
        """Look at some objects (None: a row without one)."""
        values: dict[str, list[Any]] = {}
        for one in objects:
            for key, value in (one or {}).items():
                values.setdefault(key, []).append(value)
        for key, found in values.items():
            if key not in self.mixed:
                self._observe_key(key, found)

    def _observe_key(self, key: str, values: list[Any]) -> None:
        try:
            kind = pyarrow.array(values).type
            known = self._types.get(key, pyarrow.null())
            merged = _merged(known, kind)
        except _CANNOT:
            merged = None
        if merged is None:
            self.mixed.add(key)
            self._types[key] = pyarrow.string()
        else:
            self._types[key] = merged

    def fields(self) -> dict[str, Any]:
        """The type of each key, in order of appearance."""
        return {key: pyarrow.string() if key in self.mixed else _writable(kind) for key, kind in self._types.items()}

    def column(self, key: str, values: Sequence[Any]) -> Any:
        """The values of one key in its type."""
        if key in self.mixed:
            return pyarrow.array([None if value is None else to_json(value) for value in values], pyarrow.string())
        return pyarrow.array(values, self.fields()[key])


def to_json(value: object) -> str:
    """JSON text; what JSON does not know (dates, decimals, bytes) becomes text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _merged(known: Any, kind: Any) -> Any | None:
    """The one type that holds the values of both; None if there is none, or only one that would change a number."""
    if known.equals(kind):
        return kind
    schemas = [pyarrow.schema([pyarrow.field("x", one)]) for one in (known, kind)]
    merged = pyarrow.unify_schemas(schemas, promote_options="permissive").field("x").type
    before = max(str(known).count("double"), str(kind).count("double"))
    loses = str(merged).count("double") > min(str(known).count("double"), str(kind).count("double"))
    whole = "int64" in str(known) or "int64" in str(kind)
    return None if whole and before and loses else merged


def _writable(kind: Any) -> Any:
    """Parquet has no struct without fields, and a column of nothing but null reads as any type."""
    types = pyarrow.types
    if types.is_null(kind) or (types.is_struct(kind) and not kind.num_fields):
        return pyarrow.string()
    if types.is_list(kind):
        return pyarrow.list_(_writable(kind.value_type))
    if types.is_struct(kind):
        return pyarrow.struct([pyarrow.field(field.name, _writable(field.type)) for field in kind])
    return kind
