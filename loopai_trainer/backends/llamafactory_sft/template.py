"""Judges the keys and value types of a template against the installed LLaMA-Factory's own arguments."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.llamafactory_sft.arguments import Argument, read_arguments
from loopai_trainer.backends.llamafactory_sft.ranges import FINITE_HINT, metric_fault, range_fault
from loopai_trainer.records import Problem, Versions

RESERVED = ("loopai", "result")

RENAMED: Mapping[str, str] = {
    "evaluation_strategy": "eval_strategy",
    "no_cuda": "use_cpu",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "group_by_length": "train_sampling_strategy: group_by_length",
    "lora_r": "lora_rank",
    "lora_target_modules": "lora_target",
    "target_modules": "lora_target",
    "max_seq_length": "cutoff_len",
    "max_source_length": "cutoff_len",
    "batch_size": "per_device_train_batch_size",
    "micro_batch_size": "per_device_train_batch_size",
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "train_batch_size": "per_device_train_batch_size (of one process, before accumulation)",
    "global_batch_size": "per_device_train_batch_size (of one process, before accumulation)",
    "accumulation_steps": "gradient_accumulation_steps",
    "epochs": "num_train_epochs",
    "num_epochs": "num_train_epochs",
    "lr": "learning_rate",
    "prompt_template": "template",
    "model_name": "model_name_or_path",
    "quantization": "quantization_bit",
}
"""Names of older versions and of neighbouring tools -> LLaMA-Factory 0.9.5's (transformers 5.6.0)."""

REMOVED: Mapping[str, str] = {
    "save_safetensors": "checkpoints are always safetensors now",
    "fp16_opt_level": "apex is no longer supported",
    "use_flash_attn": "write flash_attn: fa2",
}

REQUIRED: Mapping[str, str] = {
    "finetuning_type": "without it LLaMA-Factory trains LoRA",
    "template": "without it LLaMA-Factory trains on text without roles and without an end token",
}
"""Keys that a template must have -> what happens otherwise (measured with 0.9.5). prepare sets the others."""

_WANTED: Mapping[str, str] = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "dict": "a mapping",
    "list": "a list",
}


def template_problems(template: Mapping[str, Any], lines: Mapping[str, int], versions: Versions) -> list[Problem]:
    """Unknown keys, values of the wrong type or outside their choices, missing keys; by line."""
    known = read_arguments(versions)
    problems = [problem for key, value in template.items() for problem in _judge(key, value, lines, known)]
    problems += [
        Problem(
            "error", "KEY_MISSING", "template", f"'{key}' is missing: {why}", f"add {key} to the template", field=key
        )
        for key, why in REQUIRED.items()
        if template.get(key) is None
    ]
    metric = metric_fault(template)
    if metric:
        problems.append(_problem("WRONG_VALUE", metric[1], metric[2], metric[0], lines))
    stage = template.get("stage", "sft")
    if stage != "sft" and stage in known["stage"].choices:
        message = f"the template trains the stage '{stage}', this plan is sft"
        problems.append(
            Problem(
                "error",
                "STAGE_MISMATCH",
                "template",
                message,
                "use an SFT template",
                None,
                lines.get("stage"),
                field="stage",
            )
        )
    return sorted(problems, key=lambda problem: problem.line or 0)


def _judge(key: str, value: Any, lines: Mapping[str, int], known: Mapping[str, Argument]) -> Iterator[Problem]:
    if key in RESERVED:
        return
    argument = known.get(key)
    if argument is None:
        message, hint = _unknown(key, known)
        yield _problem("UNKNOWN_KEY", message, hint, key, lines)
        return
    fault = _fault(argument, value)
    outside = range_fault(key, value)
    if fault:
        yield _problem("WRONG_TYPE" if fault[2] else "WRONG_VALUE", fault[0], fault[1], key, lines)
    elif outside:
        yield _problem("VALUE_OUT_OF_RANGE", *outside, key, lines)


def _problem(code: str, message: str, hint: str, key: str, lines: Mapping[str, int]) -> Problem:
    return Problem("error", code, "template", message, hint, line=lines.get(key), field=key)


def _unknown(key: str, known: Mapping[str, Argument]) -> tuple[str, str]:
    if key in RENAMED:
        return f"'{key}' is not a key of this LLaMA-Factory", f"it is called {RENAMED[key]} now"
    if key in REMOVED:
        return f"'{key}' is no longer a key of LLaMA-Factory", f"remove it: {REMOVED[key]}"
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.7)
    return f"'{key}' is not a key of this LLaMA-Factory", f"did you mean {close[0]}?" if close else "remove it"


def _fault(argument: Argument, value: Any) -> tuple[str, str, bool] | None:
    """(message, hint, whether the type is at fault), or None."""
    if value is None:
        return None if argument.optional else (f"'{argument.name}' has no value", "give it a value, or remove it", True)
    if not _fits(argument, value):
        wanted = " or ".join(_WANTED[kind] for kind in sorted(argument.kinds))
        return f"'{argument.name}' is {_shown(value)}, it has to be {wanted}", _type_hint(argument, value), True
    if argument.choices and isinstance(value, str) and value not in argument.choices:
        close = difflib.get_close_matches(value, [str(choice) for choice in argument.choices], n=1)
        allowed = ", ".join(str(choice) for choice in argument.choices)
        hint = f"did you mean {close[0]}?" if close else "use one of the allowed values"
        return f"'{argument.name}' is {value!r}, allowed are {allowed}", hint, False
    return None


def _fits(argument: Argument, value: Any) -> bool:
    kind = type(value).__name__
    if kind in argument.kinds or (kind == "int" and "float" in argument.kinds):
        return True
    return argument.listable and isinstance(value, list) and all(isinstance(item, str | float) for item in value)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, bool):
        return "the truth value " + ("true" if value else "false")
    return f"the {'list' if isinstance(value, list) else 'mapping' if isinstance(value, dict) else 'number'} {value!r}"


def _type_hint(argument: Argument, value: Any) -> str:
    name = argument.name
    if isinstance(value, bool) and "str" in argument.kinds:
        words = ("yes", "on", "true") if value else ("no", "off", "false")
        fitting = next((word for word in words if word in argument.choices), None)
        return f"write {name}: '{fitting}' (with quotes)" if fitting else "quote the text"
    if isinstance(value, float) and "int" in argument.kinds and value.is_integer():
        return f"write {name}: {int(value)}"
    if isinstance(value, str):
        return _unquoted(argument, value)
    return "quote the text" if "str" in argument.kinds else "correct the value"


def _unquoted(argument: Argument, text: str) -> str:
    if "bool" in argument.kinds and text.lower() in ("true", "false", "yes", "no", "on", "off"):
        value = text.lower() in ("true", "yes", "on")
        return f"write {argument.name}: {str(value).lower()} (without quotes)"
    try:
        number = float(text)
    except ValueError:
        return "correct the value"
    if not math.isfinite(number):
        return FINITE_HINT if argument.kinds & {"int", "float"} else "correct the value"
    if "int" in argument.kinds and number.is_integer():
        return f"write {argument.name}: {int(number)} (without quotes)"
    if "float" in argument.kinds:
        return f"write {argument.name}: {_yaml_float(number)} (without quotes)"
    return "correct the value"


def _yaml_float(number: float) -> str:
    """With a point before the exponent: PyYAML reads `1e-04` as text."""
    text = repr(number)
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if mark and "." not in mantissa else text
