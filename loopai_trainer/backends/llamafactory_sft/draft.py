"""Writes the native keys of the final YAML: the template's, the inputs', and every default to be seen."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from loopai_trainer.backends.llamafactory_sft import schedule
from loopai_trainer.host.devices import parse_devices
from loopai_trainer.records import DataReport, LaunchPaths, Model, Settings
from loopai_trainer.rules import sinks

FIRST_KEYS = (
    "model_name_or_path", "stage", "do_train", "finetuning_type",
    "lora_rank", "lora_alpha", "lora_dropout", "lora_target", "additional_target", "quantization_bit",
    "deepspeed", "fsdp", "fsdp_config",
    "dataset", "eval_dataset", "dataset_dir", "template", "cutoff_len", "max_samples", "packing",
    "output_dir", "overwrite_output_dir",
    "per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate", "num_train_epochs", "max_steps",
    "lr_scheduler_type", "warmup_ratio", "warmup_steps", "bf16", "fp16", "use_cpu", "seed",
    "eval_strategy", "eval_steps", "per_device_eval_batch_size",
    "logging_steps", "logging_nan_inf_filter", "disable_tqdm", "plot_loss", "report_to",
    "run_name", "project", "use_swanlab", "swanlab_project", "swanlab_run_name", "swanlab_mode", "swanlab_logdir",
    "save_strategy", "save_steps", "save_total_limit", "save_only_model", "load_best_model_at_end",
)  # fmt: skip
"""Reading order; other keys of the template follow in its own order."""

OWNED_KEYS: Mapping[str, str] = {
    "model_name_or_path": "--model",
    "stage": "--stage",
    "do_train": "nothing: every run trains",
    "dataset": "--dataset",
    "eval_dataset": "--eval-dataset",
    "dataset_dir": "--dataset or --dataset-info",
    "output_dir": "--output-dir or --trainer-output-dir",
    "overwrite_output_dir": "nothing: every version has a fresh folder of its own",
}
"""Keys whose value comes from the settings, whatever a template says -> the flag that sets it."""

_DATA_KEYS = ("dataset", "eval_dataset", "dataset_dir", "val_size")

_LORA_DEFAULTS: Mapping[str, Any] = {"lora_rank": 8, "lora_dropout": 0.0, "lora_target": "all"}

_DEFAULTS: Mapping[str, Any] = {
    # What 0.9.5 with transformers 5.6.0 would do anyway, made visible.
    "cutoff_len": 2048,
    "per_device_train_batch_size": schedule.DEFAULT_BATCH_SIZE,
    "gradient_accumulation_steps": 1,
    "learning_rate": 5.0e-5,
    "num_train_epochs": schedule.DEFAULT_EPOCHS,
    "lr_scheduler_type": "linear",
    "seed": 42,
    # Different from its defaults, each for a reason.
    "overwrite_output_dir": False,
    "logging_nan_inf_filter": False,  # else a diverged run reports a loss of 0.0
    "disable_tqdm": True,  # else the log is one line of megabytes
    "plot_loss": True,
    "report_to": "none",
    "ddp_timeout": 180_000_000,  # ranks wait for rank 0's tokenising, which may take hours
    "save_strategy": "steps",
    "save_total_limit": 2,
}


def draft(
    settings: Settings, data: DataReport, base: Mapping[str, Any], model: Model, paths: LaunchPaths
) -> dict[str, Any]:
    """The native keys, in reading order. The same arguments give the same mapping."""
    native = {key: value for key, value in base.items() if key not in _DATA_KEYS}
    native.update(_inputs(data, model, paths))
    native.update(_sinks(settings, paths))
    for key, value in _DEFAULTS.items():
        native.setdefault(key, value)
    if native.get("finetuning_type") == "lora":
        for key, value in _LORA_DEFAULTS.items():
            native.setdefault(key, value)
        if native.get("lora_alpha") is None:
            native["lora_alpha"] = 2 * schedule.positive(native["lora_rank"], 8)
    train = data.split("train")
    steps = schedule.compute(native, train.counts.usable if train else 0, _world_size(settings, native))
    _set_cadence(native, steps.total_steps, settings.kept, has_validation=data.split("validation") is not None)
    return _ordered(native)


def _inputs(data: DataReport, model: Model, paths: LaunchPaths) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "model_name_or_path": model.path,
        "stage": "sft",
        "do_train": True,
        "dataset": "train",
        "output_dir": paths.checkpoints,
    }
    if data.registry is not None:
        chosen["dataset_dir"] = os.path.dirname(data.registry.path)
    if data.split("validation") is not None:
        chosen["eval_dataset"] = "validation"
    return chosen


def _sinks(settings: Settings, paths: LaunchPaths) -> dict[str, Any]:
    """Further places for metrics; nothing where none is asked for. SwanLab by LLaMA-Factory's own keys (spec/000)."""
    names = sinks.asked(settings)
    if not names:
        return {}
    task = settings.text("task_id") or "default"
    chosen: dict[str, Any] = {
        "report_to": [name for name in names if name != "swanlab"] or "none",
        "run_name": settings.text("trainer_version_id") or os.path.basename(paths.run),
    }
    if "trackio" in names:
        chosen["project"] = task
    if "swanlab" in names:
        chosen["use_swanlab"] = True
        chosen["swanlab_project"] = settings.text("train_input_swanlab_project") or sinks.PROJECT
        chosen["swanlab_run_name"] = chosen["run_name"]
        chosen["swanlab_mode"] = "cloud" if settings.values.get("report_online") is True else "local"
        chosen["swanlab_logdir"] = os.path.join(paths.metrics, "swanlab")
    return chosen


def _world_size(settings: Settings, native: Mapping[str, Any]) -> int:
    nodes = schedule.positive(settings.values.get("nodes"), 1)
    wanted = schedule.positive(settings.values.get("nproc_per_node"), 0)
    if wanted or native.get("use_cpu") is True:
        return (wanted or 1) * nodes
    try:
        return max(1, len(parse_devices(settings.text("CUDA_VISIBLE_DEVICES")))) * nodes
    except ValueError:
        return nodes


def _set_cadence(native: dict[str, Any], total: int | None, kept: frozenset[str], *, has_validation: bool) -> None:
    """How often to save, to evaluate and to log; a best checkpoint is exact only where both happen at one step.

    `kept`: keys that a person has set, which stay. What cannot be judged then is refused by the check.
    """
    if native["save_strategy"] == "steps":
        native.setdefault("save_steps", max(1, min(500, math.ceil(total / 4))) if total else 500)
    if has_validation:
        _evaluate_with_saves(native)
    else:
        native["eval_strategy"] = "no"
        for key in ("eval_steps", "do_eval", "per_device_eval_batch_size"):
            native.pop(key, None)
    every = schedule.interval(native.get("logging_steps"), total)
    if every is None:
        native["logging_steps"] = max(1, min(10, total // 20)) if total else 10
    elif total and 2 * every > total and "logging_steps" not in kept:
        native["logging_steps"] = max(1, total // 10)  # a run without a loss line cannot be judged


def _evaluate_with_saves(native: dict[str, Any]) -> None:
    if native.get("eval_strategy") in (None, "no", False):
        native["eval_strategy"] = native["save_strategy"] if native["save_strategy"] != "best" else "steps"
    if native["eval_strategy"] == "steps":
        native.setdefault("eval_steps", native.get("save_steps", 500))
    native.setdefault("per_device_eval_batch_size", native["per_device_train_batch_size"])


def _ordered(native: Mapping[str, Any]) -> dict[str, Any]:
    first = {key: native[key] for key in FIRST_KEYS if key in native}
    return {**first, **{key: value for key, value in native.items() if key not in first}}
