"""Reads metric lines: the driver's {"step", "kind", "values"}, for grpo those of verl's file logger {"step", "data"}.

Light on purpose: the worker polls it.
"""

import json
import math

from loopai_trainer.records import MetricRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from loopai_trainer.records import MetricKind

_KINDS = ("train", "val", "summary")
_VALIDATION = "val"
_BOOKKEEPING = "training/global_step"


def read_metrics(lines: "Iterable[bytes]") -> list[MetricRow]:
    """Rows in file order; a line that is torn or no metric gives nothing."""
    return [row for line in lines for row in _rows(line)]


def _rows(line: bytes) -> list[MetricRow]:
    try:
        entry: Any = json.loads(line)
    except (ValueError, RecursionError):
        return []
    step = entry.get("step") if isinstance(entry, dict) else None
    if not isinstance(step, int) or isinstance(step, bool):
        return []
    if isinstance(entry.get("data"), dict):
        held = {name: value for name, value in entry["data"].items() if name.startswith(_VALIDATION)}
        rest = {name: value for name, value in entry["data"].items() if name not in held}
        trained = {} if all(name.startswith(_BOOKKEEPING) for name in rest) else rest
        return [*_row(step, "train", trained), *_row(step, "val", held)]
    return _row(step, entry["kind"], entry.get("values")) if entry.get("kind") in _KINDS else []


def _row(step: int, kind: "MetricKind", values: object) -> list[MetricRow]:
    found = values if isinstance(values, dict) else {}
    numbers = {str(name): number for name, value in found.items() if (number := _number(value)) is not None}
    return [MetricRow(step, kind, numbers)] if numbers else []


def _number(value: object) -> float | None:
    """null stands for what was not finite."""
    if value is None:
        return math.nan
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
