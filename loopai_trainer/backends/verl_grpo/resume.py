"""Whether GRPO can go on from a checkpoint exactly where it stopped, and what makes verl do so.

Source: verl 0.9.1, trainer/ppo/v1/trainer_base.py `_load_checkpoint` (the step is read off the folder's name) and
utils/checkpoint/fsdp_checkpoint_manager.py `load_checkpoint` (every rank reads its own shards of its own world size).
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.verl_grpo import checkpoints
from loopai_trainer.backends.verl_grpo.effective import ACTOR, SEEN_DEFAULTS, Effective
from loopai_trainer.backends.verl_grpo.facts import Facts, error
from loopai_trainer.records import Checkpoint, Plan, Problem

MODE, PATH = "trainer.resume_mode", "trainer.resume_from_path"
BY_PATH = "resume_path"
_FSDP_VERSIONS: Mapping[str, int] = {"fsdp": 1, "fsdp2": 2}
_PREPARE = "prepare it with `trainer prepare --resume VERSION`"
_SHOWN = 3


def resume_keys(path: str) -> dict[str, Any]:
    """The native keys, dotted, of a run that continues the checkpoint folder `path` (its name is global_step_N)."""
    return {MODE: BY_PATH, PATH: path}


def checkpoint_problems(checkpoint: Checkpoint, before: Plan) -> list[Problem]:
    """Why the training of the plan `before` cannot be continued from this checkpoint; empty: it can."""
    return [
        Problem("error", "NOT_RESUMABLE", "model", f"{checkpoint.name}: {why}", path=checkpoint.path)
        for why in _faults(checkpoint, before)
    ]


def plan_problems(facts: Facts) -> Iterator[Problem]:
    """Faults of a final YAML that continues another round, or says so."""
    mode, path, block = facts.values.get(MODE), facts.values.get(PATH), facts.plan.loopai.get("resume")
    if not block:
        if mode != "disable":
            message = f"'{MODE}' is not disable: verl would continue whatever lies in the folder"
            yield error("RESUME_MODE", message, f"set {MODE}: disable", MODE)
        if path:
            message = f"'{PATH}' is set: training would use what the approved hash does not cover"
            yield error("UNCOVERED_INPUT", message, _PREPARE, PATH)
        return
    if mode != BY_PATH:
        message = f"'{MODE}' is {mode!r}, but the plan continues a checkpoint (loopai.resume)"
        yield error("RESUME_MODE", message, f"set {MODE}: {BY_PATH}", MODE)
    if not isinstance(block, Mapping) or not path or path != block.get("path"):
        message = f"'{PATH}' is {path!r}, but the checkpoint that was checked is that of loopai.resume"
        yield error("UNCOVERED_INPUT", message, _PREPARE, PATH)
        return
    yield from _held_problems(facts, str(path), int(block.get("step") or 0))


def _held_problems(facts: Facts, path: str, step: int) -> Iterator[Problem]:
    """Of the checkpoint in `inputs/`: every file pinned, saved by as many ranks as there are, a step left to do."""
    pinned = {entry["path"] for entry in facts.plan.loopai["inputs"]["files"]}
    held = sorted(os.path.join(root, name) for root, _, names in os.walk(path) for name in names)
    loose = [name for name in held if name not in pinned]
    if loose or not held:
        message = f"'{PATH}' names files that the plan does not pin: {', '.join(loose[:_SHOWN]) or path}"
        yield error("UNCOVERED_INPUT", message, _PREPARE, PATH)
        return
    actor = os.path.join(path, checkpoints.ACTOR)
    size, devices = checkpoints.world_size(actor), facts.steps.devices
    if size != devices:
        message = f"the checkpoint was saved by {size} ranks, and {devices} would train: verl finds no shards for them"
        yield error("RESUME_WORLD_SIZE", message, f"give {size} devices", "trainer.n_gpus_per_node")
    saved_by = (checkpoints.json_object(os.path.join(actor, checkpoints.FSDP_CONFIG)) or {}).get("FSDP_version")
    strategy = str(facts.values.get(f"{ACTOR}.strategy"))
    if saved_by in _FSDP_VERSIONS.values() and saved_by != _FSDP_VERSIONS.get(strategy, saved_by):
        message = f"the checkpoint's shards are those of FSDP {saved_by}, and '{ACTOR}.strategy' is {strategy}"
        yield error("RESUME_STRATEGY", message, f"set {ACTOR}.strategy back", f"{ACTOR}.strategy")
    if facts.steps.total_steps <= step:
        message = f"training would end at step {facts.steps.total_steps}, and the checkpoint is of step {step}"
        hint = "raise trainer.total_training_steps and trainer.total_epochs: both count from the first step of all"
        yield error("RESUME_FINISHED", message, hint, "trainer.total_training_steps")


def _faults(checkpoint: Checkpoint, before: Plan) -> Iterator[str]:
    if not checkpoint.complete:
        yield checkpoint.why
        return
    why = checkpoints.resumable(checkpoint)
    if why:
        yield why
        return
    size = checkpoints.world_size(os.path.join(checkpoint.path, checkpoints.ACTOR))
    values = Effective(before.native, SEEN_DEFAULTS)
    ranks = values.whole("trainer.n_gpus_per_node", 1) * values.whole("trainer.nnodes", 1)
    if size is None:
        yield f"{checkpoints.FSDP_CONFIG} is missing: it was not saved to the end"
    elif size != ranks:
        yield f"it was saved by {size} ranks, and {ranks} trained"
    yield from (f"{name} is torn" for name in _torn(checkpoint.path))


def _torn(folder: str) -> list[str]:
    """Files of torch.save that cannot be read: the list of contents is written last, so a torn file has none."""
    files = [os.path.join(root, name) for root, _, names in os.walk(folder) for name in names if name.endswith(".pt")]
    return sorted(os.path.relpath(path, folder) for path in files if not zipfile.is_zipfile(path))
