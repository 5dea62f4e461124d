"""training_report.md: what came out of a run and why, for people. Pure text; who calls it writes it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopai_trainer.errors import TrainerError
from loopai_trainer.records import MetricRow, Plan
from loopai_trainer.results.analysis import PLANNED, Analysis
from loopai_trainer.results.outcome import Ending, Status

METRIC_ROWS = 30
"""Rows of the metric table; more belong into a picture."""
_COLUMNS = 8
_FIRST_COLUMNS = (
    *("loss", "eval_loss", "lr", "learning_rate", "grad_norm"),
    *("critic/score/mean", "actor/loss", "actor/grad_norm"),
)
_NEXT_COLUMNS = ("val-core/", "val")
"""Beginnings of names: what verl calls its main validation metrics, then the other ones."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that the report tells. `settings`: name -> value in reading order. `picture`: what loss.png is."""

    plan: Plan
    analysis: Analysis
    ending: Ending
    status: Status
    error: TrainerError | None
    settings: Mapping[str, Any]
    curve: str
    picture: str


def render(report: Report) -> str:
    """The whole report as Markdown."""
    sections = [
        _head(report),
        _failure(report.error),
        _choice(report.analysis),
        _curve(report),
        _checkpoints(report.analysis),
        _metrics(report.analysis.measured),
        _data(report.plan),
        _settings(report.settings),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def clock(seconds: float) -> str:
    """Seconds since the epoch as UTC text, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; text that would break it is escaped."""
    lines = [_line(head), _line(["---"] * len(head)), *(_line(row) for row in rows)]
    return "\n".join(lines)


def _head(report: Report) -> str:
    plan, ending, analysis = report.plan, report.ending, report.analysis
    planned = ending.planned_steps or analysis.total_steps
    rows = [
        ("status", report.status),
        ("task", plan.task_id),
        ("version", plan.version_id),
        ("framework", f"{plan.framework}/{plan.stage}"),
        ("steps", f"{analysis.last_step or 0} of {planned if planned is not None else 'unknown'}"),
        ("duration", f"{ending.duration_s:.1f} s"),
        ("started", clock(ending.started_at)),
        ("ended", clock(ending.ended_at)),
        ("approved YAML, SHA-256", plan.sha256),
    ]
    return f"# Training report: {plan.version_id}\n\n{table(('', ''), rows)}"


def _failure(error: TrainerError | None) -> str:
    if error is None:
        return ""
    lines = ["## Why it did not complete", "", f"**{error.code}**: {_text(error.message)}"]
    if error.hint:
        lines += ["", f"What to do: {_text(error.hint)}"]
    if error.problems:
        lines += ["", "Found:", "", *(f"- {problem.code}: {_text(problem.message)}" for problem in error.problems)]
    return "\n".join(lines)


def _choice(analysis: Analysis) -> str:
    chosen = analysis.selection.checkpoint
    lines = ["## Chosen checkpoint", "", _text(analysis.selection.reason)]
    if chosen is not None:
        lines += ["", f"`{chosen.path}`"]
    if analysis.warnings:
        lines += ["", *(f"- Warning: {_text(warning)}" for warning in analysis.warnings)]
    return "\n".join(lines)


def _curve(report: Report) -> str:
    if not report.curve:
        return ""
    return f"## Curve\n\n```text\n{report.curve}\n```\n\nloss.png: {report.picture}."


def _checkpoints(analysis: Analysis) -> str:
    if not analysis.checkpoints:
        return "## Checkpoints\n\nNone was saved."
    chosen = analysis.selection.checkpoint
    rows = [
        (f"{c.name}{' (chosen)' if c == chosen else ''}", c.step, "yes" if c.complete else f"no: {c.why}")
        for c in analysis.checkpoints
    ]
    return f"## Checkpoints\n\n{table(('checkpoint', 'step', 'complete'), rows)}"


def _metrics(rows: Sequence[MetricRow]) -> str:
    if not rows:
        return "## Metrics\n\nTraining logged none."
    head, body, note = metric_table(rows)
    return f"## Metrics\n\n{table(head, body)}" + (f"\n\n{note}" if note else "")


def metric_table(rows: Sequence[MetricRow]) -> tuple[tuple[str, ...], list[tuple[object, ...]], str]:
    """(column names, cells of at most METRIC_ROWS rows, what was left out) of the metrics that matter most."""
    shown = evenly(rows, METRIC_ROWS)
    names = {name for row in shown for name in row.values if name != PLANNED}
    ordered = [name for name in _FIRST_COLUMNS if name in names]
    ordered += sorted(names - set(ordered), key=lambda name: (*(not name.startswith(x) for x in _NEXT_COLUMNS), name))
    ordered = ordered[:_COLUMNS]
    body: list[tuple[object, ...]] = [
        (row.step, row.kind, *(_number(row.values.get(name)) for name in ordered)) for row in shown
    ]
    note = f"{len(shown)} of {len(rows)} rows; all are in metrics/metrics.jsonl." if len(shown) < len(rows) else ""
    return ("step", "kind", *ordered), body, note


def _data(plan: Plan) -> str:
    inputs: Mapping[str, Any] = plan.loopai.get("inputs") or {}
    rows = []
    for name in ("train", "validation"):
        entry = inputs.get(name)
        if isinstance(entry, Mapping):
            source = entry.get("source") or {}
            rows.append((name, entry.get("rows"), entry.get("rejected", 0), source.get("path") or entry.get("path")))
    return f"## Data\n\n{table(('split', 'rows', 'rejected', 'source'), rows)}" if rows else ""


def _settings(settings: Mapping[str, Any]) -> str:
    return f"## Settings\n\n{table(('setting', 'value'), settings.items())}" if settings else ""


def evenly(rows: Sequence[MetricRow], limit: int) -> list[MetricRow]:
    """At most `limit` (2 or more) rows, evenly spread, the first and last among them; half of it for held-out rows."""
    if len(rows) <= limit:
        return list(rows)
    kept = {0, len(rows) - 1}
    held_out = [index for index, row in enumerate(rows) if row.kind != "train" and index not in kept]
    kept.update(_spread(held_out, (limit - len(kept)) // 2))
    others = [index for index in range(len(rows)) if index not in kept]
    kept.update(_spread(others, limit - len(kept)))
    return [rows[index] for index in sorted(kept)]


def _spread(indices: Sequence[int], limit: int) -> list[int]:
    if len(indices) <= limit:
        return list(indices)
    return [indices[position * len(indices) // limit] for position in range(limit)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(_text("" if cell is None else str(cell)).replace("|", "\\|") for cell in cells) + " |"


def _text(text: str) -> str:
    return " ".join(text.split())
