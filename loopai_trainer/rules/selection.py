"""Which checkpoint is the result: the deciding metric, its best step, and the checkpoint that fits that step.

Source: spec/001 "Result Analysis" and interface section 7 "Selection".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from loopai_trainer.errors import ConfigError
from loopai_trainer.records import BestMetric, Checkpoint, MetricKind, MetricRow, Mode, Selection
from loopai_trainer.rules.series import HELD_OUT, Columns, Point, Series, columns, diverged_from, latest, named

MODES: tuple[Mode, ...] = ("min", "max")

# In the order in which they are asked; each is the highest value.
_VALIDATION_SCORES = (
    "val-core/*/acc/mean@*",
    "val-core/*/reward/mean@*",
    "val-core/*/mean@*",
    "val_score",
    "*score*",
    "*reward*",
    "*acc*",
)
_TRAINING_SCORES = ("critic/score/mean", "critic/rewards/mean", "reward")

_NAMED_AT_MOST = 5


class _Deciding(NamedTuple):
    """The metric that decides. Not `configured`: the general rule found it."""

    series: Series
    mode: Mode
    configured: bool


class _Place(NamedTuple):
    """The checkpoint for a step, and how it lies to that step."""

    checkpoint: Checkpoint
    exact: bool
    how: str


def best(
    rows: Sequence[MetricRow],
    checkpoints: Sequence[Checkpoint],
    metric: str | None,
    mode: Mode | None,
    *,
    losses_decide: bool = True,
) -> Selection:
    """The checkpoint to use, and one sentence that says why.

    `metric`/`mode`: the approved YAML's (glob allowed), or None for the general rule: lowest eval_loss, else lowest
    training loss, else highest validation score or reward. `losses_decide` is False for reinforcement learning,
    whose losses say nothing about quality. Raises ConfigError for a mode other than min and max.
    """
    _refuse_unknown_mode(mode)
    history = latest(rows)
    diverged = diverged_from(history.rows)
    sound = columns(row for row in history.rows if diverged is None or row.step < diverged)
    deciding = _deciding(sound, metric, mode, losses_decide)
    usable = _usable(checkpoints, diverged)
    tail = _passed_over(checkpoints, usable)
    if metric is not None and (deciding is None or not deciding.configured):
        tail += f"; the configured metric '{metric}' matched no finite value"
    chosen = _without_metric(usable, diverged, tail) if deciding is None else _with_metric(usable, deciding, tail)
    warnings = [*_history_warnings(history.repeated, diverged, chosen.checkpoint), *chosen.warnings]
    return replace(chosen, warnings=tuple(warnings))


def _with_metric(usable: Sequence[Checkpoint], deciding: _Deciding, tail: str) -> Selection:
    point, warnings = _best_point(deciding)
    sources = dict(point.sources) if len(point.sources) > 1 else {}
    found = BestMetric(deciding.series.name, deciding.mode, point.value, point.step, sources)
    place = _place(usable, point.step)
    if place is None:
        reason = f"No checkpoint can be used: the {_metric_text(found)}{tail}."
        return Selection(None, found, False, reason, tuple(warnings))
    reason = f"{place.checkpoint.name} was chosen: {_metric_text(found)}, {place.how}{tail}."
    return Selection(place.checkpoint, found, place.exact, reason, (*warnings, *_pruned_best(deciding, usable, place)))


def _without_metric(usable: Sequence[Checkpoint], diverged: int | None, tail: str) -> Selection:
    """The newest; if all are suspect, the oldest of them, which had the least time to go wrong."""
    if not usable:
        return Selection(None, None, False, f"There is no usable checkpoint and no usable metric{tail}.")
    all_suspect = diverged is not None and usable[0].step >= diverged
    chosen, which = (usable[0], "oldest") if all_suspect else (usable[-1], "newest")
    reason = f"{chosen.name} was chosen: there is no usable metric, so the {which} complete checkpoint counts{tail}."
    return Selection(chosen, None, False, reason)


def _refuse_unknown_mode(mode: str | None) -> None:
    if mode is not None and mode not in MODES:
        raise ConfigError(
            f"result.selection_mode is '{mode}'", hint="write max or min, the only two ways to choose a best value"
        )


def _deciding(table: Columns, metric: str | None, mode: Mode | None, losses_decide: bool) -> _Deciding | None:
    if metric is not None:
        series = named(table, metric)
        if series is not None:
            return _Deciding(series, mode or _usual_mode(metric), True)
    # With several evaluation sets LLaMA-Factory writes eval_<name>_loss and no eval_loss: their mean stands for it.
    asked: list[tuple[str, tuple[MetricKind, ...], Mode]] = []
    if losses_decide:
        asked += [("eval_loss", HELD_OUT, "min"), ("eval_*_loss", HELD_OUT, "min"), ("loss", ("train",), "min")]
    asked += [(pattern, HELD_OUT, "max") for pattern in _VALIDATION_SCORES]
    asked += [(pattern, ("train",), "max") for pattern in _TRAINING_SCORES]
    for pattern, kinds, usual_mode in asked:
        series = named(table, pattern, kinds)
        if series is not None:
            return _Deciding(series, usual_mode, False)
    return None


def _usual_mode(metric: str) -> Mode:
    return "min" if "loss" in metric or "perplexity" in metric else "max"


def _best_point(deciding: _Deciding) -> tuple[Point, list[str]]:
    """The best point, the earliest of equals. Step 0 is the untrained model: no checkpoint can stand for it."""
    sign = 1.0 if deciding.mode == "min" else -1.0
    points = deciding.series.points
    trained = [point for point in points if point.step > 0] or list(points)
    chosen = min(trained, key=lambda point: (sign * point.value, point.step))
    overall = min(points, key=lambda point: (sign * point.value, point.step))
    if overall.step == chosen.step:
        return chosen, []
    name = deciding.series.name
    if overall.value == chosen.value:
        told = f"{name} never got better than the untrained model's ({overall.value:.6g} at step {overall.step})"
    else:
        told = f"the untrained model has the best {name} ({overall.value:.6g} at step {overall.step})"
    return chosen, [f"{told}: training did not help"]


def _usable(checkpoints: Iterable[Checkpoint], diverged: int | None) -> list[Checkpoint]:
    """Complete checkpoints by step; those at or after a diverged step only if there is no earlier one."""
    complete = sorted((c for c in checkpoints if c.complete), key=lambda checkpoint: checkpoint.step)
    if diverged is None:
        return complete
    return [c for c in complete if c.step < diverged] or complete


def _place(usable: Sequence[Checkpoint], step: int) -> _Place | None:
    """By numeric step: exact, else the nearest not after it, else the nearest; `usable` by step."""
    if not usable:
        return None
    before = [checkpoint for checkpoint in usable if checkpoint.step <= step]
    if before and before[-1].step == step:
        return _Place(before[-1], True, "saved at exactly that step")
    if before:
        nearest = before[-1]
        return _Place(
            nearest, False, f"the nearest complete checkpoint not after it is at step {nearest.step} (inexact)"
        )
    nearest = usable[0]
    return _Place(
        nearest, False, f"no complete checkpoint lies before it, the nearest is at step {nearest.step} (inexact)"
    )


def _pruned_best(deciding: _Deciding, usable: Sequence[Checkpoint], place: _Place) -> list[str]:
    """Whether a checkpoint that is left measured better than the chosen one, since the best step has none."""
    if place.exact:
        return []
    values = {point.step: point.value for point in deciding.series.points}
    own = values.get(place.checkpoint.step)
    if own is None:
        return []
    sign = 1.0 if deciding.mode == "min" else -1.0
    measured = [(sign * values[c.step], c.step, c.name) for c in usable if c.step in values]
    value, _, name = min(measured)
    if value >= sign * own:
        return []
    return [
        f"the best step has no checkpoint; of those that are left, {name} measured better than the chosen one "
        f"({deciding.series.name} {sign * value:.6g} against {own:.6g})"
    ]


def _history_warnings(repeated: Sequence[int], diverged: int | None, chosen: Checkpoint | None) -> list[str]:
    warnings = []
    if repeated:
        span = f"step {repeated[0]} occurs" if len(repeated) == 1 else f"steps {repeated[0]} to {repeated[-1]} occur"
        warnings.append(f"a resume was found: {span} more than once, the last line of each counts")
    if diverged is not None:
        warnings.append(
            f"diverged: from step {diverged} on the loss is not finite, or exactly 0.0 as when NaN was filtered out; "
            "that step and later ones were not considered"
        )
        if chosen is not None and chosen.step >= diverged:
            warnings.append(f"no checkpoint is older than that: the weights of {chosen.name} are probably broken")
    return warnings


def _metric_text(found: BestMetric) -> str:
    which = "lowest" if found.mode == "min" else "highest"
    text = f"{which} {found.name} {found.value:.6g} at step {found.step}"
    if not found.sources:
        return text
    parts = ", ".join(f"{source} {value:.6g}" for source, value in found.sources.items())
    return f"{text} (mean over {parts})"


def _passed_over(checkpoints: Iterable[Checkpoint], usable: Sequence[Checkpoint]) -> str:
    left_out = sorted((c for c in checkpoints if c not in usable), key=lambda checkpoint: checkpoint.step)
    if not left_out:
        return ""
    named_ones = ", ".join(f"{c.name} ({_why_not(c)})" for c in left_out[:_NAMED_AT_MOST])
    more = f" and {len(left_out) - _NAMED_AT_MOST} more" if len(left_out) > _NAMED_AT_MOST else ""
    return f"; passed over: {named_ones}{more}"


def _why_not(checkpoint: Checkpoint) -> str:
    return "training had diverged" if checkpoint.complete else checkpoint.why or "not complete"
