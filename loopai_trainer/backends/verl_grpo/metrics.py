"""Reads the lines of verl's file logger: {"step": int, "data": {name: number}}, null where a value was not finite.

Light on purpose: the worker polls it. Source: verl 0.9.1, utils/tracking.py.
"""

import json
import math
import os

from loopai_trainer.records import MetricRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from loopai_trainer.records import LaunchPaths, MetricKind, Mode, Plan

FATAL = ("actor/loss", "actor/grad_norm", "critic/score/mean")
"""Not finite, any of these says that the next weights are spoilt, or already are. Source: interface section 7."""

DEFAULT_METRIC = "val-core/*/acc/mean@*"
"""Source: spec/001 "Result Analysis" 1."""

_VALIDATION = "val-"
_BOOKKEEPING = "training/"


def metrics_file(paths: "LaunchPaths") -> str:
    """One file an attempt: verl truncates its file at every start, also on resume."""
    return os.path.join(paths.metrics, f"verl_metrics-{paths.attempt}.jsonl")


def read_metrics(lines: "Iterable[bytes]") -> list[MetricRow]:
    """Rows in file order: of one line first `train`, then `val` (names that begin with val-).

    null and text like "nan" become NaN. A line that is torn or no metric gives nothing.
    """
    return [row for line in lines for row in _rows(line)]


def lost(plan: "Plan", row: MetricRow) -> str:
    """Why training must not go on after this row; empty: it may."""
    names = [name for name in FATAL if row.kind == "train"]
    names += [name for name in row.values if row.kind == "val" and _selects(plan, name)]
    spoilt = [name for name in names if not math.isfinite(row.values.get(name, 0.0))]
    if not spoilt:
        return ""
    return (
        f"{', '.join(spoilt)} {'is' if len(spoilt) == 1 else 'are'} not finite at step {row.step}: "
        "what is trained from here on is of no use"
    )


def selection(plan: "Plan") -> "tuple[str | None, Mode | None]":
    """(metric, mode) of the approved YAML, spec/001's defaults where it says nothing.

    A mode other than min and max is given as it stands, for the general rule to refuse.
    """
    mode: Mode = plan.result.get("selection_mode") or "max"
    return str(plan.result.get("selection_metric") or DEFAULT_METRIC), mode


def _selects(plan: "Plan", name: str) -> bool:
    from fnmatch import fnmatchcase

    metric, _ = selection(plan)
    return metric is not None and (name == metric or fnmatchcase(name, metric))


def _rows(line: bytes) -> list[MetricRow]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return []
    step, data = (entry.get("step"), entry.get("data")) if isinstance(entry, dict) else (None, None)
    if not isinstance(step, int) or isinstance(step, bool) or not isinstance(data, dict):
        return []
    split: dict[MetricKind, dict[str, Any]] = {"train": {}, "val": {}}
    for name, value in data.items():
        split["val" if name.startswith(_VALIDATION) else "train"][name] = value
    # A validation line without training carries bookkeeping alone; it is no training point.
    if all(name.startswith(_BOOKKEEPING) for name in split["train"]):
        split["train"] = {}
    return [MetricRow(step, kind, values) for kind, found in split.items() if (values := _numbers(found))]


def _numbers(values: "Mapping[str, Any]") -> dict[str, float]:
    found = {name: _number(value) for name, value in values.items()}
    return {name: value for name, value in found.items() if value is not None}


def _number(value: object) -> float | None:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
