"""The DeepSpeed JSON against the YAML: values that stand in both have to agree, and ZeRO-3 has to save weights.

Source: transformers 5.6.0 integrations/deepspeed.py `trainer_config_process` (it stops at a mismatch after the model
was loaded) and training_args.py for the defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from loopai_trainer.backends.llamafactory_sft import schedule
from loopai_trainer.records import Problem
from loopai_trainer.rules import dotted

_DEFAULTS: Mapping[str, Any] = {
    "max_grad_norm": 1.0,
    "learning_rate": 5.0e-5,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1.0e-8,
    "weight_decay": 0.0,
}


class _Pair(NamedTuple):
    """A dotted key of the JSON, the keys of the YAML that say the same, and the value that they have."""

    theirs: str
    ours: tuple[str, ...]
    value: Any


def deepspeed_problems(native: Mapping[str, Any], steps: schedule.Schedule) -> Iterator[Problem]:
    """All findings on the DeepSpeed configuration, if there is one."""
    config = deepspeed_config(native)
    if not config:
        return
    stage3 = zero_stage(config) == 3
    zero = config.get("zero_optimization")
    if stage3 and isinstance(zero, dict) and zero.get("stage3_gather_16bit_weights_on_model_save") is not True:
        message = "ZeRO-3 without stage3_gather_16bit_weights_on_model_save: checkpoints would hold no usable weights"
        hint = "set stage3_gather_16bit_weights_on_model_save: true in the DeepSpeed JSON"
        yield _problem("ZERO3_NO_WEIGHTS", message, hint, "deepspeed")
    for pair in _pairs(native, steps):
        found = dotted.get(config, pair.theirs)
        if found in (None, "auto") or found == pair.value:
            continue
        message = f"the DeepSpeed JSON says {pair.theirs} {found}, the YAML says {_said(pair)}"
        yield _problem("DEEPSPEED_MISMATCH", message, f'set {pair.theirs} to "auto" in the JSON', pair.ours[0])


def deepspeed_config(native: Mapping[str, Any]) -> Mapping[str, Any]:
    """The DeepSpeed configuration, from the YAML or from the file that it names; empty if there is none to read."""
    value = native.get("deepspeed")
    if isinstance(value, str):
        try:
            with open(value, "rb") as file:
                value = json.load(file)
        except (OSError, ValueError):
            return {}
    return value if isinstance(value, dict) else {}


def zero_stage(config: Mapping[str, Any]) -> Any:
    """The stage of ZeRO that the configuration asks for; None if it asks for none."""
    return dotted.get(config, "zero_optimization.stage")


def _pairs(native: Mapping[str, Any], steps: schedule.Schedule) -> list[_Pair]:
    def value(key: str) -> Any:
        return native.get(key, _DEFAULTS.get(key))

    batches = [
        _Pair("train_micro_batch_size_per_gpu", ("per_device_train_batch_size",), steps.per_device_batch),
        _Pair(
            "train_batch_size",
            ("per_device_train_batch_size", "gradient_accumulation_steps", "the number of processes"),
            steps.effective_batch,
        ),
    ]
    return [
        *([] if native.get("auto_find_batch_size") is True else batches),
        _Pair("gradient_accumulation_steps", ("gradient_accumulation_steps",), steps.accumulation),
        _Pair("gradient_clipping", ("max_grad_norm",), value("max_grad_norm")),
        _Pair("optimizer.params.lr", ("learning_rate",), value("learning_rate")),
        _Pair("optimizer.params.betas", ("adam_beta1", "adam_beta2"), [value("adam_beta1"), value("adam_beta2")]),
        _Pair("optimizer.params.eps", ("adam_epsilon",), value("adam_epsilon")),
        _Pair("optimizer.params.weight_decay", ("weight_decay",), value("weight_decay")),
        _Pair("scheduler.params.warmup_max_lr", ("learning_rate",), value("learning_rate")),
        _Pair("fp16.enabled", ("fp16",), bool(native.get("fp16") or native.get("fp16_full_eval"))),
        _Pair("bf16.enabled", ("bf16",), bool(native.get("bf16") or native.get("bf16_full_eval"))),
    ]


def _said(pair: _Pair) -> str:
    value = str(pair.value).lower() if isinstance(pair.value, bool) else pair.value
    return f"{' x '.join(pair.ours)} {value}" if len(pair.ours) != 2 else f"{' and '.join(pair.ours)} {value}"


def _problem(code: str, message: str, hint: str, field: str) -> Problem:
    return Problem("error", code, "config", message, hint, field=field)
