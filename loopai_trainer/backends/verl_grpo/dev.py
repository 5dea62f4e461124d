"""The bounded version of a plan: two steps of a small batch of prompts, validated and saved once.

Model, lengths, replies to a prompt, rollout engine, memory shares and devices stay, since they are what such a run has
to show; the batch is the largest small one that all rules on batches allow.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.verl_grpo import schedule
from loopai_trainer.backends.verl_grpo.draft import LOGGER
from loopai_trainer.backends.verl_grpo.effective import ACTOR, Effective
from loopai_trainer.backends.verl_grpo.facts import Facts
from loopai_trainer.backends.verl_grpo.launch import reporters
from loopai_trainer.backends.verl_grpo.resume import MODE, PATH
from loopai_trainer.backends.verl_grpo.rules_batch import batch_problems
from loopai_trainer.backends.verl_grpo.tree import read_tree
from loopai_trainer.errors import NotShown
from loopai_trainer.files.model_folder import read_model_folder
from loopai_trainer.records import DevPlan, Host, Plan, Versions
from loopai_trainer.rules import dev_bounds, dotted

SMALL_BATCH = 8
LARGEST_BATCH = dev_bounds.MOST_ROWS // dev_bounds.STEPS
"""Prompts of a step. More than SMALL_BATCH only where many GPUs or large micro-batches leave no smaller one."""

_BATCH, _MINI, _FILTER = "data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size", "data.filter_overlong_prompts"


def dev_plan(plan: Plan, versions: Versions) -> DevPlan:
    """Raises NotShown if no batch of at most LARGEST_BATCH prompts fits devices, groups and micro-batches."""
    defaults = read_tree(versions.package_dir).values
    steps = dev_bounds.STEPS
    base = _base(plan, steps)
    values = Effective(base, defaults)
    for size in _sizes(values.whole(_BATCH)):
        native = _with_batch(base, size, values.whole(_MINI))
        rows = _rows(size, filters=values.on(_FILTER))
        if _fits(plan, native, defaults, versions, rows):
            split_rows = {"train": rows, "validation": dev_bounds.ROWS}
            return DevPlan(native, steps, split_rows, _not_shown(plan, size, values.whole(_BATCH)))
    raise NotShown(
        f"no batch of 1 to {LARGEST_BATCH} prompts fits the plan's devices, replies and micro-batches",
        hint="smaller micro-batches allow smaller batches",
    )


def _base(plan: Plan, steps: int) -> dict[str, Any]:
    """The native keys with everything that is cut down but the batch.

    verl saves and validates after its last step, whatever the frequencies, if they are above 0. Source: 0.9.1,
    trainer/ppo/v1/trainer_base.py `fit`.
    """
    native = copy.deepcopy(plan.native)
    for key, value in {
        "trainer.total_training_steps": steps,
        "trainer.total_epochs": steps,
        "trainer.save_freq": steps,
        "trainer.test_freq": steps,
        "trainer.val_before_train": False,
        "trainer.logger": list(LOGGER),
        MODE: "disable",
    }.items():
        dotted.put(native, key, value)
    native["trainer"].pop(PATH.rpartition(".")[2], None)
    native["data"].pop("gen_batch_size", None)
    return native


def _sizes(batch: int) -> Iterator[int]:
    """Sizes to try: the small ones from the largest down, then larger ones; never more than the plan's own."""
    most = min(batch, LARGEST_BATCH)
    yield from range(min(most, SMALL_BATCH), 0, -1)
    yield from range(SMALL_BATCH + 1, most + 1)


def _with_batch(base: Mapping[str, Any], size: int, mini: int) -> dict[str, Any]:
    native = dict(base)
    dotted.put(native, _BATCH, size)
    dotted.put(native, _MINI, mini if mini and size % mini == 0 else size)
    return native


def _rows(size: int, *, filters: bool) -> int:
    """Rows for all steps, and some more where verl leaves out those whose prompt is too long."""
    spare = dev_bounds.ROWS if filters else 0
    return min(dev_bounds.MOST_ROWS, max(dev_bounds.ROWS, size * dev_bounds.STEPS + spare))


def _fits(plan: Plan, native: Mapping[str, Any], defaults: Mapping[str, Any], versions: Versions, rows: int) -> bool:
    values = Effective(native, defaults)
    held = plan.loopai["inputs"]["train"].get("rows")
    steps = schedule.compute(values, min(rows, held) if isinstance(held, int) else rows)
    model = read_model_folder(str(plan.loopai["inputs"]["model"]["path"]))
    facts = Facts(plan, values, steps, model, versions, Host((), 1, 0))  # rules on batches look at no host
    return not any(problem.severity == "error" for problem in batch_problems(facts))


def _not_shown(plan: Plan, size: int, batch: int) -> Mapping[str, str]:
    found = {}
    if size < batch:
        found["full batches"] = f"a step has {size} prompts, not {batch}: the memory that more of them take"
    if dotted.get(plan.native, MODE) != "disable":
        found["resuming"] = "it begins with the base model, not with the checkpoint that the plan continues"
    sinks = reporters(plan.native)
    if sinks:
        found["metric sinks"] = f"nothing is sent to {', '.join(sinks)}"
    return found
