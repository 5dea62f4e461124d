"""The page of `compare --html`: several runs, their curves over each other, and what differs in their plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from loopai_trainer.records import MetricRow
from loopai_trainer.results import curve, page_curves, points
from loopai_trainer.results.html_text import Html, element, escaped, section, table
from loopai_trainer.results.page_frame import document
from loopai_trainer.results.run_page import DRAWN, NOT_DRAWN

_HASH_SHOWN = 12
_NAME_LENGTH = 16


class Compared(NamedTuple):
    """One run: its row of `compare --json` and its metric rows."""

    row: Mapping[str, Any]
    metrics: Sequence[MetricRow]


def render(runs: Sequence[Compared], message: str, differences: Sequence[Mapping[str, Any]]) -> str:
    """The page, without secrets if its arguments have none. Runs stand in the order given; `message` says why so."""
    names = short_names([str(run.row["version_id"]) for run in runs])
    title = f"Comparison of {len(runs)} runs"
    drawn = page_curves.drawing(
        page_curves.together([(name, page_curves.panels(run.metrics)) for name, run in zip(names, runs, strict=True)])
    )
    ranked = message.startswith("ranked")
    body = [
        element("h1", title),
        element("p", message),
        table(_HEAD, [_cells(run.row) for run in runs], marked=0 if ranked and runs[0].row["best_metric"] else None),
        section("Curves", DRAWN if drawn else _as_text(runs)),
        section("What differs in the plans", _differences(runs, names, differences)),
        section("Errors", [_error(run.row) for run in runs if run.row["last_error"]]),
    ]
    return document(title, escaped(body), drawn)


_HEAD = ("version", "status", "best", "checkpoint", "step", "checkpoints", "metric rows", "took, s", "folder")


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    best = row["best_metric"]
    return (
        row["version_id"],
        element("span", row["status"], class_=row["status"]),
        "-" if best is None else f"{best['name']} = {best['value']:.6g}",
        row["best_checkpoint_name"] or "-",
        "-" if row["best_step"] is None else row["best_step"],
        row["checkpoint_count"],
        row["metric_count"],
        "-" if row["duration_s"] is None else f"{row['duration_s']:.0f}",
        element("code", row["run_dir"]),
    )


def short_names(versions: Sequence[str]) -> list[str]:
    """Long version ids by their ends, as much as tells them apart: ids that are sortable by time begin alike."""
    if all(len(version) <= _NAME_LENGTH for version in versions):
        return list(versions)
    kept = next(n for n in range(8, 65) if len({version[-n:] for version in versions}) == len(set(versions)))
    return [version if len(version) <= kept else "\u2026" + version[-kept:] for version in versions]


def _differences(runs: Sequence[Compared], names: Sequence[str], differences: Sequence[Mapping[str, Any]]) -> Html:
    if not differences:
        return element("p", "The plans do not differ.")
    versions = [run.row["version_id"] for run in runs]
    rows = [
        (element("code", one["key"]), *(_value(one["values"].get(version)) for version in versions))
        for one in differences
    ]
    return table(("key", *names), rows)


def _value(value: object) -> str:
    text = "-" if value is None else str(value)
    is_hash = len(text) == 64 and all(character in "0123456789abcdef" for character in text)
    return text[:_HASH_SHOWN] if is_hash else text


def _error(row: Mapping[str, Any]) -> Html:
    return escaped(
        [element("h3", row["version_id"]), element("div", element("p", row["last_error"]), class_="box failure")]
    )


def _as_text(runs: Sequence[Compared]) -> Html:
    found = [(run.row["version_id"], curve.draw(points.curves(run.metrics))) for run in runs]
    told = [[element("h3", name), element("pre", text)] for name, text in found if text]
    return escaped([told, NOT_DRAWN]) if told else element("p", "No run has logged a curve.")
