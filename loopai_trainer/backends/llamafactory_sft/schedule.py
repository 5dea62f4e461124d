"""How many steps a plan takes: batch sizes, processes, epochs and steps, computed as transformers computes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeGuard

from loopai_trainer.records import Plan

DEFAULT_BATCH_SIZE = 8
DEFAULT_EPOCHS = 3.0
"""Source: transformers 5.6.0 training_args.py."""

_LARGEST = 10**12
"""What is above it is no count of anything here, and would only overflow."""


class Schedule(NamedTuple):
    """`effective_batch` rows make one optimisation step. Steps are None where packing hides the number of rows."""

    rows: int
    world_size: int
    per_device_batch: int
    accumulation: int
    effective_batch: int
    epochs: float
    steps_per_epoch: int | None
    total_steps: int | None


def of_plan(plan: Plan) -> Schedule:
    """The schedule of a final YAML."""
    launch = plan.loopai["launch"]
    processes = positive(launch.get("nproc_per_node"), 1) * positive(launch.get("nodes"), 1)
    return compute(plan.native, positive(plan.loopai["inputs"]["train"].get("rows"), 0), processes)


def compute(native: Mapping[str, Any], rows: int, world_size: int) -> Schedule:
    """Source: transformers 5.6.0 `Trainer.set_initial_training_values`; accelerate deals batches out to processes."""
    rows = used_rows(native, rows)
    per_device = positive(native.get("per_device_train_batch_size"), DEFAULT_BATCH_SIZE)
    accumulation = positive(native.get("gradient_accumulation_steps"), 1)
    max_steps = positive(native.get("max_steps"), 0)
    epochs = native.get("num_train_epochs")
    epochs = float(epochs) if _is_usable(epochs) else DEFAULT_EPOCHS
    per_epoch: int | None = None
    total: int | None = max_steps or None
    if rows and not packs(native):
        batches = math.ceil(rows / (per_device * world_size))
        per_epoch = math.ceil(batches / accumulation)
        total = max_steps or math.ceil(epochs * per_epoch)
        if max_steps:
            epochs = max_steps / per_epoch
    effective = per_device * accumulation * world_size
    return Schedule(rows, world_size, per_device, accumulation, effective, epochs, per_epoch, total)


def expected_examples(plan: Plan) -> dict[str, int]:
    """What LLaMA-Factory has to report as its numbers of examples; empty where packing joins rows."""
    native, inputs = plan.native, plan.loopai["inputs"]
    if packs(native):
        return {}
    counts = {"train_examples": inputs["train"].get("rows"), "validation_examples": None}
    if inputs.get("validation") and native.get("eval_strategy", "no") != "no":
        counts["validation_examples"] = inputs["validation"].get("rows")
    return {name: used for name, rows in counts.items() if (used := used_rows(native, rows))}


def used_rows(native: Mapping[str, Any], rows: object) -> int:
    """Rows that LLaMA-Factory keeps: `max_samples` takes the first ones of each data set. 0: not known."""
    known, limit = positive(rows, 0), positive(native.get("max_samples"), 0)
    return min(known, limit) if limit else known


def packs(native: Mapping[str, Any]) -> bool:
    """Whether several rows become one example, so that LLaMA-Factory's number of examples is not the number of rows."""
    return bool(native.get("packing") or native.get("neat_packing"))


def interval(value: object, total: int | None) -> int | None:
    """Steps between two events: a number, or a share of all steps if it is below 1."""
    if not _is_usable(value):
        return None
    if value < 1:
        return math.ceil(total * value) if total else None
    return int(value)


def _is_usable(value: object) -> TypeGuard[int | float]:
    """Whether it is a number that can be computed with; what is not is refused elsewhere."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LARGEST


def positive(value: object, otherwise: int) -> int:
    """The value if it is a whole number above 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _LARGEST else otherwise
