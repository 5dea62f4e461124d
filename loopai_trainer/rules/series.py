"""Metric rows as series: the last line of a step counts, globs name series, and a diverged tail is recognised."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from loopai_trainer.records import MetricKind, MetricRow

MEASURED: tuple[MetricKind, ...] = ("train", "eval", "val")
HELD_OUT: tuple[MetricKind, ...] = ("eval", "val")

Columns = Mapping[MetricKind, Mapping[str, Mapping[int, float]]]
"""kind -> name -> step -> finite value."""

_NOT_MEASURED = frozenset({"epoch", "lr", "learning_rate", "total_steps"})
# Non-finite to the end of the run, these say that the weights are gone. Source: interface section 7 for verl's names.
_HEALTH = ("loss", "grad_norm", "eval_loss", "actor/loss", "actor/grad_norm", "critic/score/mean")
# Read from the right, because a data source may hold '/'. Source: verl 0.9.1, trainer_base.py.
_VALIDATION_KEY = re.compile(r"val-[^/]+/(?P<source>.+)/(?P<variable>[^/]+)/(?P<stat>[a-z]+)@(?P<n>\d+)(/[a-z]+)?")
_VARIABLE_RANK = {"acc": 2, "reward": 1}


class Point(NamedTuple):
    """A step's value; `sources` has the value of each data source that it is the mean of."""

    step: int
    value: float
    sources: Mapping[str, float]


class Series(NamedTuple):
    """Finite values by step, ascending. `name` is the key, or the glob when several data sources are averaged."""

    name: str
    points: tuple[Point, ...]


class Latest(NamedTuple):
    """Rows by step, one for a (kind, step). `repeated`: the steps that a resume wrote again, ascending."""

    rows: tuple[MetricRow, ...]
    repeated: tuple[int, ...]


def latest(rows: Iterable[MetricRow]) -> Latest:
    """Keep what was written last for each (kind, step): the earlier line belongs to weights that were overwritten.

    Lines of one attempt that name different metrics of a step complete each other (one line an evaluation set).
    """
    kept: dict[tuple[str, int], MetricRow] = {}
    repeated: set[int] = set()
    for row in rows:
        if not row.values:
            continue
        key = (row.kind, row.step)
        before = kept.get(key)
        if before is None:
            kept[key] = row
            continue
        if _written_again(before, row):
            repeated.add(row.step)
        kept[key] = _completed(before, row) if row.attempt == before.attempt else row
    return Latest(tuple(sorted(kept.values(), key=_step)), tuple(sorted(repeated)))


def columns(rows: Iterable[MetricRow]) -> Columns:
    """The finite values, by kind, name and step."""
    table: dict[MetricKind, dict[str, dict[int, float]]] = {kind: {} for kind in MEASURED}
    for row in rows:
        names = table.get(row.kind)
        if names is None:
            continue
        for name, value in row.values.items():
            if math.isfinite(value):
                names.setdefault(name, {})[row.step] = value
    return table


def named(table: Columns, pattern: str, kinds: Collection[MetricKind] = MEASURED) -> Series | None:
    """The series that `pattern` (a key or a glob) names; None if no finite value matches.

    Several matching keys: one speaks for each data source (`mean@N` with the largest N), and the value is the
    mean over the sources. A step that lacks a source is no point: its mean would not be comparable.
    """
    merged: dict[str, dict[int, float]] = {}
    for kind in kinds:
        for name, values in table[kind].items():
            if name == pattern or fnmatchcase(name, pattern):
                merged[name] = {**merged.get(name, {}), **values}
    found = {pattern: merged[pattern]} if pattern in merged else merged
    if not found:
        return None
    speakers = _speakers(found)
    steps = set.intersection(*(set(found[name]) for name in speakers.values()))
    points = [_mean(step, {source: found[name][step] for source, name in speakers.items()}) for step in sorted(steps)]
    label = next(iter(speakers.values())) if len(speakers) == 1 else pattern
    return Series(label, tuple(points)) if points else None


def diverged_from(rows: Sequence[MetricRow]) -> int | None:
    """The first step whose weights cannot be trusted; `rows` as `latest` gives them. None: nothing suspicious.

    A training loss of exactly 0.0 after positive values is a NaN that the framework's logging filter hid.
    Source: transformers 5.6 `logging_nan_inf_filter`, default true. A non-finite value counts only if it stays so to
    the end and no finite loss follows: one bad batch or an evaluation set without labels does not spoil the weights.
    """
    starts = [_hidden_nan(rows)]
    last_good = max((row.step for row in rows if row.kind == "train" and _is_good(row.values.get("loss"))), default=-1)
    for name in _HEALTH:
        start = _non_finite_tail(rows, name)
        starts.append(start if start is not None and start >= last_good else None)
    return min((start for start in starts if start is not None), default=None)


def _hidden_nan(rows: Sequence[MetricRow]) -> int | None:
    seen_positive = False
    for row in rows:
        loss = row.values.get("loss") if row.kind == "train" else None
        if loss is None:
            continue
        if loss == 0.0 and seen_positive:
            return row.step
        seen_positive = seen_positive or _is_good(loss)
    return None


def _non_finite_tail(rows: Sequence[MetricRow], name: str) -> int | None:
    start: int | None = None
    seen_finite = name != "eval_loss"
    for row in rows:
        value = row.values.get(name) if row.kind != "summary" else None
        if value is None:
            continue
        if math.isfinite(value):
            start, seen_finite = None, True
        elif start is None and seen_finite:
            start = row.step
    return start


def _speakers(names: Iterable[str]) -> dict[str, str]:
    """Data source -> the key that speaks for it."""
    best: dict[str, tuple[tuple[bool, int, int, str], str]] = {}
    for name in names:
        match = _VALIDATION_KEY.fullmatch(name)
        source = match["source"] if match else name
        rank = (False, 0, 0, "")
        if match:
            variable = match["variable"]
            rank = (match["stat"] == "mean", _VARIABLE_RANK.get(variable, 0), int(match["n"]), variable)
        if source not in best or rank > best[source][0]:
            best[source] = (rank, name)
    return {source: name for source, (_, name) in sorted(best.items())}


def _mean(step: int, sources: dict[str, float]) -> Point:
    # Divided before the sum: the sum of two huge finite values would be infinite.
    count = len(sources)
    value = next(iter(sources.values())) if count == 1 else math.fsum(value / count for value in sources.values())
    return Point(step, value, sources)


def _written_again(before: MetricRow, row: MetricRow) -> bool:
    common = (before.values.keys() & row.values.keys()) - _NOT_MEASURED
    if row.kind == "summary" or not common:
        return False
    # An evaluation that is logged twice without training in between says the same both times.
    return row.kind == "train" or any(not _same(before.values[name], row.values[name]) for name in common)


def _same(first: float, second: float) -> bool:
    return first == second or (math.isnan(first) and math.isnan(second))


def _completed(before: MetricRow, row: MetricRow) -> MetricRow:
    return MetricRow(row.step, row.kind, {**before.values, **row.values}, row.attempt)


def _is_good(loss: float | None) -> bool:
    return loss is not None and math.isfinite(loss) and loss > 0.0


def _step(row: MetricRow) -> int:
    return row.step
