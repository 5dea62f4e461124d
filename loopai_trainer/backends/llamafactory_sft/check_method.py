"""Rules on the training method: LoRA targets, quantisation with ZeRO-3 and FSDP, and the packages that they need."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.llamafactory_sft.deepspeed import deepspeed_config, zero_stage
from loopai_trainer.backends.llamafactory_sft.launch import reporters
from loopai_trainer.files.model_folder import ModelFolder, module_names
from loopai_trainer.records import Problem, Severity, Versions
from loopai_trainer.rules import sinks

PACKAGES: Mapping[str, str] = {
    "deepspeed": "deepspeed",
    "use_unsloth": "unsloth",
    "enable_liger_kernel": "liger-kernel",
    "use_galore": "galore-torch",
    "use_apollo": "apollo-torch",
    "use_badam": "badam",
    "use_adam_mini": "adam-mini",
    "plot_loss": "matplotlib",
    "predict_with_generate": "jieba",
}
"""Key -> distribution that it demands. Source: hparams/parser.py `_check_extra_dependencies`, 0.9.5."""

QUANTIZERS: Mapping[str, str] = {"bnb": "bitsandbytes", "hqq": "hqq", "eetq": "eetq"}
DEQUANTIZED = ("mxfp4", "fp8")
"""Formats that LLaMA-Factory turns back into plain weights, so that ZeRO-3 can have them (quantization.py, 0.9.5)."""


def method_problems(native: Mapping[str, Any], model: ModelFolder, versions: Versions) -> list[Problem]:
    """All findings on the method."""
    sharded = _sharded(native)
    return [
        *_targets(native, model),
        *_quantisation(native, model, sharded),
        *_packages(native, versions),
    ]


def _problem(severity: Severity, code: str, message: str, hint: str, field: str) -> Problem:
    return Problem(severity, code, "config", message, hint, field=field)


def _targets(native: Mapping[str, Any], model: ModelFolder) -> Iterator[Problem]:
    """A misspelt target is skipped without a word as long as another one matches."""
    if native.get("finetuning_type") != "lora" or model.weights is None or not model.weights.tensors:
        return
    known = module_names(model.weights)
    if model.config.get("tie_word_embeddings"):
        known = known | {"lm_head"}  # a module all the same: its weights are the embeddings', so the file lacks them
    for key in ("lora_target", "additional_target"):
        value = native.get(key)
        names = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
        for name in (str(item).strip() for item in names):
            if name in ("", "all") or name.rpartition(".")[2] in known:
                continue
            close = difflib.get_close_matches(name, known, n=1)
            listed = ", ".join(sorted(known)[:12])
            message = f"'{key}' names {name!r}, which matches no module of the model (it has {listed})"
            # Some architectures fuse expert weights while loading, so that file names are not the whole truth there.
            severity: Severity = "warning" if "num_experts" in model.config else "error"
            hint = f"did you mean {close[0]}?" if close else "use one of the model's modules"
            yield _problem(severity, "LORA_TARGET_UNKNOWN", message, hint, key)


def _quantisation(native: Mapping[str, Any], model: ModelFolder, sharded: str) -> Iterator[Problem]:
    bits, method = native.get("quantization_bit"), native.get("finetuning_type")
    stored = model.config.get("quantization_config")
    kind = str(stored.get("quant_method", "unknown")).lower() if isinstance(stored, dict) else ""
    if bits is not None and method not in ("lora", "oft"):
        message = f"'quantization_bit' goes with LoRA and OFT only, not with finetuning_type {method}"
        yield _problem("error", "QUANT_NEEDS_LORA", message, "remove quantization_bit, or use lora", "quantization_bit")
    if kind and method not in ("lora", "oft") and kind not in DEQUANTIZED:
        message = f"the model is stored quantised ({kind}): its weights cannot be trained in full"
        yield _problem("error", "QUANT_NEEDS_LORA", message, "use finetuning_type: lora", "finetuning_type")
    if sharded and kind and kind not in DEQUANTIZED:
        message = f"the model is stored quantised ({kind}), which {sharded} cannot shard"
        yield _problem("error", "QUANT_WITH_SHARDING", message, f"train without {sharded}", "deepspeed")
    if sharded and bits is not None and not kind:
        if native.get("quantization_method", "bnb") != "bnb" or bits != 4:
            message = f"{sharded} goes with 4-bit bitsandbytes only, not with {bits} bit"
            yield _problem("error", "QUANT_WITH_SHARDING", message, "set quantization_bit: 4", "quantization_bit")
        else:
            message = f"4-bit loading with {sharded} needs bitsandbytes >= 0.43 and versions that fit each other"
            hint = f"try a short run first, or train without {sharded}"
            yield _problem("warning", "QUANT_WITH_SHARDING", message, hint, "quantization_bit")


def _sharded(native: Mapping[str, Any]) -> str:
    """What shards the weights, if anything does."""
    if zero_stage(deepspeed_config(native)) == 3:
        return "ZeRO-3"
    return "FSDP" if native.get("fsdp") else ""


def _packages(native: Mapping[str, Any], versions: Versions) -> Iterator[Problem]:
    needed = [(key, package) for key, package in PACKAGES.items() if native.get(key)]
    if native.get("quantization_bit") is not None:
        method = str(native.get("quantization_method", "bnb"))
        needed.append(("quantization_bit", QUANTIZERS.get(method, method)))
    for key, package in needed:
        if package not in versions.distributions:
            message = f"'{key}' needs the package {package}, which the training environment does not hold"
            hint = f"install {package} in that environment, or remove {key}"
            yield Problem("error", "PACKAGE_MISSING", "environment", message, hint, field=key)
    yield from _reporters(native, versions)


def _reporters(native: Mapping[str, Any], versions: Versions) -> Iterator[Problem]:
    """Source: transformers 5.6, `get_reporting_integration_callbacks`; SwanLab draws what is local with swanboard."""
    names = reporters(native)
    if "all" in names:
        message = "'report_to' is 'all': metrics would go wherever some installed package sends them"
        yield _problem("error", "REPORT_TO", message, "name what you want, or set report_to: none", "report_to")
    told = native.get("report_to")
    told = told if isinstance(told, list) else [told]
    yield from sinks.missing([name for name in names if name in told], versions, "report_to")
    yield from sinks.missing([name for name in names if name not in told], versions, "use_swanlab")
    is_local = native.get("use_swanlab") is True and native.get("swanlab_mode") == "local"
    if is_local and "swanlab" in versions.distributions and "swanboard" not in versions.distributions:
        message = "'swanlab_mode' local needs the package swanboard, which the training environment does not hold"
        hint = "pip install 'swanlab[dashboard]' in that environment, or set report_online"
        yield Problem("error", "PACKAGE_MISSING", "environment", message, hint, field="swanlab_mode")
