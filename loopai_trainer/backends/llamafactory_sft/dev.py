"""The bounded version of a plan: two steps on 16 rows, evaluated and saved once, with everything else as it is.

Batch sizes, precision, DeepSpeed, cutoff length and devices stay, since they are what such a run has to show.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopai_trainer.backends.llamafactory_sft.launch import reporters
from loopai_trainer.backends.llamafactory_sft.resume import KEY as RESUME_KEY
from loopai_trainer.records import DevPlan, Plan
from loopai_trainer.rules import dev_bounds

_SINK_KEYS = (
    *("run_name", "project", "use_swanlab"),
    *("swanlab_project", "swanlab_run_name", "swanlab_mode", "swanlab_logdir"),
)
_GONE = (RESUME_KEY, "eval_delay", *_SINK_KEYS)


def dev_plan(plan: Plan) -> DevPlan:
    """`max_steps` beats epochs, and a loader that drops what fills no batch would find none in 16 rows.

    Source: transformers 5.6.0 `Trainer.set_initial_training_values`, `TrainingArguments.dataloader_drop_last`.
    """
    native: dict[str, Any] = {key: value for key, value in plan.native.items() if key not in _GONE}
    steps = dev_bounds.STEPS
    native.update(max_steps=steps, logging_steps=1, report_to="none")
    if native.get("dataloader_drop_last"):
        native["dataloader_drop_last"] = False
    if native.get("save_strategy") != "no":
        native.update(save_strategy="steps", save_steps=steps)
    if native.get("eval_strategy", "no") != "no":
        native.update(eval_strategy="steps", eval_steps=steps)
    rows = dict.fromkeys(("train", "validation"), dev_bounds.ROWS)
    return DevPlan(native, steps, rows, _not_shown(plan))


def _not_shown(plan: Plan) -> Mapping[str, str]:
    found = {}
    if plan.native.get(RESUME_KEY):
        found["resuming"] = "it begins with the base model, not with the checkpoint that the plan continues"
    sinks = reporters(plan.native)
    if sinks:
        found["metric sinks"] = f"nothing is sent to {', '.join(sinks)}"
    return found
