"""The numbers of a plan: batches, groups, devices, steps, as verl's trainer computes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from loopai_trainer.backends.verl_grpo.effective import ACTOR, ROLLOUT, SEEN_DEFAULTS, Effective
from loopai_trainer.records import Plan


class Schedule(NamedTuple):
    """`batch` prompts with `group` replies each make a step on `devices`; `unused` rows are dropped in each epoch.

    `total_steps` is what verl really takes: it stops at `total_training_steps` or after `epochs`, whichever is first.
    0 steps: the rows do not fill one batch.
    """

    rows: int
    batch: int
    group: int
    mini_batch: int
    devices: int
    sequence_parallel: int
    epochs: int
    planned_steps: int | None
    steps_per_epoch: int
    total_steps: int
    unused: int

    @property
    def replies(self) -> int:
        """Replies of one step."""
        return self.batch * self.group

    @property
    def data_parallel(self) -> int:
        """Groups of devices that train on different replies."""
        return max(1, self.devices // max(1, self.sequence_parallel))


def compute(values: Effective, rows: int) -> Schedule:
    """Source: verl 0.9.1 trainer/ppo/v1/trainer_base.py: len(train) // train_batch_size steps an epoch."""
    limit = values.whole("data.train_max_samples")
    rows = min(rows, limit) if limit else rows
    batch = values.whole("data.train_batch_size")
    epochs = values.whole("trainer.total_epochs")
    planned = values.whole("trainer.total_training_steps") or None
    per_epoch = rows // batch if batch else 0
    total = per_epoch * epochs
    return Schedule(
        rows=rows,
        batch=batch,
        group=values.whole(f"{ROLLOUT}.n"),
        mini_batch=values.whole(f"{ACTOR}.ppo_mini_batch_size"),
        devices=values.whole("trainer.n_gpus_per_node", 1) * values.whole("trainer.nnodes", 1),
        sequence_parallel=values.whole(f"{ACTOR}.ulysses_sequence_parallel_size", 1),
        epochs=epochs,
        planned_steps=planned,
        steps_per_epoch=per_epoch,
        total_steps=min(total, planned) if planned else total,
        unused=rows % batch if batch else 0,
    )


def of_plan(plan: Plan, defaults: Mapping[str, Any] = SEEN_DEFAULTS) -> Schedule:
    """The schedule of a final YAML."""
    rows = plan.loopai["inputs"]["train"].get("rows")
    return compute(Effective(plan.native, defaults), rows if isinstance(rows, int) else 0)


def saves(total_steps: int, every: int) -> int:
    """Checkpoints that a run writes: every so many steps, and after the last one. 0: none are saved."""
    return math.ceil(total_steps / every) if total_steps > 0 and every > 0 else 0
