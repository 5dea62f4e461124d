"""Which keys name what training reads or writes: covered by the approved hash, harmless, or refused.

Every text key of verl 0.9.1's tree stands in one table here; a text under any other key is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from loopai_trainer.backends.verl_grpo.effective import ACTOR, MODEL, REF, ROLLOUT
from loopai_trainer.records import Problem, Settings
from loopai_trainer.rules import dotted

FILE_KEYS = (
    f"{ROLLOUT}.multi_turn.tool_config_path",
    f"{ROLLOUT}.multi_turn.function_tool_path",
    f"{ROLLOUT}.multi_turn.interaction_config_path",
    f"{ROLLOUT}.agent.agent_loop_config_path",
    f"{ROLLOUT}.router_config_path",
    f"{ROLLOUT}.quantization_config_file",
    f"{ACTOR}.qat.quantization_config_path",
    f"{ACTOR}.fsdp_config.qat.quantization_config_path",
    "data.tool_config_path",
    "data.function_tool_path",
    "reward.reward_manager.module.path",
    "trainer.v1.sampler.custom_sampler.path",
)
"""Small files that training reads or runs: copied into `inputs/`, so that the hash covers them."""

CODE_KEYS = (
    f"{ROLLOUT}.multi_turn.function_tool_path",
    "data.function_tool_path",
    "reward.reward_manager.module.path",
    "trainer.v1.sampler.custom_sampler.path",
)
"""Those of them that are Python."""

CPU_SMOKE_FILES = ("loopai_cpu_platform.py", "loopai_cpu_rollout.py")

COVERED = (
    "data.train_files", "data.val_files", f"{MODEL}.path", "trainer.default_local_dir", "trainer.rollout_data_dir",
    "trainer.validation_data_dir", "trainer.resume_from_path", "reward.custom_reward_function.*",
    "custom_reward_function.*", *FILE_KEYS,
)  # fmt: skip
"""Keys whose value `check` holds against the plan, or which name a pinned copy."""

_MODEL = "leave it out: the model folder's own is used"
_CODE = "leave it out: code that the approved hash does not cover would run"
_ELSEWHERE = "leave it out: training would read or write outside of its run"
_OTHER_MODEL = "leave it out: another model would be used, which was not checked"
_ENGINE = "leave it out: only verl's FSDP engine is supported"

UNCOVERED: Mapping[str, str] = {
    f"{MODEL}.hf_config_path": _MODEL,
    f"{MODEL}.tokenizer_path": _MODEL,
    "data.tokenizer": _MODEL,
    f"{MODEL}.external_lib": _CODE,
    f"{MODEL}.lora_adapter_path": "merge the adapter into a model folder first",
    f"{MODEL}.lora.adapter_path": "merge the adapter into a model folder first",
    "data.custom_cls.*": "leave it out: other rows would be trained than those that were checked",
    f"{ROLLOUT}.agent.custom_async_server.*": _CODE,
    f"{ROLLOUT}.agent.agent_loop_manager_class": _CODE,
    f"{ROLLOUT}.checkpoint_manager_class": _CODE,
    f"{ROLLOUT}.checkpoint_engine.custom_backend_module": _CODE,
    f"{ROLLOUT}.checkpoint_engine.engine_kwargs*": _CODE,
    f"{ROLLOUT}.custom*": _CODE,
    f"{ROLLOUT}.trace.backend": "leave it out: samples would be sent to another service",
    f"{ROLLOUT}.prometheus.file": _ELSEWHERE,
    "*precision_debugger.config_path": _ELSEWHERE,
    f"{REF}.fsdp_config.qat.quantization_config_path": _ELSEWHERE,
    "trainer.checkpoint_callback_class": _CODE,
    "trainer.default_hdfs_dir": _ELSEWHERE,
    "*.finish_hook_cmd": "leave it out: a shell command would run",
    "*sandbox_fusion.url": "leave it out: the approved reward function alone gives the reward",
    "reward.reward_model.*": _OTHER_MODEL,
    "reward_model.model.*": _OTHER_MODEL,
    "reward_model.reward_loop_*": _CODE,
    "critic.*": "leave it out: GRPO has no critic",
    "distillation.*": _OTHER_MODEL,
    "skip.*": "leave it out: stored rollouts would be trained instead of new ones",
    "transfer_queue.backend.MooncakeStore.*": "leave it out: use SimpleStorage",
    f"{ACTOR}.megatron*": _ENGINE,
    f"{ACTOR}.veomni*": _ENGINE,
    f"{ACTOR}.torchtitan*": _ENGINE,
    "data.mm_processor_kwargs*": "leave it out: only text is prepared",
    "data.sampler.*": _CODE,
    "data.datagen.*": _CODE,
}
"""Keys (patterns) through which training would use what the approved hash does not cover -> what to do instead."""

FOLDERS = ("global_profiler.save_path", "*.profiler.save_path", "ray_kwargs.timeline_json_file")
"""Places that training writes to: they have to lie in `launch/` (relative ones do), `metrics/` or `checkpoints/`."""

HARMLESS = (
    "algorithm.adv_estimator", "algorithm.kl_penalty", "algorithm.kl_ctrl.type", "algorithm.filter_groups.metric",
    "algorithm.pf_ppo.reweight_method", "algorithm.rollout_correction.*", "model_engine",
    "trainer.project_name", "trainer.experiment_name", "trainer.logger",
    "trainer.resume_mode", "trainer.device", "trainer.v1.trainer_mode", "trainer.v1.sampler.max_off_policy_strategy",
    "trainer.v1.sampler.custom_sampler.name", "transfer_queue.backend.storage_backend",
    "data.*_key", "data.truncation", "data.apply_chat_template_kwargs*",
    "reward.reward_manager.source", "reward.reward_manager.name", "reward.reward_manager.module.name",
    "reward_model.reward_manager", "reward_manager.*",
    f"{ACTOR}.optim.optimizer", f"{ACTOR}.optim.optimizer_impl", f"{ACTOR}.optim.lr_scheduler_type",
    f"{ACTOR}.optim.warmup_style", f"{ACTOR}.policy_loss.loss_mode", f"{ACTOR}.loss_agg_mode", f"{ACTOR}.kl_loss_type",
    f"{ACTOR}.strategy", f"{ACTOR}.checkpoint.*_contents", f"{REF}.strategy",
    *(f"{place}.{name}" for place in (f"{ACTOR}.fsdp_config", f"{REF}.fsdp_config")
      for name in ("strategy", "model_dtype", "dtype", "turbo_config.*")),
    "*.qat.mode", "*.qat.ignore_patterns", "*.qat.activation_observer",
    f"{ROLLOUT}.name", f"{ROLLOUT}.mode", f"{ROLLOUT}.dtype", f"{ROLLOUT}.logprobs_mode",
    f"{ROLLOUT}.scheduling_policy", f"{ROLLOUT}.load_format",
    f"{ROLLOUT}.multi_turn.tool_response_truncate_side", f"{ROLLOUT}.multi_turn.tokenization_sanity_check_mode",
    f"{ROLLOUT}.multi_turn.format",
    f"{ROLLOUT}.agent.default_agent_loop", f"{ROLLOUT}.checkpoint_engine.backend", f"{ROLLOUT}.trace.project_name",
    f"{ROLLOUT}.trace.experiment_name", f"{ROLLOUT}.prometheus.served_model_name", f"{ROLLOUT}.quantization",
    f"{ROLLOUT}.disaggregation.transfer_backend", f"{ROLLOUT}.disaggregation.ib_device",
    f"{MODEL}.custom_chat_template", f"{MODEL}.target_modules", f"{MODEL}.exclude_modules",
    f"{MODEL}.fused_kernel_options.impl_backend", f"{MODEL}.mtp.method", f"{MODEL}.mtp.speculative_algorithm",
    *(f"{MODEL}.lora.{name}" for name in (
        "type", "target_modules", "exclude_modules", "dropout_position", "lora_A_init_method", "lora_B_init_method",
        "dtype")),
    "*.profiler.tool", "global_profiler.tool", "*.tool_config.*", "global_profiler.global_tool_config.*",
)  # fmt: skip
"""Text keys (patterns) that name neither a file, a folder, a model, code nor a place on a network."""

ENGINE_WORDS = (
    "attention_backend", "chat_template_content_format", "distributed_executor_backend", "dtype", "kv_cache_dtype",
    "mamba_backend", "moe_runner_backend", "quantization", "sampling_backend", "schedule_policy", "tokenizer_mode",
)  # fmt: skip
"""Texts that a rollout engine's own options may hold; another one may name a file, a model or code."""

MODEL_WORDS = ("attn_implementation", "dtype", "hidden_act", "rope_type", "torch_dtype", "type")
"""Texts that `override_config` may hold, without a slash: with one, code is fetched from a hub."""

RAY_KEYS = (
    "num_cpus", "num_gpus", "include_dashboard", "object_store_memory", "log_to_driver",
    "runtime_env.config.setup_timeout_seconds", "runtime_env.config.eager_install",
)  # fmt: skip
"""What a plan may tell ray.init. The rest of a runtime_env runs code (worker_process_setup_hook, mpi, image_uri)."""

_PATH_LIKE = re.compile(r"[/~\\]|://|\.(?:py|json|ya?ml|jinja|txt|so)$")


def input_files(settings: Settings, native: Mapping[str, Any]) -> Mapping[str, str]:
    """Name in `inputs/` -> where it lies now: the reward's file, and the CPU smoke plug-in for a CPU plan."""
    from loopai_trainer.backends.verl_grpo import reward

    found = dict(reward.input_files(settings))
    if dotted.get(native, "trainer.device") == "cpu":
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside", "cpu_smoke")
        found.update({name: os.path.join(folder, name) for name in CPU_SMOKE_FILES})
    return found


def is_classified(key: str) -> bool:
    """Whether a text under this key is judged by a rule or known to be harmless."""
    if _open_place(key):
        return True
    return any(fnmatchcase(key, pattern) for pattern in (*COVERED, *UNCOVERED, *FOLDERS, *HARMLESS))


def coverage_problems(native: Mapping[str, Any], run: str) -> Iterator[Problem]:
    """All findings on keys that reach out of the approved hash or out of the run directory `run`."""
    for key, value in dotted.leaves(native):
        if value in (None, False, "") or value in ([], {}):
            continue
        place = _open_place(key)
        if place:
            yield from _open_problems(key, value, place)
            continue
        instead = next((why for pattern, why in UNCOVERED.items() if fnmatchcase(key, pattern)), None)
        if any(fnmatchcase(key, pattern) for pattern in FOLDERS):
            yield from _folder_problems(key, value, run)
        elif instead is not None and _holds_text(value):
            message = f"'{key}' is set: training would use what the approved hash does not cover"
            yield _error("UNCOVERED_INPUT", message, instead, key)
        elif not is_classified(key) and _holds_text(value):
            message = f"'{key}' may name a file or a model, and this version of the trainer does not know what reads it"
            yield _error("UNCOVERED_INPUT", message, f"remove {key}", key)
    yield from _switches(native)


_SWITCHES: Mapping[str, str] = {
    "critic.enable": "GRPO has no critic",
    "distillation.enabled": "a teacher model would be read, which was not checked",
    "reward.reward_model.enable": "a reward model would be read, which was not checked",
    "reward_model.enable": "a reward model would be read, which was not checked",
    "skip.rollout.enable": "stored rollouts would be trained instead of new ones",
    "skip.rollout_tq.enable": "stored rollouts would be trained instead of new ones",
    "skip.async_rollout.enable": "stored rollouts would be trained instead of new ones",
    f"{ROLLOUT}.prometheus.enable": "it writes below /tmp/ray, where other runs' files lie",
    f"{MODEL}.use_shm": "the model would be copied to shared memory, which nobody removes",
    "data.use_shm": "data would be copied to shared memory, which nobody removes",
    "trainer.val_only": "nothing would be trained",
    "trainer.del_local_ckpt_after_load": "checkpoints would be deleted",
}


def _switches(native: Mapping[str, Any]) -> Iterator[Problem]:
    for key, why in _SWITCHES.items():
        if dotted.get(native, key) is True:
            yield _error("SWITCH_REFUSED", f"'{key}' is on: {why}", f"remove {key}", key)


_OPEN: Mapping[str, tuple[str, ...]] = {
    f"{ROLLOUT}.engine_kwargs": ENGINE_WORDS,
    f"{MODEL}.override_config": MODEL_WORDS,
    f"{ACTOR}.optim.override_optimizer_config": (),
    "trainer.v1.sampler.sampler_kwargs": (),
    "ray_kwargs.ray_init": RAY_KEYS,
}


def _open_place(key: str) -> str | None:
    return next((place for place in _OPEN if key.startswith(f"{place}.")), None)


def _open_problems(key: str, value: Any, place: str) -> Iterator[Problem]:
    name = key.rpartition(".")[2]
    if place == "ray_kwargs.ray_init":
        if key.removeprefix(f"{place}.") not in RAY_KEYS:
            message = f"'{key}': a plan may tell Ray only {', '.join(RAY_KEYS)}"
            yield _error("UNCOVERED_INPUT", message, f"remove {key}", key)
        return
    texts = list(_texts(value))
    if texts and (name not in _OPEN[place] or any(_PATH_LIKE.search(text) for text in texts)):
        message = (
            f"'{key}' is {texts[0]!r}, which may name a file, a model or code that the approved hash does not cover"
        )
        yield _error("UNCOVERED_INPUT", message, f"remove {key}", key)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _holds_text(value: Any) -> bool:
    return any(True for _ in _texts(value))


def _folder_problems(key: str, value: Any, run: str) -> Iterator[Problem]:
    """Training's working folder is `launch/`, so a relative name lies there."""
    folder = os.path.normpath(os.path.join(run, "launch", str(value)))
    ours = [os.path.join(run, name) for name in ("launch", "metrics", "checkpoints")]
    if "://" in str(value) or not any(folder == own or folder.startswith(own + os.sep) for own in ours):
        message = f"'{key}' is {value}: training would write outside of its run"
        yield _error("OUTPUT_ELSEWHERE", message, f"remove {key}, or name a relative folder", key)


def _error(code: str, message: str, hint: str, field: str) -> Problem:
    return Problem("error", code, "config", message, hint, field=field)
