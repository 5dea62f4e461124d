"""Rules on identity and output: the checked inputs, the run's own folders, saving, validating, the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.verl_grpo import keys, reward
from loopai_trainer.backends.verl_grpo.coverage import FILE_KEYS, coverage_problems
from loopai_trainer.backends.verl_grpo.draft import LOGGER, run_folders
from loopai_trainer.backends.verl_grpo.effective import ACTOR, MODEL
from loopai_trainer.backends.verl_grpo.facts import Facts, error, reward_block, warning
from loopai_trainer.backends.verl_grpo.resume import plan_problems
from loopai_trainer.backends.verl_grpo.schedule import saves
from loopai_trainer.records import Problem
from loopai_trainer.rules import dotted, sinks

TRAINED_BYTES = 12
"""A parameter in a checkpoint: float32 weights and two Adam moments. Measured, 0.9.1: 1.4 MB for 108,096 parameters."""
EXPORTED_BYTES = 2
"""A parameter of an exported model, bfloat16; also of hf_model in a checkpoint."""
_GB = 10**9
_COLUMNS: Mapping[str, str] = {"data.prompt_key": "prompt", "data.reward_fn_key": "data_source"}
"""Which columns of the prepared data are the prompt and the name of its data set: the ones that were judged."""


def output_problems(facts: Facts) -> Iterator[Problem]:
    """All findings on what training reads, writes and keeps."""
    yield from coverage_problems(facts.native, facts.run)
    yield from plan_problems(facts)
    for rule in (_identity, _pinned, _reward, _logger, _fresh, _saving, _validating, _selection, _disk):
        yield from rule(facts)


def _identity(facts: Facts) -> Iterator[Problem]:
    """Native keys that have to agree with the reserved block, which is what was checked and hashed."""
    inputs = facts.plan.loopai["inputs"]
    wanted: dict[str, Any] = {
        "data.train_files": inputs["train"]["path"],
        "data.val_files": (inputs.get("validation") or {}).get("path"),
        f"{MODEL}.path": inputs["model"]["path"],
    }
    for key, value in wanted.items():
        if value is None:
            message = "there is no validation data: verl cannot start without"
            yield error("NO_VALIDATION", message, "give --eval-dataset, or a validation ratio above 0", key)
        elif facts.values.get(key) not in (value, [value]):
            message = f"'{key}' is {facts.values.get(key)!r}, the checked inputs need {value!r}"
            yield error("INPUT_MISMATCH", message, f"set {key} back, or prepare again", key)
    for key, value in _COLUMNS.items():
        if facts.values.get(key) not in (None, value):
            message = f"'{key}' is {facts.values.get(key)!r}: training would read a column that was not checked"
            yield error("INPUT_MISMATCH", message, f"set {key}: {value}, or leave it out", key)
    for key, value in run_folders(facts.run).items():
        if facts.values.get(key) != value:
            message = f"'{key}' is {facts.values.get(key)!r}, but results are looked for in {value}"
            yield error("OUTPUT_ELSEWHERE", message, f"set {key} back, or prepare again", key)


def _pinned(facts: Facts) -> Iterator[Problem]:
    pinned = {entry["path"] for entry in facts.plan.loopai["inputs"]["files"]}
    for key in FILE_KEYS:
        value = dotted.get(facts.native, key)
        if value is not None and value not in pinned:
            message = f"'{key}' names {value}, which the approved hash does not cover"
            yield error("UNCOVERED_INPUT", message, "name the file in the template and prepare again", key)


def _reward(facts: Facts) -> Iterator[Problem]:
    """The reward that verl is told has to be the one that was chosen, tried and hashed."""
    key = keys.REWARD_FUNCTION[facts.family]
    inputs = os.path.join(facts.run, "inputs")
    chosen = reward_block(facts.plan)
    if chosen is None:
        message = "'loopai.reward' is missing or damaged"
        yield error("RESERVED_BLOCK", message, "undo that edit, or prepare again", "loopai.reward")
        return
    block = reward.native_keys(chosen, inputs, facts.family)
    wanted = block if facts.family == "0.8" else block["custom_reward_function"]
    if dotted.get(facts.native, key) != wanted:
        message = f"'{key}' is not the reward of loopai.reward, which was checked"
        yield error("INPUT_MISMATCH", message, "set it back, or prepare again with another reward", key)
    pinned = {entry["path"] for entry in facts.plan.loopai["inputs"]["files"]}
    if wanted["path"] not in pinned:
        message = f"the reward {wanted['path']} is not covered by the approved hash"
        yield error("UNCOVERED_INPUT", message, "prepare again", key)


def _logger(facts: Facts) -> Iterator[Problem]:
    """Source: utils/tracking.py. verl's default wants a login at wandb; without `file` there are no metrics."""
    named = facts.values.names("trainer.logger")
    others = [name for name in named if name not in LOGGER and name not in sinks.PACKAGES]
    if others:
        message = f"'trainer.logger' names {', '.join(others)}: metrics would be sent to another service, or verl stops"
        yield error("LOGGER", message, "set trainer.logger: [console, file]", "trainer.logger")
    yield from sinks.missing(named, facts.versions, "trainer.logger")
    if "file" not in named:
        message = "'trainer.logger' lacks file: no metrics could be read, and no checkpoint chosen"
        yield error("LOGGER", message, "set trainer.logger: [console, file]", "trainer.logger")


def _fresh(facts: Facts) -> Iterator[Problem]:
    folder = os.path.join(facts.run, "checkpoints")
    left = sorted(name for name in (os.listdir(folder) if os.path.isdir(folder) else []) if not name.startswith("."))
    if left:
        shown = ", ".join(left[:4]) + (", ..." if len(left) > 4 else "")
        message = f"{folder} holds the output of a run already ({shown})"
        yield error(
            "OUTPUT_NOT_FRESH", message, "prepare a new version: it gets a fresh folder", "trainer.default_local_dir"
        )
    if os.path.isdir(facts.run) and not os.access(facts.run, os.W_OK | os.X_OK):
        message = f"{facts.run} cannot be written: there would be no checkpoints"
        yield error(
            "OUTPUT_NOT_WRITABLE", message, "see to its permissions, or to the mount", "trainer.default_local_dir"
        )


def _saving(facts: Facts) -> Iterator[Problem]:
    values, total = facts.values, facts.steps.total_steps
    every, keep = values.get("trainer.save_freq"), values.whole("trainer.max_actor_ckpt_to_keep")
    if not isinstance(every, int) or every <= 0:
        message = "'trainer.save_freq' is not positive: nothing of the training would be left"
        hint = f"set it to a number of steps up to {max(1, total)}"
        severe = facts.plan.result.get("export_huggingface") is True
        yield (error if severe else warning)("NO_CHECKPOINTS", message, hint, "trainer.save_freq")
        return
    contents = values.names(f"{ACTOR}.checkpoint.save_contents")
    if contents and "model" not in contents:
        message = f"'{ACTOR}.checkpoint.save_contents' lacks model: no checkpoint could be exported"
        yield error("NO_CHECKPOINTS", message, "add model to it", f"{ACTOR}.checkpoint.save_contents")
    written = saves(total, every)
    if 0 < keep < written:
        message = (
            f"of {written} checkpoints the newest {keep} are kept: the best one may be deleted before it is chosen"
        )
        hint = "raise trainer.max_actor_ckpt_to_keep (--option verl_max_actor_ckpt_to_keep=N), or trainer.save_freq"
        yield warning("BEST_MAY_BE_DELETED", message, hint, "trainer.max_actor_ckpt_to_keep")
    if keep == 1 and written > 1:
        message = "one checkpoint is kept: a save that fails leaves none"
        yield warning(
            "ONE_CHECKPOINT", message, "set trainer.max_actor_ckpt_to_keep: 2", "trainer.max_actor_ckpt_to_keep"
        )


def _validating(facts: Facts) -> Iterator[Problem]:
    values = facts.values
    save, test = values.get("trainer.save_freq"), values.get("trainer.test_freq")
    if not isinstance(test, int) or test <= 0:
        message = (
            "'trainer.test_freq' is not positive: no validation, so that the newest checkpoint is taken as the best"
        )
        yield warning("NO_VALIDATION_STEPS", message, "set it to trainer.save_freq", "trainer.test_freq")
    elif isinstance(save, int) and save > 0 and test % save and save % test:
        message = f"validated every {test} steps, saved every {save}: most scores belong to no checkpoint"
        yield warning("SCORES_WITHOUT_CHECKPOINT", message, "make save_freq and test_freq equal", "trainer.test_freq")
    elif isinstance(save, int) and save > test:
        message = f"validated every {test} steps, saved every {save}: the best score may belong to no checkpoint"
        yield warning("SCORES_WITHOUT_CHECKPOINT", message, "set save_freq to test_freq", "trainer.save_freq")


def _selection(facts: Facts) -> Iterator[Problem]:
    metric, mode = facts.plan.result.get("selection_metric"), facts.plan.result.get("selection_mode")
    if not isinstance(metric, str) or not metric.strip():
        message = "'result.selection_metric' names no metric"
        yield error("SELECTION_INVALID", message, "set it to val-core/*/acc/mean@*", "result.selection_metric")
    if mode not in ("max", "min"):
        message = f"'result.selection_mode' is {mode!r}"
        yield error("SELECTION_INVALID", message, "set it to max or min", "result.selection_mode")


def _disk(facts: Facts) -> Iterator[Problem]:
    weights, every = facts.model.weights, facts.values.get("trainer.save_freq")
    if weights is None or not isinstance(every, int) or every <= 0:
        return
    written = saves(facts.steps.total_steps, every)
    kept = min(facts.values.whole("trainer.max_actor_ckpt_to_keep", written) or written, written)
    each = _checkpoint_bytes(facts.values.names(f"{ACTOR}.checkpoint.save_contents")) * weights.parameters
    exported = EXPORTED_BYTES * weights.parameters if facts.plan.result.get("export_huggingface") is True else 0
    total, free = (kept + 1) * each + exported, facts.host.free_bytes
    if total > free:
        message = (
            f"about {total / _GB:.1f} GB of disk are needed, {free / _GB:.1f} GB are free: ({kept} kept + 1 during a "
            f"save) x {each / _GB:.1f} GB a checkpoint + {exported / _GB:.1f} GB exported"
        )
        severe = min(written, 2) * each + exported > free
        hint = "lower trainer.max_actor_ckpt_to_keep, or choose another --output-dir"
        yield Problem(
            "error" if severe else "warning",
            "DISK_SPACE",
            "host",
            message,
            hint,
            field="trainer.max_actor_ckpt_to_keep",
        )


def _checkpoint_bytes(contents: tuple[str, ...]) -> int:
    """Bytes a parameter of a checkpoint with these contents."""
    parts: Mapping[str, int] = {"model": 4, "optimizer": 8, "hf_model": EXPORTED_BYTES}
    return sum(parts.get(name, 0) for name in contents) or TRAINED_BYTES
