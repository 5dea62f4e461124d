"""The worker's way to the results floor, imported after training's end alone: analysis and pictures are heavy."""

from __future__ import annotations

import os
from typing import Any

from loopai_trainer.contract import Backend
from loopai_trainer.files import state_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.records import Checkpoint, Plan
from loopai_trainer.results.finish import finish
from loopai_trainer.results.outcome import Ending
from loopai_trainer.rules import cluster, dev_bounds
from loopai_trainer.worker import dev_weights, input_times
from loopai_trainer.worker.cancelling import read_request
from loopai_trainer.worker.exporting import Exported, export
from loopai_trainer.worker.inputs import changed_inputs
from loopai_trainer.worker.own import Ended


def finish_run(run: RunDir, plan: Plan, backend: Backend, ended: Ended) -> dict[str, Any]:
    """The content of worker_result.json for a training that ended so."""
    ending = Ending(
        exit_record=ended.exit_record,
        started_at=ended.started_at,
        ended_at=ended.ended_at,
        cancelled=ended.cancelled,
        reason=ended.reason,
        planned_steps=ended.planned_steps,
        remarks=(*ended.remarks, *input_times.remarks(run, plan), *not_asked(run)),
    )

    def exported(checkpoint: Checkpoint) -> Exported:
        return export(run, plan, backend, checkpoint, lambda: read_request(run) is not None)

    result = finish(run, plan, backend, ending, lambda: changed_inputs(plan, os.environ), exported)
    return dev_weights.without_model(result) if dev_bounds.is_dev(plan) else result


def not_asked(run: RunDir) -> list[str]:
    """One sentence on nodes of the cluster that nobody asked what they see, if there were such; else none."""
    executor = (state_file.read(run).state or {}).get("executor") or {}
    names = executor.get("not_asked")
    return [cluster.not_asked_text(names)] if isinstance(names, list) and names else []
