"""What an approver has to see: the summary in reading order, and the red flags that stand before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.verl_grpo import reward, schedule
from loopai_trainer.backends.verl_grpo.coverage import CODE_KEYS, FILE_KEYS
from loopai_trainer.backends.verl_grpo.effective import ACTOR, MODEL, ROLLOUT, SEEN_DEFAULTS, Effective
from loopai_trainer.backends.verl_grpo.facts import reward_block
from loopai_trainer.backends.verl_grpo.launch import reporters
from loopai_trainer.records import Plan, Problem
from loopai_trainer.rules import dotted, sinks

SMALL_VALIDATION = 20
"""Fewer rows than this make a score of steps of 5 % and more."""

FLAGS: Mapping[str, tuple[str, str]] = {
    f"{MODEL}.trust_remote_code": ("code from the model folder will run", "read that code, or set it to false"),
    "data.trust_remote_code": ("code from the model folder will run", "read that code, or set it to false"),
    f"{MODEL}.external_lib": ("a Python module is imported by every process", "remove it"),
    f"{MODEL}.custom_chat_template": ("prompts are written in another form than the model's own", "read it"),
    f"{MODEL}.override_config": ("the model's own configuration is changed", "remove what is not needed"),
    f"{ROLLOUT}.multi_turn.enable": ("replies may call tools and go on", "remove it if that is not wanted"),
    f"{ROLLOUT}.engine_kwargs": ("the rollout engine gets further options", "remove what is not needed"),
    "trainer.resume_from_path": ("another round's checkpoint is continued", "prepare without --resume to begin anew"),
    "trainer.use_v1": ("verl's old trainer is used, which it wants to remove", "remove it"),
    "trainer.val_before_train": ("the untrained model is not scored, so that gains cannot be told", "set it to true"),
    "algorithm.filter_groups.enable": (
        "groups whose replies score alike are made anew: a step may take any time",
        "remove it",
    ),
    "critic.enable": ("a critic is trained, which GRPO does not have", "remove it"),
}
"""Key -> (what it means, what to do). Some of them are refused by `check` as well."""


_LOUD_WHEN_OFF = ("trainer.use_v1", "trainer.val_before_train")


def summary(plan: Plan) -> dict[str, Any]:
    """Name -> value, in reading order."""
    values, steps = Effective(plan.native, SEEN_DEFAULTS), schedule.of_plan(plan)
    loopai, result = plan.loopai, plan.result
    is_cpu = values.get("trainer.device") == "cpu"
    shown = {
        **_data(loopai["inputs"]),
        "model": values.get(f"{MODEL}.path"),
        **_reward(reward_block(plan) or {}),
        "algorithm": values.get("algorithm.adv_estimator"),
        "rollout_backend": values.get(f"{ROLLOUT}.name"),
        "gpus": _gpus(plan, steps),
        "strategy": values.get(f"{ACTOR}.strategy"),
        "tensor_parallel": values.get(f"{ROLLOUT}.tensor_model_parallel_size"),
        "gpu_memory_utilization": None if is_cpu else values.get(f"{ROLLOUT}.gpu_memory_utilization"),
        "train_batch_size": steps.batch,
        "replies_per_prompt": steps.group,
        "replies_per_step": steps.replies,
        "mini_batch_size": steps.mini_batch,
        "micro_batch": _micro_batch(values),
        "max_prompt_length": values.get("data.max_prompt_length"),
        "max_response_length": values.get("data.max_response_length"),
        "max_model_len": values.get(f"{ROLLOUT}.max_model_len"),
        "learning_rate": values.get(f"{ACTOR}.optim.lr"),
        "kl": _kl(values),
        "temperature": values.get(f"{ROLLOUT}.temperature"),
        "epochs": steps.epochs,
        "steps_per_epoch": steps.steps_per_epoch,
        "total_steps": steps.total_steps,
        "save_freq": values.get("trainer.save_freq"),
        "test_freq": values.get("trainer.test_freq"),
        "val_before_train": values.get("trainer.val_before_train"),
        "checkpoint_dir": values.get("trainer.default_local_dir"),
        "checkpoints_kept": values.get("trainer.max_actor_ckpt_to_keep"),
        "selection_metric": f"{result.get('selection_metric')} ({result.get('selection_mode')})",
        "export_huggingface": result.get("export_huggingface"),
        "report_to": ", ".join(reporters(plan.native)) or None,
        "seed": values.get("data.seed"),
        "environment": f"{loopai['backend']['package']} {loopai['backend']['version']} ({loopai['backend']['python']})",
    }
    return {name: value for name, value in shown.items() if value is not None}


def red_flags(plan: Plan) -> list[Problem]:
    """Settings that an approver should stop at."""
    native, launch = plan.native, plan.loopai["launch"]
    found = list(reward.red_flags(reward_block(plan) or {}))
    if dotted.get(native, "trainer.device") == "cpu":
        message = "a CPU smoke plan: replies come from the launcher's own small rollout, not from vLLM or SGLang"
        found.append(_flag("trainer.device", message, "use it to try an installation, and for nothing else"))
    for key, (meaning, advice) in FLAGS.items():
        if _stands_out(key, dotted.get(native, key)):
            found.append(_flag(key, f"{key}: {dotted.get(native, key)!r}: {meaning}", advice))
    for key in FILE_KEYS:
        value = dotted.get(native, key)
        if value:
            what = "this Python file runs in training" if key in CODE_KEYS else "this file names what runs in training"
            found.append(_flag(key, f"{key}: {value}: {what}", "read it"))
    found += _custom_reward(plan)
    found += _validation(plan)
    leaving = sinks.leaving(reporters(native), launch.get("env") or {})
    if leaving:
        message = f"metrics are sent to another service: {', '.join(leaving)}"
        found.append(
            _flag("trainer.logger", message, "leave report_online out, or set trainer.logger: [console, file]")
        )
    for name in launch.get("env") or {}:
        found.append(_flag("loopai.launch.env", f"training gets the variable {name}", "remove it if it is not needed"))
    for name in launch.get("pass_env") or ():
        message = f"training gets the variable {name} from whoever starts it"
        found.append(_flag("loopai.launch.pass_env", message, "remove it if it is not needed"))
    return found


def _stands_out(key: str, value: Any) -> bool:
    if key in _LOUD_WHEN_OFF:
        return value is False
    if key == f"{MODEL}.override_config":
        return bool(value) and set(value) != {"attn_implementation"}
    return value not in (None, False, "", {}) and value != {"vllm": {}}


def _flag(key: str, message: str, advice: str) -> Problem:
    return Problem("warning", "RED_FLAG", "config", message, advice, field=key)


def _custom_reward(plan: Plan) -> Iterator[Problem]:
    block = reward_block(plan) or {}
    if block.get("mode") == "custom":
        message = (
            f"the reward is a function of your own: {block.get('name')} in {block.get('function')}; it runs as you"
        )
        yield _flag("loopai.reward", message, "read the copy in inputs/")


def _validation(plan: Plan) -> Iterator[Problem]:
    rows = (plan.loopai["inputs"].get("validation") or {}).get("rows")
    if isinstance(rows, int) and 0 < rows < SMALL_VALIDATION:
        message = f"{rows} validation rows choose the checkpoint: one more right answer is {100 / rows:.0f} %"
        yield _flag("data.val_files", message, "give more validation data")


def _data(inputs: Mapping[str, Any]) -> dict[str, Any]:
    validation = inputs.get("validation") or {}
    return {
        "train_data": inputs["train"]["path"],
        "train_rows": inputs["train"].get("rows"),
        "validation_data": validation.get("path"),
        "validation_rows": validation.get("rows"),
    }


def _reward(block: Mapping[str, Any]) -> dict[str, Any]:
    if not block:
        return {}
    return {
        "reward_mode": block.get("mode"),
        "reward_preset": block.get("preset"),
        "reward_function": f"{block['function']}:{block.get('name')}" if block.get("function") else None,
        "reward_calls": reward.called(block),
        "reward_kwargs": block.get("kwargs") or None,
    }


def _gpus(plan: Plan, steps: schedule.Schedule) -> str:
    if dotted.get(plan.native, "trainer.device") == "cpu":
        return f"none: {steps.devices} rank(s) on the CPU"
    return f"{steps.devices} ({plan.loopai['launch']['devices']})"


def _micro_batch(values: Effective) -> str | None:
    if values.on(f"{ACTOR}.use_dynamic_bsz"):
        return f"by tokens: at most {values.get(f'{ACTOR}.ppo_max_token_len_per_gpu')} a GPU"
    size = values.get(f"{ACTOR}.ppo_micro_batch_size_per_gpu")
    return None if size is None else f"{size} replies a GPU"


def _kl(values: Effective) -> str:
    if values.on(f"{ACTOR}.use_kl_loss"):
        return f"in the loss: {values.get(f'{ACTOR}.kl_loss_coef')} {values.get(f'{ACTOR}.kl_loss_type')}"
    return "in the reward" if values.on("algorithm.use_kl_in_reward") else "none"
