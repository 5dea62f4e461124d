"""What the worker does after training has ended: judge, choose, and write metrics.json, picture and report.

Idempotent: everything is made from the run's files, so a second call gives the same result.
"""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from loopai_trainer.contract import Backend, Judges
from loopai_trainer.errors import ConfigError, InputChanged, TrainerError
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.records import Artefact, Checkpoint, MetricRow, Plan, Problem
from loopai_trainer.results import curve, metric_files, picture, points, report
from loopai_trainer.results.analysis import (
    VERL_METRICS,
    Analysis,
    Rule,
    analyze_folder,
    checkpoint_json,
    chosen_json,
    metric_json,
    values_json,
    verl_metric_files,
)
from loopai_trainer.results.outcome import Ending, Evidence, Status, judge
from loopai_trainer.rules import cluster, secrets

LOG_TAIL_BYTES = 512 * 1024
METRIC_ROWS = 10_000
"""Rows in metrics.json, which other tools read whole; metrics.jsonl has them all."""
STEP_LOSSES = 1000
ADAPTER_REMARK = "the result is an adapter: it needs its base model, or trainer export, to be loaded alone"

_log = logging.getLogger(__name__)

ChangedInputs = Callable[[], Sequence[Problem]]
"""Looks at the approved inputs again; a finding for each that differs."""


class Exported(Protocol):
    """What an export came to: `path` of a model folder, else `failed` says why; not `needed`: it was one already."""

    path: str | None
    failed: str
    needed: bool


Export = Callable[[Checkpoint], Exported]
"""Makes a model folder of the chosen checkpoint."""


def finish(
    run: RunDir, plan: Plan, backend: Backend, ending: Ending, changed_inputs: ChangedInputs, export: Export
) -> dict[str, Any]:
    """The content of worker_result.json (interface section 5, final `run-prepared` data), strict JSON.

    Writes metrics/metrics.json (SFT), loss.png, training_report.md and report.html on the way; if one of them cannot
    be written (disk full), that is a warning, not the run's failure. A failed export is `result.export: failed`, no
    failed run.
    """
    analysis, rule_error = _analysis(run, plan, backend)
    evidence = Evidence(
        judged_by=backend.judged_by,
        analysis=analysis,
        artefact=backend.final_artefact(run.checkpoints),
        changed=_changed(changed_inputs),
        explain=lambda: _explained(plan, backend, log_tail(run)),
        own=_own_verdict(run, plan, backend),
    )
    status, error = judge(ending, evidence)
    if rule_error is not None and error is None:
        status, error = "failed", rule_error
    path, remarks = _update_model_path(status, analysis, evidence.artefact) if backend.makes_model else (None, [])
    exported, path, more = _exported(plan, status, analysis, export, path)
    if path is not None and os.path.isfile(os.path.join(path, "adapter_config.json")):
        remarks.append(ADAPTER_REMARK)
    analysis = replace(analysis, warnings=(*analysis.warnings, *ending.remarks, *remarks, *more))
    result = {**_write_files(run, plan, backend, ending, analysis, status, error), **exported}
    return {
        "task_id": plan.task_id,
        "trainer_version_id": plan.version_id,
        "status": status,
        "config_sha256": plan.sha256,
        "run_dir": run.path,
        "best_checkpoint": chosen_json(analysis.selection),
        "best_metric": metric_json(analysis.selection.metric),
        "update_model_path": path,
        "checkpoints": [checkpoint_json(checkpoint) for checkpoint in analysis.checkpoints],
        "result": {"status": status, **analysis.summary(), **result, **_other_result(backend, evidence.artefact)},
        "error": None if error is None else error_json(error),
        "duration_s": ending.duration_s,
        "started_at": report.clock(ending.started_at),
        "ended_at": report.clock(ending.ended_at),
        "training_step_losses": step_losses(analysis.measured),
    }


def _explained(plan: Plan, backend: Backend, tail: Sequence[str]) -> tuple[str, str] | None:
    lost = cluster.failure(tail) if cluster.on_cluster(plan.loopai["launch"]) else None
    return lost or backend.explain_failure(tail)


def error_json(error: TrainerError) -> dict[str, Any]:
    """The error of worker_result.json: {type, code, detail, recoverable, hint, problems}."""
    return {
        **error.brief(),
        "problems": [
            {name: getattr(problem, name) for name in ("severity", "code", "where", "path", "message", "hint")}
            for problem in error.problems
        ],
    }


def log_tail(run: RunDir) -> list[str]:
    """The last lines of training's output, progress bars (carriage returns) taken apart; over a log rotation too.

    What looks like a secret, or is one of this environment's, is taken out: causes of failures are quoted from here.
    """
    newest = metric_files.tail(run.train_log, LOG_TAIL_BYTES)
    if sum(map(len, newest)) < LOG_TAIL_BYTES // 2:
        newest = [*metric_files.tail(run.train_log + ".1", LOG_TAIL_BYTES), *newest]
    text = b"\n".join(newest).decode("utf-8", "replace")
    hidden = secrets.environment_values(os.environ)
    return [secrets.redacted(line, hidden) for line in re.split(r"[\r\n]+", text) if line.strip()]


def step_losses(rows: Sequence[MetricRow]) -> list[dict[str, Any]]:
    """[{step, loss, eval_loss}] by step, LoopAI's training_step_losses; null: there is none, or not finite."""
    merged: dict[int, dict[str, float]] = {}
    for row in rows:
        told = {name: row.values[name] for name in ("loss", "eval_loss") if name in row.values}
        if told:
            merged.setdefault(row.step, {}).update(told)
    found = [MetricRow(step, "eval" if "eval_loss" in told else "train", told) for step, told in sorted(merged.items())]
    return [
        {"step": row.step, **{name: _finite(row.values.get(name)) for name in ("loss", "eval_loss")}}
        for row in report.evenly(found, STEP_LOSSES)
    ]


def metrics_document(run: RunDir, ending: Ending, analysis: Analysis) -> dict[str, Any]:
    """metrics/metrics.json in the form that LoopAI's tools read: {task_info, metrics: [{step, loss, ...}]}."""
    epochs = [row.values["epoch"] for row in analysis.rows if math.isfinite(row.values.get("epoch", math.nan))]
    return {
        "task_info": {
            "log_path": run.train_log,
            "total_steps": ending.planned_steps or analysis.total_steps,
            "total_epochs": max(epochs, default=None),
            "start_time": report.clock(ending.started_at),
            "last_updated": report.clock(ending.ended_at),
            "total_metrics": len(analysis.measured),
        },
        "metrics": [{"step": row.step, **values_json(row)} for row in report.evenly(analysis.measured, METRIC_ROWS)],
    }


def merge_verl_metrics(run: RunDir) -> None:
    """metrics/verl_metrics.jsonl, which LoopAI's tools read: the files of all attempts, one after the other."""
    paths = [path for path, attempt in verl_metric_files(run.metrics) if attempt is not None]
    if not paths:
        return
    merged = os.path.join(run.metrics, VERL_METRICS + ".jsonl")
    fd = os.open(merged + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, atomic.PRIVATE)
    with open(fd, "wb") as target:
        for path in paths:
            with open(path, "rb") as source:
                shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(fd)
    os.replace(merged + ".new", merged)


def _analysis(run: RunDir, plan: Plan, backend: Backend) -> tuple[Analysis, ConfigError | None]:
    """The analysis by the plan's rule; by the general rule, and the error, if the plan's is not allowed."""
    metric, mode = backend.selection(plan)
    losses_decide = backend.losses_decide
    try:
        return analyze_folder(run.path, backend, Rule(metric, mode, losses_decide)), None
    except ConfigError as error:
        return analyze_folder(run.path, backend, Rule(losses_decide=losses_decide)), error


def _exported(
    plan: Plan, status: Status, analysis: Analysis, export: Export, path: str | None
) -> tuple[dict[str, str], str | None, list[str]]:
    """(what the result says of the export, the model to go on with, remarks) for a run that ended so."""
    chosen = analysis.selection.checkpoint
    if status != "completed" or chosen is None or not plan.result.get("export_huggingface"):
        return {"export": "none"}, path, []
    made = export(chosen)
    if not made.failed:
        return {"export": "done" if made.needed else "none"}, made.path, []
    remark = f"the export of {chosen.name} failed: {made.failed}; the checkpoint is whole: see trainer export"
    return {"export": "failed", "export_error": made.failed}, None, [remark]


def _other_result(backend: Backend, artefact: Artefact | None) -> dict[str, Any]:
    """Where the result lies that is no model; nothing for a backend whose results are models."""
    if backend.makes_model:
        return {}
    return {"artefact_path": artefact.path if artefact is not None and artefact.loadable else None}


def _own_verdict(run: RunDir, plan: Plan, backend: Backend) -> tuple[tuple[str, str], ...]:
    """What the backend's own records say against a good end."""
    found = backend.verdict_problems(plan, run.path) if isinstance(backend, Judges) else []
    return tuple((problem.code, problem.message) for problem in found if problem.severity == "error")


def _changed(changed_inputs: ChangedInputs) -> tuple[Problem, ...]:
    """What differs from the approved inputs; what cannot be looked at counts as changed."""
    try:
        return tuple(changed_inputs())
    except (OSError, InputChanged) as error:
        path = str(error.filename) if isinstance(error, OSError) and error.filename else None
        return (Problem("error", "INPUT_CHANGED", "config", str(error), path=path),)


def _update_model_path(status: Status, analysis: Analysis, artefact: Artefact | None) -> tuple[str | None, list[str]]:
    """The model to go on with; null unless the run completed."""
    if status != "completed":
        return None, []
    chosen = analysis.selection.checkpoint
    path = chosen.path if chosen is not None else artefact.path if artefact is not None else None
    remarks = []
    if chosen is None and path is not None:
        remarks.append("no checkpoint can be used, so the final weights are the result")
    return path, remarks


def _write_files(
    run: RunDir,
    plan: Plan,
    backend: Backend,
    ending: Ending,
    analysis: Analysis,
    status: Status,
    error: TrainerError | None,
) -> dict[str, Any]:
    """Write what stands beside the result; returns the keys that name it."""
    drawn = points.curves(analysis.rows)
    text = curve.draw(drawn)
    told: dict[str, Any] = {"curve": text, "picture": "none", "page": "none"}
    told |= {"picture_path": None, "report_path": None, "page_path": None}
    try:
        if plan.stage == "sft":
            atomic.make_private_dir(run.metrics)
            atomic.write_json(run.metrics_summary, metrics_document(run, ending, analysis))
        else:
            merge_verl_metrics(run)
        told["picture"] = picture.save(run, analysis, drawn, f"{plan.task_id} / {plan.version_id}")
        told["picture_path"] = run.picture if os.path.isfile(run.picture) else None
        page = report.Report(plan, analysis, ending, status, error, backend.summary(plan), text, told["picture"])
        atomic.write_text(run.report, report.render(page))
        told["report_path"] = run.report
        told["page"] = _write_page(run, page)
        told["page_path"] = run.page if os.path.isfile(run.page) else None
    except OSError as fault:
        _log.warning("the report could not be written: %s", fault)
        told["write_error"] = str(fault)
    return told


def _write_page(run: RunDir, page: report.Report) -> str:
    from loopai_trainer.results import run_page  # drawing for a browser is loaded once training is over

    return run_page.write(run, page)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
