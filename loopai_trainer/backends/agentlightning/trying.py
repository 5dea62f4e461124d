"""What `trainer dev` tries of a plan: Baseline over a few tasks, with this plan's agent, store, tracer and runners."""

from __future__ import annotations

import copy

from loopai_trainer.backends.agentlightning.draft import ARGUMENTS
from loopai_trainer.records import DevPlan, Plan

MOST_ROLLOUTS = 16
_NOT_SHOWN = {
    "dev": {},
    "apo": {"the search for a better prompt": "Baseline runs the seed prompt alone; no optimiser is called"},
    "grpo": {"training": "Baseline changes no weights; verl and its rollout engine are not started"},
}


def dev_plan(plan: Plan) -> DevPlan:
    """Baseline on at most 16 tasks, half of them of the validation data where there are any; a step is a rollout."""
    native, inputs = copy.deepcopy(plan.native), plan.loopai["inputs"]
    splits = [split for split in ("train", "validation") if inputs.get(split)]
    rows = {split: min(MOST_ROLLOUTS // len(splits), int(inputs[split].get("rows") or 0)) for split in splits}
    native["algorithm"] = {"name": "baseline", **ARGUMENTS["baseline"]}
    native["adapter"] = {"name": "triplet"}
    native["limits"] = {**native["limits"], "rollouts": MOST_ROLLOUTS}
    for key in ("llm", "verl"):
        native.pop(key, None)
    return DevPlan(native, sum(rows.values()), rows, _NOT_SHOWN[plan.stage])
