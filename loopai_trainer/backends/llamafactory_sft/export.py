"""Merges an adapter into its base model with LLaMA-Factory's own export: what is asked, and what is refused first.

Its exit status is 0 too if the tokenizer could not be saved (train/tuner.py, 0.9.5); what it leaves is judged by
files.exported_model. Full checkpoints are model folders already.
"""

from __future__ import annotations

import os
from collections import Counter

from loopai_trainer.files import exported_model, safetensors
from loopai_trainer.files.model_folder import TOKENIZER_FILES
from loopai_trainer.records import Command, Problem
from loopai_trainer.rules import launch_env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from loopai_trainer.records import Checkpoint, Plan

ADAPTERS = ("lora", "oft")
"""Methods whose checkpoints hold an adapter alone."""

CARRIED = (
    "template", "trust_remote_code", "use_fast_tokenizer", "split_special_tokens", "rope_scaling", "tool_format",
    "default_system", "enable_thinking",
)  # fmt: skip
"""Keys of the training that decide how the model and its tokenizer are loaded and what they are saved with."""

SHARD_GB = 5

_CHANGED_VOCABULARY = ("resize_vocab", "add_tokens", "add_special_tokens")
_CHANGED_BASE = ("pissa", "olora", "corda", "loftq")
"""Beginnings of `init_lora_weights` with which training starts from changed base weights. Source: PEFT 0.18.1,
tuners/lora/layer.py."""

_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
_BY_HAND = "leave it out, and merge by hand after training (llamafactory-cli export)"


def export(plan: Plan, checkpoint: Checkpoint, destination: str) -> Command | None:
    """The merge's command: on the CPU, offline; None for a checkpoint that is a model folder already."""
    if not _is_adapter(checkpoint):
        return None
    python = plan.loopai["backend"]["python"]
    program = os.path.join(os.path.dirname(python), "llamafactory-cli")
    config = os.path.join(os.path.dirname(destination), config_name(checkpoint))
    env = {
        "PATH": os.path.dirname(python) + os.pathsep + launch_env.SYSTEM_PATH,
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    return Command((python, program, "export", config), "", env)


def export_files(plan: Plan, checkpoint: Checkpoint, destination: str) -> dict[str, str]:
    """Name -> text of the YAML that the command reads; it stays beside the exported folder."""
    from loopai_trainer.rules import yaml_text

    native = plan.native
    values: dict[str, Any] = {
        "model_name_or_path": _base(plan),
        "adapter_name_or_path": checkpoint.path,
        "finetuning_type": native.get("finetuning_type"),
        **{key: native[key] for key in CARRIED if native.get(key) is not None},
        "export_dir": destination,
        "export_size": SHARD_GB,
        "export_device": "cpu",
        "export_legacy_format": False,
        "infer_dtype": _DTYPES.get(base_format(_base(plan)) or "", "auto"),
    }
    note = "# What llamafactory-cli export read. The folder gets its name without '.partial-' once it is verified.\n"
    return {config_name(checkpoint): note + yaml_text.dump(values)}


def config_name(checkpoint: Checkpoint) -> str:
    """The name of that YAML."""
    return f"{checkpoint.name}.export.yaml"


def export_problems(plan: Plan, checkpoint: Checkpoint) -> list[Problem]:
    """Why a merge would fail, or be wrong without saying so, or a full checkpoint is no model. Reads no weights."""
    if not _is_adapter(checkpoint):
        return exported_model.checkpoint_problems(_base(plan), checkpoint.path)
    found = list(plan_problems(plan.native, _config(_base(plan))))
    started = (exported_model.json_object(os.path.join(checkpoint.path, "adapter_config.json")) or {}).get(
        "init_lora_weights"
    )
    if isinstance(started, str) and started.lower().startswith(_CHANGED_BASE):
        message = f"{checkpoint.name} belongs to base weights that training had changed (init_lora_weights: {started})"
        found.append(_problem("EXPORT_CHANGED_BASE", message, "merge it by hand as PEFT describes", checkpoint.path))
    for path in (_base(plan), checkpoint.path):
        if "," in path:
            message = f"LLaMA-Factory takes {path} for several paths, because of its comma"
            found.append(_problem("EXPORT_PATH", message, "copy it to a folder without a comma", path))
    return found


def plan_problems(native: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Problem]:
    """Why an adapter that is trained so cannot be merged into its base; `config`: the base's config.json.

    A base that is quantised while it is loaded (quantization_bit) is no hindrance: its stored weights are whole.
    """
    if native.get("finetuning_type") not in ADAPTERS:
        return
    stored = config.get("quantization_config")
    if isinstance(stored, dict):
        kind = stored.get("quant_method", "unknown")
        message = f"the base model is stored quantised ({kind}): an adapter cannot be merged into such weights"
        hint = "go on with the adapter itself, or train on the model's full weights"
        yield _problem("EXPORT_QUANTISED", message, hint, None, "result.export_huggingface")
    for key in _CHANGED_VOCABULARY:
        if native.get(key):
            message = f"'{key}' changes the vocabulary, so that the merged model cannot be held against its base"
            yield _problem("EXPORT_VOCABULARY", message, _BY_HAND, None, "result.export_huggingface")
    if native.get("pissa_init") is True:
        message = "'pissa_init' changes the base weights that the adapter belongs to: a plain merge would be wrong"
        yield _problem("EXPORT_CHANGED_BASE", message, _BY_HAND, None, "result.export_huggingface")


def result_problems(result: Mapping[str, Any], native: Mapping[str, Any], config: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with `result.export_huggingface`, before anything is trained."""
    wanted = result.get("export_huggingface")
    if wanted not in (None, True, False):
        message = f"'result.export_huggingface' is {wanted!r}"
        return [_problem("EXPORT_INVALID", message, "write true or false", None, "result.export_huggingface")]
    return list(plan_problems(native, config)) if wanted else []


def verify_export(plan: Plan, folder: str) -> list[Problem]:
    """What is wrong with the merged model: against the base, and its tokenizer against that of the training."""
    base = _base(plan)
    found = exported_model.problems(base, folder, _tokenizer_of(plan))
    wanted, got = base_format(base), base_format(folder)
    if not found and wanted and got != wanted:
        message = f"the weights have another format than the base model's\n  expected: {wanted}\n  got:      {got}"
        found = [_problem("EXPORT_WEIGHTS", message, "export it again", folder)]
    return found


def base_format(folder: str) -> str | None:
    """The float format that most tensors of a model folder have; None if its headers cannot be read."""
    try:
        paths = [os.path.join(folder, name) for name in exported_model.weight_files(folder)]
        formats = Counter(tensor.dtype for path in paths for tensor in safetensors.read_header(path))
    except (OSError, safetensors.Damaged):
        return None
    known = [(count, name) for name, count in formats.items() if name in exported_model.FORMATS]
    return max(known)[1] if known else None


def _tokenizer_of(plan: Plan) -> str | None:
    """The training's own tokenizer, to which the chosen template has added tokens; None if it saved none."""
    folder = str(plan.native.get("output_dir"))
    return folder if any(os.path.isfile(os.path.join(folder, name)) for name in TOKENIZER_FILES) else None


def _is_adapter(checkpoint: Checkpoint) -> bool:
    return os.path.isfile(os.path.join(checkpoint.path, "adapter_config.json"))


def _base(plan: Plan) -> str:
    """The folder of the model that training started from."""
    return str(plan.loopai["inputs"]["model"]["path"])


def _config(base: str) -> dict[str, Any]:
    return exported_model.json_object(os.path.join(base, exported_model.CONFIG)) or {}


def _problem(code: str, message: str, hint: str, path: str | None, field: str | None = None) -> Problem:
    return Problem("error", code, "model" if path else "config", message, hint, path=path, field=field)
