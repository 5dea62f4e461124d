"""compare: several runs side by side, ranked by the one metric that all of them were chosen by, never by two."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from loopai_trainer.errors import TrainerError, UsageError
from loopai_trainer.files import atomic, result_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import targets
from loopai_trainer.operations.analyze import analyze
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.status import describe
from loopai_trainer.records import MetricRow
from loopai_trainer.rules import dotted, secrets
from loopai_trainer.rules import plan as plans
from loopai_trainer.worker.observe import observe

_NOT_COMPARED = ("output_dir", "dataset_dir", "trainer.default_local_dir", "trainer.rollout_data_dir")
"""Native keys that differ in any two runs because they name the run's own folders."""

_PAGE_START = b"<!doctype html"


def compare(versions: Sequence[str], scope: targets.Scope, page_path: str | None = None) -> Answer:
    """The runs in order of merit where they can be ranked, else as they were named, and why not.

    `page_path`: a file that gets all of it as an HTML page. Raises UsageError for fewer than two versions or one twice,
    or a file that is no such page already; NotFound for an unknown version.
    """
    if page_path is not None:
        _refuse_other_files(page_path)
    runs = [targets.find(version, scope) for version in versions]
    if len(runs) < 2:
        raise UsageError("compare needs two runs or more", hint="name them by version id; see `trainer list`")
    twice = next((run for run in runs if sum(run.path == other.path for other in runs) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice.version_id} is named twice", hint="name each run once")
    looked = [_look(run) for run in runs]
    metric, mode, why_not = _ranking([row for row, _ in looked])
    if metric:
        looked = sorted(looked, key=lambda one: _merit(one[0], mode))
        looked = [(row | {"not_ranked": _missing(row, metric)}, metrics) for row, metrics in looked]
    data = {
        "metric": metric,
        "mode": mode,
        "not_ranked": why_not or None,
        "runs": [row for row, _ in looked],
        "config_differences": differences(runs),
        "page_path": None if page_path is None else os.path.abspath(page_path),
    }
    message = _message(data)
    if page_path is not None:
        _write_page(page_path, [metrics for _, metrics in looked], data, message, scope)
    return Answer("compare", data, message=message)


def differences(runs: Sequence[RunDir]) -> list[dict[str, Any]]:
    """[{key, values: {version: value}}] of every key of the YAML whose value is not the same in all runs.

    Data and model are compared by their hashes; a run without a readable YAML has null everywhere.
    """
    found = {run.version_id: _values(run) for run in runs}
    keys = dict.fromkeys(key for values in found.values() for key in values)
    told = []
    for key in keys:
        values = {version: one.get(key) for version, one in found.items()}
        if any(value != next(iter(values.values())) for value in values.values()):
            told.append({"key": key, "values": values})
    return told


def _look(run: RunDir) -> tuple[dict[str, Any], list[MetricRow]]:
    """(the run's row, its metric rows)."""
    seen = observe(run)
    status = describe(run, seen)
    result = result_file.read(run) or {}
    row: dict[str, Any] = {
        "version_id": run.version_id,
        "run_dir": run.path,
        "status": status["status"],
        "not_ranked": None,
        "best_metric": None,
        "best_checkpoint_name": None,
        "best_step": None,
        "checkpoint_count": 0,
        "metric_count": 0,
        "duration_s": result.get("duration_s"),
        "last_error": (status.get("error") or {}).get("detail"),
    }
    try:
        found = analyze(run.path)
    except TrainerError:
        return row, []  # nothing was trained yet: its status says so
    summary = found["summary"]
    told = {
        "best_metric": summary["best_metric"],
        "best_checkpoint_name": summary["best_checkpoint_name"],
        "best_step": (found["best_checkpoint"] or {}).get("step"),
        "checkpoint_count": summary["checkpoint_count"],
        "metric_count": summary["metric_count"],
    }
    return row | told, [_metric_row(one) for one in found["metrics"]]


def _metric_row(one: Mapping[str, Any]) -> MetricRow:
    values = {name: value for name, value in one["values"].items() if value is not None}
    return MetricRow(one["step"], one["kind"], values, one["attempt"])


def _refuse_other_files(path: str) -> None:
    """A page may be written again; any other file that is there is somebody's work, a run's YAML perhaps."""
    try:
        with open(path, "rb") as file:
            is_page = file.read(len(_PAGE_START)).lower() == _PAGE_START
    except FileNotFoundError:
        return
    except OSError as fault:
        raise UsageError(f"{path} cannot be written: {fault.strerror}", hint="name another file with --html") from None
    if not is_page:
        raise UsageError(f"{path} is there already and is no HTML page", hint="name another file with --html")


def _write_page(
    path: str, metrics: Sequence[Sequence[MetricRow]], data: Mapping[str, Any], message: str, scope: targets.Scope
) -> None:
    from loopai_trainer.results import comparison_page  # most calls write no page

    clean = secrets.redacted_value(dict(data), secrets.environment_values(scope.environ))
    runs = [comparison_page.Compared(row, rows) for row, rows in zip(clean["runs"], metrics, strict=True)]
    try:
        atomic.write_text(os.path.abspath(path), comparison_page.render(runs, message, clean["config_differences"]))
    except OSError as fault:
        raise UsageError(f"{path} cannot be written: {fault.strerror}", hint="name another file with --html") from None


def _ranking(rows: Sequence[Mapping[str, Any]]) -> tuple[str | None, str | None, str]:
    """(metric, mode, '') if one metric decides in all runs that have one; else (None, None, why not)."""
    chosen = {(row["best_metric"]["name"], row["best_metric"]["mode"]) for row in rows if row["best_metric"]}
    if not chosen:
        return None, None, "no run has a metric yet"
    if len(chosen) > 1:
        names = ", ".join(sorted(f"{name} ({mode})" for name, mode in chosen))
        return None, None, f"the runs were chosen by different metrics: {names}"
    name, mode = chosen.pop()
    return name, mode, ""


def _missing(row: Mapping[str, Any], metric: str) -> str | None:
    """Why the run has no place among the others; None: it has one."""
    return None if row["best_metric"] else f"it is {row['status']} and has no {metric}"


def _message(data: Mapping[str, Any]) -> str:
    if not data["metric"]:
        return f"not ranked: {data['not_ranked']}"
    left_out = [f"{row['version_id']} ({row['not_ranked']})" for row in data["runs"] if row["not_ranked"]]
    return f"ranked by {data['metric']} ({data['mode']})" + (f"; not ranked: {', '.join(left_out)}" if left_out else "")


def _merit(row: Mapping[str, Any], mode: str | None) -> tuple[bool, float]:
    best = row["best_metric"]
    if not best:
        return True, 0.0
    return False, -best["value"] if mode == "max" else best["value"]


def _values(run: RunDir) -> dict[str, Any]:
    for path in (run.approved_config, run.config):
        try:
            with open(path, "rb") as file:
                plan = plans.read(file.read(), path)
        except (OSError, TrainerError):
            continue
        inputs = plan.loopai["inputs"]
        told = {
            "framework": f"{plan.framework}/{plan.stage}",
            "backend": f"{plan.loopai['backend']['package']} {plan.loopai['backend']['version']}",
            **({"model": inputs["model"]["fingerprint"]} if inputs.get("model") else {}),
            **{f"{name} data": inputs[name]["sha256"] for name in ("train", "validation") if inputs.get(name)},
            **{f"loopai.{key}": value for key, value in dotted.leaves({"launch": plan.loopai["launch"]})},
            **dict(dotted.leaves({"result": dict(plan.result)})),
        }
        native = dict(dotted.leaves(plan.native))
        return told | {key: value for key, value in native.items() if not _names_own_folder(key, value, run)}
    return {}


def _names_own_folder(key: str, value: object, run: RunDir) -> bool:
    return key in _NOT_COMPARED or (isinstance(value, str) and value.startswith(run.path))
