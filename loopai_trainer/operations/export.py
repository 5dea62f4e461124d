"""export: a model folder of a finished run's checkpoint; what is made and verified already is taken as it is."""

from __future__ import annotations

import os
from typing import Any

from loopai_trainer import backends
from loopai_trainer.errors import Busy, ExportFailed, NotFound, UsageError
from loopai_trainer.files import atomic, result_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import locks
from loopai_trainer.operations import commands, run_told, targets, unstarted
from loopai_trainer.operations.answer import Answer
from loopai_trainer.records import Checkpoint, Plan
from loopai_trainer.results.finish import ADAPTER_REMARK
from loopai_trainer.rules import dev_bounds
from loopai_trainer.rules import plan as plans
from loopai_trainer.worker.exporting import Exported
from loopai_trainer.worker.exporting import export as export_checkpoint
from loopai_trainer.worker.observe import observe


def export(version: str, scope: targets.Scope, step: int | None = None) -> Answer:
    """Export the chosen checkpoint of a run that has ended, or that of `step`.

    The chosen one of a completed run becomes the result's `update_model_path`. Raises UsageError for a run that has not
    ended, NotFound for a step without a complete checkpoint, ExportFailed (exit 12), Busy.
    """
    run = targets.find(version, scope)
    _refuse_unstarted(run)
    lock = locks.try_exclusive(run.run_lock, tries=20)
    if lock is None:
        raise Busy(
            f"version {run.version_id} is in use by another process, so its files may change meanwhile",
            hint="wait for its end, then export it",
            next_command=commands.wait(run.path),
        )
    try:
        return _export(run, step)
    finally:
        os.close(lock)


def _refuse_unstarted(run: RunDir) -> None:
    """Before the lock is taken, since a run whose lock is held looks as if somebody were at it."""
    seen = observe(run)
    unstarted.refuse(run, seen, "to export")


def _export(run: RunDir, step: int | None) -> Answer:
    result = result_file.read(run)
    if result is None:
        status = observe(run).verdict.status
        raise UsageError(
            f"{run.version_id} is {status}: there is nothing to export before a run has ended",
            code="NOT_ENDED",
            hint="wait for its end",
            next_command=commands.wait(run.path),
        )
    plan = _approved(run)
    if dev_bounds.is_dev(plan):
        raise UsageError(
            f"{run.version_id} is a dev run: its weights are no result, and were removed",
            code="DEV_PLAN",
            hint="run the version that was tried, and export that",
        )
    backend = backends.get(plan.framework, plan.stage)
    chosen = result.get("best_checkpoint") or {}
    checkpoint = _checkpoint(run, backend.find_checkpoints(run.checkpoints), chosen.get("step"), step)
    made = export_checkpoint(run, plan, backend, checkpoint)
    is_result = result["status"] == "completed" and checkpoint.step == chosen.get("step")
    if made.failed:
        raise ExportFailed(
            f"{checkpoint.name} could not be exported: {made.failed}",
            hint=next((problem.hint for problem in made.problems if problem.hint), f"look at {run.export_log}"),
            problems=made.problems,
            next_command=commands.export(run.path),
        )
    if is_result:
        _note(run, result, made)
    return Answer("export", made.data(), message=f"{checkpoint.name} is a model folder: {made.path}")


def _approved(run: RunDir) -> Plan:
    try:
        with open(run.approved_config, "rb") as file:
            return plans.read(file.read(), run.approved_config)
    except OSError as error:
        raise NotFound(f"{run.approved_config} cannot be read: {error.strerror}", hint="restore the file") from None


def _checkpoint(run: RunDir, found: list[Checkpoint], chosen: int | None, step: int | None) -> Checkpoint:
    whole = [checkpoint for checkpoint in found if checkpoint.complete]
    wanted = step if step is not None else chosen
    if wanted is None and whole:
        wanted = whole[-1].step
    for checkpoint in whole:
        if checkpoint.step == wanted:
            return checkpoint
    damaged = next((checkpoint for checkpoint in found if checkpoint.step == wanted), None)
    if damaged is not None:
        raise NotFound(f"{damaged.path} is not complete: {damaged.why}", hint=_steps(whole))
    raise NotFound(f"{run.path} has no checkpoint of step {wanted}", hint=_steps(whole))


def _steps(whole: list[Checkpoint]) -> str:
    if not whole:
        return "there is no complete checkpoint"
    return "complete are the steps " + ", ".join(str(checkpoint.step) for checkpoint in whole)


def _note(run: RunDir, result: dict[str, Any], made: Exported) -> None:
    """Write the model's path into the stored result, which may have had none."""
    block = {key: value for key, value in result["result"].items() if key != "export_error"}
    block["export"] = "done" if made.needed else "none"
    if made.needed:
        block["warnings"] = [text for text in block.get("warnings") or () if text != ADAPTER_REMARK]
    atomic.write_json(run.result, {**result, "update_model_path": made.path, "result": block})
    run_told.tell_changed(run)
