"""Writes the native keys of the final YAML: short overrides of verl's tree, with every choice that has to be seen."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping
from typing import Any

from loopai_trainer.backends.verl_grpo import keys, reward, schedule
from loopai_trainer.backends.verl_grpo.effective import ACTOR, MODEL, REF, ROLLOUT, SEEN_DEFAULTS, Effective
from loopai_trainer.host.devices import parse_devices
from loopai_trainer.records import DataReport, LaunchPaths, Model, Placement, Settings
from loopai_trainer.rules import cluster, dotted, sinks

BACKEND_VERSION = "backend_version"
"""Setting that prepare adds for the draft: the installed verl's version, which decides the names of keys."""

CPU_ROLLOUT = "loopai_cpu"
ROLLOUTS_FOLDER = "rollouts"
VALIDATIONS_FOLDER = "validations"
LOGGER = ("console", "file")
DEFAULT_KEEP = 2
_MOST_STEPS_BETWEEN_SAVES = 50

FIRST_KEYS = (
    "data.train_files", "data.val_files", "data.train_batch_size", "data.max_prompt_length", "data.max_response_length",
    "data.filter_overlong_prompts", "data.shuffle", "data.seed", "data",
    f"{MODEL}.path", MODEL,
    f"{ACTOR}.strategy", f"{ACTOR}.ppo_mini_batch_size", f"{ACTOR}.use_dynamic_bsz",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ACTOR}.optim.lr",
    f"{ACTOR}.use_kl_loss", f"{ACTOR}.kl_loss_coef", f"{ACTOR}.kl_loss_type", ACTOR,
    f"{ROLLOUT}.name", f"{ROLLOUT}.n", f"{ROLLOUT}.temperature", f"{ROLLOUT}.tensor_model_parallel_size",
    f"{ROLLOUT}.gpu_memory_utilization", ROLLOUT, REF, "algorithm", "custom_reward_function", "reward", "reward_model",
    "trainer.project_name", "trainer.experiment_name", "trainer.nnodes", "trainer.n_gpus_per_node", "trainer.device",
    "trainer.total_epochs", "trainer.total_training_steps", "trainer.val_before_train", "trainer.save_freq",
    "trainer.test_freq", "trainer.max_actor_ckpt_to_keep", "trainer.default_local_dir", "trainer.rollout_data_dir",
    "trainer.validation_data_dir", "trainer.resume_mode", "trainer.logger", "trainer",
)  # fmt: skip
"""Reading order; other keys follow in the template's own."""

_REWARD_FLAGS = "--reward-mode, --reward-preset or --reward-function"
_RUN_FOLDER = "--output-dir or --trainer-output-dir"
_RESUME_FLAG = "--resume VERSION: else every version starts anew, in a fresh folder of its own"

OWNED_KEYS: Mapping[str, str] = {
    "data.train_files": "--dataset",
    "data.val_files": "--eval-dataset",
    f"{MODEL}.path": "--model",
    "reward.custom_reward_function": _REWARD_FLAGS,
    "custom_reward_function": _REWARD_FLAGS,
    "trainer.project_name": "--task-id",
    "trainer.experiment_name": "--version-id",
    "trainer.nnodes": "--nodes",
    "trainer.n_gpus_per_node": "--devices",
    "trainer.default_local_dir": _RUN_FOLDER,
    "trainer.rollout_data_dir": _RUN_FOLDER,
    "trainer.validation_data_dir": _RUN_FOLDER,
    "trainer.logger": "--option report_to=NAME; metrics always come from verl's file logger",
    "trainer.resume_mode": _RESUME_FLAG,
    "trainer.resume_from_path": _RESUME_FLAG,
}
"""Keys whose value comes from the settings, whatever a template says -> the flag that sets it."""

_MODES: Mapping[str, str] = {"max": "max", "maximize": "max", "min": "min", "minimize": "min"}

_SHOWN = (
    "data.train_batch_size", "data.max_prompt_length", "data.max_response_length", f"{ACTOR}.strategy",
    f"{ACTOR}.ppo_mini_batch_size", f"{ACTOR}.optim.lr", f"{ROLLOUT}.n", f"{ROLLOUT}.temperature",
    "trainer.total_epochs",
)  # fmt: skip
"""verl's own defaults that an approver has to see."""


def draft(
    settings: Settings, data: DataReport, base: Mapping[str, Any], model: Model, paths: LaunchPaths
) -> dict[str, Any]:
    """The native keys, in reading order. The same arguments give the same mapping; its own result may be the base."""
    native = copy.deepcopy(dict(base))
    for key, value in _identity(settings, data, model, paths).items():
        dotted.put(native, key, value)
    native["trainer"].pop("resume_from_path", None)
    _set_reward(native, settings, data, paths)
    _set_rollout(native, settings)
    _set_default(native, "algorithm.adv_estimator", "grpo")
    _set_default(native, "data.seed", 42)  # verl's own null shuffles anew at every start
    for key in _SHOWN if _is_cpu(native) else (*_SHOWN, f"{ROLLOUT}.gpu_memory_utilization"):
        _set_default(native, key, dotted.get(SEEN_DEFAULTS, key))
    train = data.split("train")
    _set_cadence(native, settings, train.counts.usable if train else 0)
    return _ordered(native)


def placement(settings: Settings, native: Mapping[str, Any]) -> Placement:
    """The devices of the setting, none for a CPU smoke plan; one process: verl's leader starts all others."""
    return Placement("" if _is_cpu(native) else settings.text("CUDA_VISIBLE_DEVICES"), 1)


def result_block(settings: Settings) -> dict[str, Any]:
    """How the best checkpoint is chosen, and whether a model folder is made of it."""
    mode = settings.text("verl_selection_mode", "max")
    exports = settings.values.get("verl_export_huggingface") is not False
    return {
        "selection_metric": settings.text("verl_selection_metric"),
        "selection_mode": _MODES.get(mode, mode),
        "export_huggingface": exports or _is_multi_round(settings),
    }


def run_folders(run: str) -> dict[str, str]:
    """Key -> the folder of the run directory `run` that training writes to."""
    return {
        "trainer.default_local_dir": os.path.join(run, "checkpoints"),
        "trainer.rollout_data_dir": os.path.join(run, ROLLOUTS_FOLDER),
        "trainer.validation_data_dir": os.path.join(run, VALIDATIONS_FOLDER),
    }


def _identity(settings: Settings, data: DataReport, model: Model, paths: LaunchPaths) -> dict[str, Any]:
    train, validation = data.split("train"), data.split("validation")
    return {
        "data.train_files": train.snapshot.path if train else None,
        "data.val_files": validation.snapshot.path if validation else None,
        f"{MODEL}.path": model.path,
        "trainer.project_name": settings.text("task_id") or "default",
        "trainer.experiment_name": settings.text("trainer_version_id") or os.path.basename(paths.run),
        "trainer.nnodes": settings.values.get("nodes") or 1,
        **run_folders(paths.run),
        "trainer.resume_mode": "disable",
        "trainer.logger": [*LOGGER, *sinks.asked(settings)],
    }


def _set_reward(native: dict[str, Any], settings: Settings, data: DataReport, paths: LaunchPaths) -> None:
    family = keys.family(settings.text(BACKEND_VERSION) or "0.9")
    block = reward.native_keys(reward.reward_block(settings, data), paths.inputs, family)
    top = keys.REWARD_BLOCK[family]
    native[top] = block if family == "0.8" else {**(native.get(top) or {}), **block}


def _set_rollout(native: dict[str, Any], settings: Settings) -> None:
    is_cpu = _is_cpu(native)
    chosen = settings.text("verl_rollout_backend")
    if chosen:
        dotted.put(native, f"{ROLLOUT}.name", chosen)
    else:
        _set_default(native, f"{ROLLOUT}.name", CPU_ROLLOUT if is_cpu else "vllm")
    # verl's default is 2, which fails on one GPU after all workers are up.
    _set_default(native, f"{ROLLOUT}.tensor_model_parallel_size", 1)
    ranks = settings.values.get("nproc_per_node") or 1 if is_cpu else _device_count(settings)
    dotted.put(native, "trainer.n_gpus_per_node", ranks)
    if settings.values.get("executor") == cluster.RAY_JOBS:
        _join_cluster(native)
        return
    _set_default(native, "ray_kwargs.ray_init.include_dashboard", False)
    if is_cpu:
        dotted.put(native, "ray_kwargs.ray_init.num_gpus", ranks)  # logical ones, as many as ranks


def _join_cluster(native: dict[str, Any]) -> None:
    """Take away what only a Ray of verl's own may be told: ray.init refuses it where it joins one (ray 2.60)."""
    told = dotted.get(native, "ray_kwargs.ray_init")
    for name in ("include_dashboard", "num_cpus", "num_gpus"):
        if isinstance(told, dict):
            told.pop(name, None)


def _device_count(settings: Settings) -> int:
    try:
        return max(1, len(parse_devices(settings.text("CUDA_VISIBLE_DEVICES"))))
    except ValueError:
        return 1


def _set_cadence(native: dict[str, Any], settings: Settings, rows: int) -> None:
    """How often to save and to validate, and how many checkpoints to keep."""
    total = schedule.compute(Effective(native, SEEN_DEFAULTS), rows).total_steps
    every = max(1, min(_MOST_STEPS_BETWEEN_SAVES, math.ceil(total / 4)))
    _set_default(native, "trainer.val_before_train", True)
    for key in ("trainer.save_freq", "trainer.test_freq"):
        _set_default(native, key, every)
        value = dotted.get(native, key)
        if _is_multi_round(settings) and isinstance(value, int) and value <= 0:
            dotted.put(native, key, every)  # a smoke template saves nothing, and nothing could follow it
    keep = settings.values.get("verl_max_actor_ckpt_to_keep")
    if keep is not None:
        dotted.put(native, "trainer.max_actor_ckpt_to_keep", keep)
    _set_default(native, "trainer.max_actor_ckpt_to_keep", DEFAULT_KEEP)


def _is_multi_round(settings: Settings) -> bool:
    return settings.values.get("verl_multi_round_enabled") is True


def _is_cpu(native: Mapping[str, Any]) -> bool:
    return bool(dotted.get(native, "trainer.device") == "cpu")


def _set_default(native: dict[str, Any], key: str, value: Any) -> None:
    if not dotted.has(native, key):
        dotted.put(native, key, value)


def _ordered(native: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in FIRST_KEYS:
        if dotted.has(native, key) and not isinstance(dotted.get(native, key), dict):
            dotted.put(found, key, dotted.get(native, key))
        elif dotted.has(native, key):
            dotted.put(found, key, _merged(dotted.get(found, key) or {}, dotted.get(native, key)))
    return _merged(found, native)


def _merged(first: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    """Everything of `rest`, what `first` holds in its order before the others."""
    merged = dict(first)
    for name, value in rest.items():
        if isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = _merged(merged[name], value)
        elif name not in merged:
            merged[name] = value
    return merged
