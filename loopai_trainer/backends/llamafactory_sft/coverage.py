"""Which keys name what training reads or writes: covered by the approved hash, harmless, or refused.

Every text key of LLaMA-Factory 0.9.5 stands in one table here; a text under any other key is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.records import Problem
from loopai_trainer.rules.secrets import is_secret_name

FILE_KEYS = ("deepspeed", "fsdp_config", "accelerator_config")
"""Small files that training reads: copied into `inputs/`, so that the hash covers them."""

COVERED: Mapping[str, str] = {
    "model_name_or_path": "the model's fingerprint",
    "dataset": "names entries of the pinned registry",
    "eval_dataset": "names entries of the pinned registry",
    "dataset_dir": "holds the pinned registry",
    "output_dir": "the run's own folder",
    "resume_from_checkpoint": "loopai.resume, whose files are all pinned",
    **dict.fromkeys(FILE_KEYS, "a pinned copy"),
}
"""Key -> what covers its value. `check` holds each of them against the plan."""

_MERGE = "merge the adapter into a model folder first (llamafactory-cli export)"
_SFT = "leave it out: supervised fine-tuning has no such model"
_EXPORT = "leave it out: it exports nothing"

UNCOVERED: Mapping[str, str] = {
    "adapter_name_or_path": _MERGE,
    "adapter_folder": "leave it out",
    "ref_model": _SFT,
    "ref_model_adapters": _SFT,
    "reward_model": _SFT,
    "reward_model_adapters": _SFT,
    "tokenized_path": "leave it out: with it every other data key is ignored",
    "new_special_tokens_config": "add the tokens to the model's tokenizer first",
    "generation_config": "leave it out: the model folder's own is used",
    "hyper_parallel_args": "leave it out",
    "use_hyper_parallel": "leave it out: another trainer would train",
    "use_mca": "leave it out: another trainer would train",
    "use_kt": "leave it out: another trainer would train",
    "kt_weight_path": "leave it out",
    "kt_expert_checkpoint_path": "leave it out",
    "media_dir": "leave it out: only text is prepared",
    "cache_dir": "leave it out: caches lie inside the run",
    "parallelism_config": "leave it out",
    "export_dir": _EXPORT,
    "export_hub_model_id": _EXPORT,
    "export_quantization_dataset": _EXPORT,
    "streaming": "leave it out: the number of examples could not be checked",
    "push_to_hub": "leave it out: training runs offline",
    "hub_model_id": "leave it out: training runs offline",
    "trackio_space_id": "leave it out: training runs offline",
    "trackio_bucket_id": "leave it out: training runs offline",
    "trackio_static_space_id": "leave it out: training runs offline",
}
"""Keys through which training would read or write what the approved hash does not cover -> what to do instead."""

FOLDERS = ("logging_dir", "swanlab_logdir", "offload_folder", "profiler_output_dir")
"""Folders that training writes to: they have to lie in `launch/` (relative ones do), `metrics/` or `checkpoints/`."""

_HOW_TO_TRAIN = (
    "additional_target", "apollo_proj", "apollo_proj_type", "apollo_scale_type", "apollo_target", "badam_mask_mode",
    "badam_mode", "badam_switch_mode", "ddp_backend", "debug", "default_system", "eval_strategy", "finetuning_type",
    "flash_attn", "fp8_backend", "freeze_extra_modules", "freeze_trainable_modules", "fsdp", "galore_proj_type",
    "galore_target", "gradient_checkpointing_kwargs", "include_for_metrics", "include_num_input_tokens_seen",
    "init_special_tokens", "interleave_probs", "label_names", "length_column_name", "liger_kernel_config",
    "lora_target", "lr_scheduler_kwargs", "lr_scheduler_type", "metric_for_best_model", "mix_strategy",
    "mixture_of_depths", "oft_target", "optim", "optim_args", "optim_target_modules", "pref_loss",
    "profile_modules", "quantization_device_map", "quantization_method", "quantization_type", "rope_scaling",
    "save_strategy", "stage", "template", "tool_format", "torch_compile_backend", "torch_compile_mode",
    "train_sampling_strategy",
)  # fmt: skip
_FOR_PEOPLE = (
    "log_level", "log_level_replica", "logging_strategy", "project", "report_to", "run_name", "swanlab_mode",
    "swanlab_project", "swanlab_run_name", "swanlab_workspace",
)  # fmt: skip
_NOT_READ = (
    "export_device", "infer_backend", "infer_dtype", "reward_model_type", "sglang_config", "sglang_lora_backend",
    "vllm_config",
)  # fmt: skip

HARMLESS: Mapping[str, str] = {
    **dict.fromkeys(_HOW_TO_TRAIN, "a name or number of the method itself, which stands in the YAML in full"),
    **dict.fromkeys(_FOR_PEOPLE, "what is logged, and under which name"),
    **dict.fromkeys(_NOT_READ, "`train` does not read it in the stage sft"),
    "add_tokens": "a list of tokens, not a file",
    "add_special_tokens": "a list of tokens, not a file",
    "model_revision": "a local folder has no revisions",
    "hub_revision": "read with push_to_hub alone, which is refused",
    "hub_strategy": "read with push_to_hub alone, which is refused",
    "master_addr": "read under Ray alone, which the launcher leaves off",
    "master_port": "read under Ray alone, which the launcher leaves off",
    "ray_init_kwargs": "read under Ray alone, which the launcher leaves off",
}
"""Text keys whose value names neither a file, a folder, a model nor a place on a network -> why."""


def is_secret(name: str) -> bool:
    """Whether a key or variable of that name holds a token, a password or the like."""
    return is_secret_name(name)


def is_classified(key: str) -> bool:
    """Whether a text under this key is judged by a rule or known to be harmless."""
    return key in COVERED or key in UNCOVERED or key in FOLDERS or key in HARMLESS or is_secret(key)


def coverage_problems(native: Mapping[str, Any], run: str) -> Iterator[Problem]:
    """All findings on keys that reach out of the approved hash or out of the run directory `run`."""
    for key, value in native.items():
        if value in (None, False, "") or value == []:
            continue
        if is_secret(key):
            yield _secret(key)
        elif key in UNCOVERED:
            message = f"'{key}' is set: training would use what the approved hash does not cover"
            yield _error("UNCOVERED_INPUT", message, UNCOVERED[key], key)
        elif key in FOLDERS:
            yield from output_problems(key, value, run)
        elif not is_classified(key) and _holds_text(value):
            message = f"'{key}' may name a file or a model, and this version of the trainer does not know what reads it"
            yield _error("UNCOVERED_INPUT", message, f"remove {key}", key)


def _holds_text(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_text, value.values()))
    return any(map(_holds_text, value)) if isinstance(value, list) else isinstance(value, str)


def _secret(key: str) -> Problem:
    message = f"'{key}' holds a secret, which would stand in the plan, in its copies and in what is shown"
    hint = f"remove {key}; name the variable that holds it in loopai.launch.pass_env (such as HF_TOKEN)"
    return _error("SECRET_IN_CONFIG", message, hint, key)


def output_problems(key: str, value: Any, run: str) -> Iterator[Problem]:
    """A finding if training would write outside of its run. A relative name lies in `launch/`, its working folder."""
    folder = os.path.normpath(os.path.join(run, "launch", str(value)))
    ours = [os.path.join(run, name) for name in ("launch", "metrics", "checkpoints")]
    if "://" in str(value) or not any(folder == own or folder.startswith(own + os.sep) for own in ours):
        message = f"'{key}' is {value}: training would write outside of its run"
        yield _error("OUTPUT_ELSEWHERE", message, f"remove {key}, or name a relative folder", key)


def _error(code: str, message: str, hint: str, field: str) -> Problem:
    return Problem("error", code, "config", message, hint, field=field)
