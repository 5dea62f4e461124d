"""The block `verl` of a grpo plan: overrides of verl's own configuration, with what the launcher sets itself.

Agent Lightning merges it over verl's defaults (0.3.0 algorithm/verl/interface.py; 1.x verl/entrypoint.py).
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.host.devices import parse_devices
from loopai_trainer.records import LaunchPaths, Model, Plan, Problem, Settings, Versions
from loopai_trainer.rules import dotted

ROLLOUT, ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
MODEL_PATH = "actor_rollout_ref.model.path"
AGGREGATOR = "agentlightning.trace_aggregator"
LEVELS = ("transition", "trajectory")

_RUN_FOLDER = "--output-dir or --trainer-output-dir"
OWNED: Mapping[str, str] = {
    f"verl.{MODEL_PATH}": "--model",
    "verl.trainer.n_gpus_per_node": "--devices",
    "verl.trainer.nnodes": "nothing: training runs on this host",
    "verl.trainer.default_local_dir": _RUN_FOLDER,
    "verl.trainer.project_name": "--task-id",
    "verl.trainer.experiment_name": "--version-id",
    "verl.trainer.logger": "nothing: metrics come from verl's file logger",
}

_DEFAULTS: Mapping[str, Any] = {
    "algorithm.adv_estimator": "grpo",
    "data.train_batch_size": 32,
    "data.max_prompt_length": 4096,
    "data.max_response_length": 2048,
    f"{ROLLOUT}.name": "vllm",
    f"{ROLLOUT}.n": 4,
    f"{ROLLOUT}.tensor_model_parallel_size": 1,
    f"{ROLLOUT}.gpu_memory_utilization": 0.6,
    f"{ACTOR}.ppo_mini_batch_size": 32,
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": 4,
    f"{ACTOR}.optim.lr": 1e-6,
    "trainer.total_epochs": 1,
    "trainer.save_freq": 50,
    "trainer.test_freq": 50,
    "trainer.val_before_train": True,
    f"{AGGREGATOR}.level": "transition",
}
"""What an approver has to see. Source: Agent Lightning's example of 0.3.0 in kind, verl's defaults in size."""

_FILE_LOGGER = '"file"'


def drafted(base: Any, settings: Settings, model: Model, paths: LaunchPaths) -> dict[str, Any]:
    """The block, made from the template's."""
    block = copy.deepcopy(dict(base)) if isinstance(base, Mapping) else {}
    for key, value in _DEFAULTS.items():
        if not dotted.has(block, key):
            dotted.put(block, key, value)
    own = {
        MODEL_PATH: model.path,
        "trainer.nnodes": 1,
        "trainer.n_gpus_per_node": device_count(settings.text("CUDA_VISIBLE_DEVICES")),
        "trainer.default_local_dir": paths.checkpoints,
        "trainer.project_name": settings.text("task_id") or "default",
        "trainer.experiment_name": settings.text("trainer_version_id") or os.path.basename(paths.run),
        "trainer.logger": ["console", "file"],
    }
    for key, value in own.items():
        dotted.put(block, key, value)
    return block


def device_count(text: str) -> int:
    """Devices that a list names; 1 for one that cannot be read, which the launch refuses."""
    try:
        return max(1, len(parse_devices(text)))
    except ValueError:
        return 1


def problems(plan: Plan, versions: Versions) -> Iterator[Problem]:
    """What verl, or Agent Lightning, would find after minutes."""
    block: Mapping[str, Any] = plan.native.get("verl") or {}
    if dotted.get(block, "algorithm.adv_estimator") != "grpo":
        found = dotted.get(block, "algorithm.adv_estimator")
        yield _error(
            "ESTIMATOR_INVALID", f"adv_estimator is {found!r}: the stage is grpo", "grpo", "algorithm.adv_estimator"
        )
    level = dotted.get(block, f"{AGGREGATOR}.level")
    if level not in LEVELS:
        yield _error(
            "AGGREGATOR_INVALID", f"trace_aggregator.level is {level!r}", " or ".join(LEVELS), f"{AGGREGATOR}.level"
        )
    yield from _numbers(block)
    yield from _batches(block)
    yield from _file_logger(versions)
    if not plan.native["tasks"].get("validation"):
        message = "reinforcement learning is validated on tasks of their own, and there are none"
        yield Problem(
            "error",
            "VALIDATION_MISSING",
            "config",
            message,
            "name them with --eval-dataset, or set val_size",
            field="tasks",
        )


def _numbers(block: Mapping[str, Any]) -> Iterator[Problem]:
    for key in ("data.train_batch_size", f"{ROLLOUT}.n", f"{ACTOR}.ppo_mini_batch_size", "trainer.total_epochs"):
        value = dotted.get(block, key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            yield _error("VALUE_OUT_OF_RANGE", f"verl.{key} is {value!r}", "a whole number from 1 on", key)
    rank = dotted.get(block, "actor_rollout_ref.model.lora_rank")
    if rank is not None and (not isinstance(rank, int) or rank < 0):
        yield _error(
            "VALUE_OUT_OF_RANGE",
            f"verl's lora_rank is {rank!r}",
            "0 (none) or a rank",
            "actor_rollout_ref.model.lora_rank",
        )


def _batches(block: Mapping[str, Any]) -> Iterator[Problem]:
    batch, group = dotted.get(block, "data.train_batch_size"), dotted.get(block, f"{ROLLOUT}.n")
    mini, gpus = dotted.get(block, f"{ACTOR}.ppo_mini_batch_size"), dotted.get(block, "trainer.n_gpus_per_node")
    parallel = dotted.get(block, f"{ROLLOUT}.tensor_model_parallel_size")
    if not all(isinstance(one, int) and one > 0 for one in (batch, group, mini, gpus, parallel)):
        return
    if mini > batch:
        yield _error(
            "BATCH_INVALID",
            f"mini-batches of {mini} tasks do not fit into a batch of {batch}",
            f"{batch} or less",
            f"{ACTOR}.ppo_mini_batch_size",
        )
    if batch * group % gpus:
        yield _error(
            "BATCH_INVALID",
            f"{batch} tasks with {group} rollouts are not divisible by {gpus} GPUs",
            "a multiple",
            "data.train_batch_size",
        )
    if gpus % parallel:
        yield _error(
            "PARALLEL_INVALID",
            f"{gpus} GPUs are not divisible by {parallel} of tensor parallelism",
            "a divisor",
            f"{ROLLOUT}.tensor_model_parallel_size",
        )


def _file_logger(versions: Versions) -> Iterator[Problem]:
    """Metrics come from verl's file logger: an older verl has none, and nobody would see a step."""
    for folder in versions.site_packages:
        path = os.path.join(folder, "verl", "utils", "tracking.py")
        try:
            with open(path, encoding="utf-8") as file:
                found = _FILE_LOGGER in file.read()
        except OSError:
            continue
        if not found:
            message = f"verl {versions.distributions.get('verl')} has no file logger, from which steps are read"
            yield Problem(
                "error", "BACKEND_PAIR_BROKEN", "environment", message, "use agentlightning 1.x with verl 0.8.0"
            )
        return


def _error(code: str, message: str, wanted: str, key: str) -> Problem:
    return Problem("error", code, "config", message, f"set it to {wanted}", field=f"verl.{key}")
