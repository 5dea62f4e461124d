"""The analysis of a run or of a bare output folder: metrics, checkpoints, and which checkpoint is the result."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.records import BestMetric, Checkpoint, MetricRow, Mode, Selection
from loopai_trainer.results import large_log, large_verl_log, metric_files, verl_tracker
from loopai_trainer.rules import selection
from loopai_trainer.rules.series import MEASURED, diverged_from, latest

TRAINER_LOG = "trainer_log.jsonl"
TRAINER_STATE = "trainer_state.json"
VERL_METRICS = "verl_metrics"
PLANNED = "total_steps"
"""A row's value that is the plan, no metric."""

_THINNING_KEEPS = (None, "loss", "eval_loss")


class Reader(Protocol):
    """The part of a backend that reads what training left."""

    @property
    def without_checkpoints(self) -> str:
        """What a run gives that makes no checkpoints; empty: each makes some."""

    def read_metrics(self, lines: Iterable[bytes]) -> list[MetricRow]:
        """Complete metric lines -> rows, in file order."""

    def find_checkpoints(self, folder: str) -> list[Checkpoint]:
        """All checkpoint folders, by step; damaged ones are listed as not complete."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How to choose: the approved YAML's metric and mode, or the general rule. See rules.selection.best."""

    metric: str | None = None
    mode: Mode | None = None
    losses_decide: bool = True


@dataclass(frozen=True, slots=True)
class Analysis:
    """What was found. `rows`: one a (kind, step), by step. `total_steps`: planned, if it is known.

    `left_out`: training lines of a very large log that are not among the rows.
    """

    path: str
    selection: Selection
    rows: tuple[MetricRow, ...]
    checkpoints: tuple[Checkpoint, ...]
    resumed: bool
    diverged: bool
    total_steps: int | None
    left_out: int
    warnings: tuple[str, ...]

    @property
    def last_step(self) -> int | None:
        """The last step that any metric was written for."""
        return max((row.step for row in self.rows), default=None)

    @property
    def measured(self) -> tuple[MetricRow, ...]:
        """The rows that are points of a curve: no closing summaries."""
        return tuple(row for row in self.rows if row.kind in MEASURED)

    @property
    def empty(self) -> bool:
        """Whether nothing at all was found."""
        return not self.rows and not self.checkpoints

    def data(self) -> dict[str, Any]:
        """The data of `analyze --json` (interface section 5): strict JSON, null where a value was not finite."""
        return {
            "run_dir": self.path,
            "best_checkpoint": chosen_json(self.selection),
            "best_metric": metric_json(self.selection.metric),
            "summary": self.summary(),
            "checkpoints": [checkpoint_json(checkpoint) for checkpoint in self.checkpoints],
            "metrics": [row_json(row) for row in self.rows],
        }

    def summary(self) -> dict[str, Any]:
        """The counts, the choice and its reason: spec/001's summary keys and ours."""
        chosen, metric = self.selection.checkpoint, self.selection.metric
        return {
            "best_metric": metric_json(metric),
            "best_metric_sources": dict(metric.sources) if metric else {},
            "best_checkpoint_name": chosen.name if chosen else None,
            "best_checkpoint_path": chosen.path if chosen else None,
            "checkpoint_count": len(self.checkpoints),
            "complete_checkpoint_count": sum(checkpoint.complete for checkpoint in self.checkpoints),
            "metric_count": len(self.measured) + self.left_out,
            "last_step": self.last_step,
            "total_steps": self.total_steps,
            "resumed": self.resumed,
            "diverged": self.diverged,
            "reason": self.selection.reason,
            "warnings": list(self.warnings),
        }


def analyze_folder(path: str, reader: Reader, rule: Rule | None = None) -> Analysis:
    """Analyse a run directory, or a folder that LLaMA-Factory or verl wrote; damaged files give less, never an error.

    Raises ConfigError if the rule's mode is neither min nor max.
    """
    run = RunDir(path)
    rule = rule or Rule()
    folders = [folder for folder in (run.path, run.checkpoints) if os.path.isdir(folder)]
    checkpoints = sorted((c for f in folders for c in reader.find_checkpoints(f)), key=lambda c: (c.step, c.path))
    state_rows, planned = _trainer_state(folders, checkpoints)
    at = frozenset(checkpoint.step for checkpoint in checkpoints)
    training_rows, left_out = _training_rows(run, folders, reader, rule, at)
    rows = _first_source_of_each_kind(
        training_rows,
        metric_files.normalised_rows(run.metric_rows),
        metric_files.legacy_rows(run.metrics_summary),
        state_rows,
    )
    # Steps that an earlier round trained: in the curve, but their checkpoints lie in that round's folder.
    earlier = metric_files.normalised_rows(run.earlier_metrics)
    history = latest([*earlier, *rows])
    resumed_at = max((row.step for row in earlier), default=None)
    # verl validates the step that it goes on from once more; no checkpoint of this folder stands for it.
    own = rows if resumed_at is None else [row for row in rows if row.step > resumed_at]
    chosen = selection.best(own, checkpoints, rule.metric, rule.mode, losses_decide=rule.losses_decide)
    if not checkpoints and reader.without_checkpoints:
        chosen = replace(chosen, reason=reader.without_checkpoints)
    return Analysis(
        path=run.path,
        selection=chosen,
        rows=history.rows,
        checkpoints=tuple(checkpoints),
        resumed=bool(history.repeated),
        diverged=diverged_from(history.rows) is not None,
        total_steps=_planned_steps(rows) or planned,
        left_out=left_out,
        warnings=(*chosen.warnings, *_tracker_warnings(folders, checkpoints)),
    )


def chosen_json(chosen: Selection) -> dict[str, Any] | None:
    """{"name", "step", "path", "exact"} of the chosen checkpoint, or None."""
    checkpoint = chosen.checkpoint
    if checkpoint is None:
        return None
    return {"name": checkpoint.name, "step": checkpoint.step, "path": checkpoint.path, "exact": chosen.exact}


def metric_json(metric: BestMetric | None) -> dict[str, Any] | None:
    """{"name", "mode", "value", "step"}, or None."""
    if metric is None:
        return None
    return {"name": metric.name, "mode": metric.mode, "value": metric.value, "step": metric.step}


def checkpoint_json(checkpoint: Checkpoint) -> dict[str, Any]:
    """{"name", "step", "path", "complete", "why"}; `why` is null for a complete one."""
    return {
        "name": checkpoint.name,
        "step": checkpoint.step,
        "path": checkpoint.path,
        "complete": checkpoint.complete,
        "why": None if checkpoint.complete else checkpoint.why or "not complete",
    }


def row_json(row: MetricRow) -> dict[str, Any]:
    """{"step", "attempt", "kind", "values"} as in metrics/metrics.jsonl; what is not finite is null."""
    return {"step": row.step, "attempt": row.attempt, "kind": row.kind, "values": values_json(row)}


def values_json(row: MetricRow) -> dict[str, float | None]:
    """The row's metrics; null for what is not finite."""
    return {name: value if math.isfinite(value) else None for name, value in row.values.items() if name != PLANNED}


def _training_rows(
    run: RunDir, folders: Sequence[str], reader: Reader, rule: Rule, at: Collection[int]
) -> tuple[list[MetricRow], int]:
    """(rows of the files that training itself wrote, oldest attempt first; number of lines left out of large ones)."""
    rows: list[MetricRow] = []
    left_out = 0
    for folder in folders:
        thinned = _thinned(os.path.join(folder, TRAINER_LOG), rule, at)
        if thinned is None:
            rows += metric_files.training_rows(os.path.join(folder, TRAINER_LOG), reader.read_metrics)
        else:
            rows += metric_files.read_lines(thinned.lines, reader.read_metrics)
            left_out += thinned.left_out
    for path, attempt in verl_metric_files(run.metrics):
        thinned = _thinned_verl(path, rule, at)
        if thinned is None:
            rows += metric_files.training_rows(path, reader.read_metrics, attempt)
        else:
            rows += metric_files.of_attempt(metric_files.read_lines(thinned.lines, reader.read_metrics), attempt)
            left_out += thinned.left_out
    return rows, left_out


def _thinned(path: str, rule: Rule, at: Collection[int]) -> large_log.Thinned | None:
    """Fewer lines of a large log, if the rule asks for nothing but what thinning keeps."""
    size = os.path.getsize(path) if os.path.isfile(path) else 0
    return large_log.thin(path, at) if size > large_log.LARGE_BYTES and rule.metric in _THINNING_KEEPS else None


def _thinned_verl(path: str, rule: Rule, at: Collection[int]) -> large_log.Thinned | None:
    """The same for verl's lines, of which thinning keeps those with a validation metric."""
    if os.path.getsize(path) <= large_log.LARGE_BYTES or not (rule.metric or "val-").startswith("val-"):
        return None
    return large_verl_log.thin(path, at)


def verl_metric_files(folder: str) -> list[tuple[str, int | None]]:
    """(path, attempt) of one file an attempt (verl truncates its file at every start), else the merged one."""
    found: list[tuple[int, str]] = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        stem, extension = os.path.splitext(name)
        attempt = stem.removeprefix(VERL_METRICS + "-")
        if extension == ".jsonl" and attempt != stem and attempt.isdigit():
            found.append((int(attempt), os.path.join(folder, name)))
    merged = os.path.join(folder, VERL_METRICS + ".jsonl")
    if not found and os.path.isfile(merged):
        return [(merged, None)]
    return [(path, attempt) for attempt, path in sorted(found)]


def _first_source_of_each_kind(*sources: Sequence[MetricRow]) -> list[MetricRow]:
    """For each kind the rows of the first source that has any: sources repeat each other, which is no resume."""
    rows: list[MetricRow] = []
    known: set[str] = set()
    for source in sources:
        fresh = [row for row in source if row.kind not in known]
        known.update(row.kind for row in fresh)
        rows += fresh
    return rows


def _trainer_state(folders: Sequence[str], checkpoints: Sequence[Checkpoint]) -> tuple[list[MetricRow], int | None]:
    """The newest readable trainer_state.json: the folder's own, else that of the newest checkpoint."""
    places = [*folders, *(checkpoint.path for checkpoint in reversed(checkpoints))]
    for place in places:
        rows, planned = metric_files.state_rows(os.path.join(place, TRAINER_STATE))
        if rows or planned is not None:
            return rows, planned
    return [], None


def _planned_steps(rows: Sequence[MetricRow]) -> int | None:
    """What the last line that says so tells: a resume may have changed the plan."""
    told = (row.values.get(PLANNED) for row in reversed(rows))
    return next((int(steps) for steps in told if steps is not None and math.isfinite(steps)), None)


def _tracker_warnings(folders: Iterable[str], checkpoints: Sequence[Checkpoint]) -> list[str]:
    """What verl's tracker file says, where it disagrees with the checkpoints that are complete."""
    complete: Mapping[int, bool] = {checkpoint.step: checkpoint.complete for checkpoint in checkpoints}
    warnings = []
    for folder in folders:
        step = verl_tracker.tracked_step(folder)
        if step is not None and not complete.get(step, False):
            state = "is not complete" if step in complete else "is not there"
            warnings.append(f"{verl_tracker.TRACKER} says {step}, but global_step_{step} {state}")
    return warnings
