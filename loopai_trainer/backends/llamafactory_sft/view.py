"""What an approver has to see: the summary in reading order, and the red flags that stand before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopai_trainer.backends.llamafactory_sft import schedule
from loopai_trainer.backends.llamafactory_sft.launch import reporters
from loopai_trainer.records import Plan, Problem
from loopai_trainer.rules import sinks

_LORA_KEYS = ("lora_rank", "lora_alpha", "lora_dropout", "lora_target", "additional_target")
_LORA_STARTS = ("lora_", "loraplus_", "use_rslora", "use_dora", "pissa_", "create_new_adapter")

FLAGS: Mapping[str, tuple[str, str]] = {
    "trust_remote_code": ("code from the model folder will run", "read that code, or set it to false"),
    "overwrite_output_dir": ("what is in the output folder may be overwritten", "set it to false"),
    "push_to_hub": ("the weights would be uploaded", "remove it"),
    "max_samples": ("only the first rows of each data set are trained", "remove it to train on all rows"),
    "tokenized_path": ("data that was not checked would be trained", "remove it"),
    "streaming": ("the number of examples cannot be checked", "remove it"),
    "resume_from_checkpoint": ("an older run would be continued", "remove it"),
    "do_predict": ("predictions are generated after training", "remove it if that is not wanted"),
    "ignore_data_skip": ("a continued run would see its first rows twice", "remove it"),
    "train_on_prompt": ("questions are trained as well as answers", "remove it if that is not wanted"),
    "mask_history": ("only the last answer of each conversation is trained", "remove it if that is not wanted"),
    "resize_vocab": ("the model's vocabulary is changed", "remove it if that is not wanted"),
    **dict.fromkeys(
        ("packing", "neat_packing"),
        (
            "rows are joined: the number of examples is not held against the approved rows",
            "remove it to have it checked",
        ),
    ),
    "train_from_scratch": ("the model's weights are not loaded", "remove it to fine-tune"),
}
"""Key -> (what it means, what to do)."""


def summary(plan: Plan) -> dict[str, Any]:
    """Name -> value, in reading order."""
    native, loopai = plan.native, plan.loopai
    steps = schedule.of_plan(plan)
    inputs, launch = loopai["inputs"], loopai["launch"]
    validation = inputs.get("validation") or {}
    shown: dict[str, Any] = {
        "model": native.get("model_name_or_path"),
        "method": native.get("finetuning_type"),
        **_lora(native),
        "quantization_bit": native.get("quantization_bit"),
        "deepspeed": native.get("deepspeed"),
        "fsdp": native.get("fsdp"),
        "train_data": inputs["train"]["path"],
        "train_rows": steps.rows,
        "validation_data": validation.get("path"),
        "validation_rows": schedule.used_rows(native, validation["rows"]) if validation.get("rows") else None,
        "chat_template": native.get("template"),
        "cutoff_len": native.get("cutoff_len"),
        "learning_rate": native.get("learning_rate"),
        "lr_scheduler_type": native.get("lr_scheduler_type"),
        "epochs": round(steps.epochs, 3),
        "steps_per_epoch": steps.steps_per_epoch,
        "total_steps": steps.total_steps,
        "per_device_batch": steps.per_device_batch,
        "gradient_accumulation": steps.accumulation,
        "world_size": steps.world_size,
        "effective_batch": steps.effective_batch,
        "precision": _precision(native),
        "devices": "cpu" if native.get("use_cpu") is True else launch["devices"],
        "evaluation": _cadence(native, "eval"),
        "checkpoints": _cadence(native, "save"),
        "save_total_limit": native.get("save_total_limit"),
        "load_best_model_at_end": native.get("load_best_model_at_end", False),
        "output_dir": native.get("output_dir"),
        "report_to": ", ".join(reporters(native)) or None,
        "export_huggingface": True if plan.result.get("export_huggingface") else None,
        "seed": native.get("seed"),
        "environment": f"{loopai['backend']['package']} {loopai['backend']['version']} ({loopai['backend']['python']})",
    }
    return {name: value for name, value in shown.items() if value is not None}


def red_flags(plan: Plan) -> list[Problem]:
    """Settings that an approver should stop at. Some of them are refused by `check` as well."""
    native, launch = plan.native, plan.loopai["launch"]
    found = [
        _flag(key, f"{key}: {native[key]!r}: {meaning}", advice)
        for key, (meaning, advice) in FLAGS.items()
        if native.get(key) not in (None, False, "")
    ]
    leaving = sinks.leaving(
        reporters(native), launch.get("env") or {}, {"swanlab": native.get("swanlab_mode", "cloud")}
    )
    if leaving:
        message = f"metrics are sent to another service: {', '.join(leaving)}"
        found.append(_flag("report_to", message, "leave report_online out, or set report_to: none"))
    for name in launch.get("env") or {}:
        found.append(_flag("loopai.launch.env", f"training gets the variable {name}", "remove it if it is not needed"))
    for name in launch.get("pass_env") or ():
        message = f"training gets the variable {name} from whoever starts it"
        found.append(_flag("loopai.launch.pass_env", message, "remove it if it is not needed"))
    return found


def _flag(key: str, message: str, advice: str) -> Problem:
    return Problem("warning", "RED_FLAG", "config", message, advice, field=key)


def _lora(native: Mapping[str, Any]) -> dict[str, Any]:
    """Every LoRA field that is set: the five usual ones first."""
    if native.get("finetuning_type") != "lora":
        return {}
    others = sorted(key for key in native if key.startswith(_LORA_STARTS) and key not in _LORA_KEYS)
    return {key: native[key] for key in (*_LORA_KEYS, *others) if key in native}


def _precision(native: Mapping[str, Any]) -> str:
    on = [key for key in ("bf16", "fp16", "pure_bf16", "fp8", "tf32") if native.get(key) is True]
    return ", ".join(on) if on else "float32"


def _cadence(native: Mapping[str, Any], kind: str) -> str:
    strategy = native.get(f"{kind}_strategy", "steps" if kind == "save" else "no")
    return f"every {native.get(f'{kind}_steps', 500)} steps" if strategy == "steps" else str(strategy)
