"""Which words and numbers verl's keys may hold: what verl finds out after minutes of start-up, or never.

Source: verl 0.9.1, read: trainer/ppo/core_algos.py, workers/config/*.py, trainer/config/*.py, utils/torch_dtypes.py;
the missed ones were run (facts of this project on verl, section 1.4).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from loopai_trainer.backends.verl_grpo.effective import ACTOR, MODEL, REF, ROLLOUT, is_number

GRPO_ESTIMATORS = ("grpo", "grpo_vectorized", "grpo_passk")
"""Advantage estimators of verl that are GRPO: groups of replies to one prompt, no critic."""

_COUNT_LIMIT = 10**12

_KL = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3", "kl+", "k1+", "abs+", "low_var_kl+", "k3+")
_DTYPES = ("fp32", "float32", "bf16", "bfloat16", "fp16", "float16")
_FSDP = ("fsdp", "fsdp2")
_CONTENTS = ("model", "optimizer", "extra", "hf_model")

WORDS: Mapping[str, tuple[str, ...]] = {
    "algorithm.kl_penalty": _KL,
    "algorithm.kl_ctrl.type": ("fixed", "adaptive"),
    "algorithm.rollout_correction.loss_type": ("ppo_clip", "reinforce"),
    f"{ACTOR}.kl_loss_type": _KL,
    f"{ACTOR}.loss_agg_mode": (
        "token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm",
    ),
    f"{ACTOR}.policy_loss.loss_mode": (
        "vanilla", "dppo_tv", "dppo_kl", "gspo", "sapo", "gpg", "clip_cov", "kl_cov", "geo_mean", "dro", "cispo",
        "bypass_mode",
    ),
    f"{ACTOR}.strategy": _FSDP,
    f"{ACTOR}.fsdp_config.strategy": _FSDP,
    f"{ACTOR}.fsdp_config.model_dtype": _DTYPES,
    f"{ACTOR}.fsdp_config.dtype": _DTYPES,
    f"{ACTOR}.optim.lr_scheduler_type": ("constant", "cosine"),
    f"{ACTOR}.optim.warmup_style": ("constant", "cosine"),
    f"{ACTOR}.optim.optimizer_impl": ("torch.optim", "bitsandbytes.optim", "torchao.optim"),
    f"{ACTOR}.checkpoint.save_contents": _CONTENTS,
    f"{ACTOR}.checkpoint.load_contents": _CONTENTS,
    f"{REF}.strategy": _FSDP,
    f"{REF}.fsdp_config.strategy": _FSDP,
    f"{REF}.fsdp_config.model_dtype": _DTYPES,
    f"{ROLLOUT}.mode": ("async",),
    f"{ROLLOUT}.dtype": (*_DTYPES, "auto", "half", "float"),
    f"{ROLLOUT}.checkpoint_engine.backend": ("naive", "nccl", "nixl"),
    f"{ROLLOUT}.multi_turn.tool_response_truncate_side": ("left", "middle", "right"),
    f"{ROLLOUT}.multi_turn.tokenization_sanity_check_mode": ("disable", "strict", "ignore_strippable"),
    "data.truncation": ("error", "left", "right", "middle"),
    "model_engine": ("dp",),
    "reward.reward_manager.source": ("register", "importlib"),
    "trainer.device": ("cuda", "cpu"),
    "trainer.resume_mode": ("disable", "auto", "resume_path"),
    "trainer.v1.trainer_mode": ("sync", "colocate_async", "separate_async"),
    "transfer_queue.backend.storage_backend": ("SimpleStorage",),
}  # fmt: skip
"""Key -> the only texts that it, or each item of its list, may be."""


class Range(NamedTuple):
    """What a number may be. An open end leaves its bound out; `also`: one value more, which means 'off'."""

    least: float
    most: float = math.inf
    open_least: bool = False
    also: float | None = None

    def holds(self, value: float) -> bool:
        """Whether the value is allowed."""
        above = value > self.least if self.open_least else value >= self.least
        return value == self.also or (above and value <= self.most)

    def __str__(self) -> str:
        text = f"{'above' if self.open_least else 'at least'} {self.least:g}"
        text += f" and at most {self.most:g}" if self.most not in (math.inf, _COUNT_LIMIT) else ""
        return text + (f", or {self.also:g}" if self.also is not None else "")


_COUNT = Range(1, _COUNT_LIMIT)
_COUNT_OR_OFF = Range(1, _COUNT_LIMIT, also=-1)
_FROM_0 = Range(0)
_ABOVE_0 = Range(0, open_least=True)
_SHARE = Range(0, 1)
_SHARE_ABOVE_0 = Range(0, 1, open_least=True)

RANGES: Mapping[str, Range] = {
    **dict.fromkeys(
        (
            "data.train_batch_size", "data.gen_batch_size", "data.max_prompt_length", "data.max_response_length",
            "data.filter_overlong_prompts_workers",
            f"{ACTOR}.ppo_mini_batch_size", f"{ACTOR}.ppo_micro_batch_size", f"{ACTOR}.ppo_micro_batch_size_per_gpu",
            f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ACTOR}.ppo_epochs", f"{ACTOR}.ulysses_sequence_parallel_size",
            f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size",
            f"{ROLLOUT}.n", f"{ROLLOUT}.val_kwargs.n", f"{ROLLOUT}.tensor_model_parallel_size",
            f"{ROLLOUT}.data_parallel_size", f"{ROLLOUT}.expert_parallel_size",
            f"{ROLLOUT}.pipeline_model_parallel_size", f"{ROLLOUT}.max_num_batched_tokens", f"{ROLLOUT}.max_num_seqs",
            f"{ROLLOUT}.max_model_len", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
            f"{ROLLOUT}.log_prob_max_token_len_per_gpu", f"{ROLLOUT}.agent.num_workers",
            f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes",
            f"{REF}.log_prob_micro_batch_size_per_gpu", f"{REF}.log_prob_max_token_len_per_gpu",
            "reward.num_workers", "trainer.nnodes", "trainer.n_gpus_per_node", "trainer.total_epochs",
            "trainer.total_training_steps", "trainer.max_actor_ckpt_to_keep", "ray_kwargs.ray_init.num_cpus",
            "transfer_queue.backend.SimpleStorage.num_data_storage_units",
            "transfer_queue.backend.SimpleStorage.total_storage_size",
        ),
        _COUNT,
    ),
    **dict.fromkeys(
        (
            "data.train_max_samples", "data.val_max_samples", f"{ROLLOUT}.top_k", f"{ROLLOUT}.val_kwargs.top_k",
            "trainer.save_freq", "trainer.test_freq", f"{ACTOR}.fsdp_config.fsdp_size",
        ),
        _COUNT_OR_OFF,
    ),
    **dict.fromkeys(
        (
            "data.dataloader_num_workers", "algorithm.kl_ctrl.kl_coef", f"{ACTOR}.kl_loss_coef",
            f"{ACTOR}.entropy_coeff", f"{ACTOR}.optim.weight_decay", f"{ROLLOUT}.val_kwargs.temperature",
            f"{MODEL}.lora_rank",
        ),
        _FROM_0,
    ),
    **dict.fromkeys(
        (
            f"{ACTOR}.optim.lr", f"{ACTOR}.clip_ratio", f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high",
            f"{ACTOR}.grad_clip", f"{ACTOR}.optim.clip_grad", f"{ROLLOUT}.temperature",
            f"{ROLLOUT}.repetition_penalty", f"{ROLLOUT}.val_kwargs.repetition_penalty",
        ),
        _ABOVE_0,
    ),
    **dict.fromkeys(
        ("algorithm.gamma", "algorithm.lam", f"{ACTOR}.optim.lr_warmup_steps_ratio", f"{ACTOR}.optim.min_lr_ratio"),
        _SHARE,
    ),
    **dict.fromkeys(
        (f"{ROLLOUT}.gpu_memory_utilization", f"{ROLLOUT}.top_p", f"{ROLLOUT}.val_kwargs.top_p"), _SHARE_ABOVE_0
    ),
    f"{ACTOR}.clip_ratio_c": Range(1, open_least=True),
}  # fmt: skip
"""Key -> the numbers with which verl can train."""


def value_fault(key: str, value: Any) -> tuple[str, str] | None:
    """(message, hint) for a word or number that is not allowed under this key."""
    if key == "algorithm.adv_estimator":
        return _estimator_fault(value)
    if key in WORDS:
        for item in value if isinstance(value, list) else [value]:
            if item is not None and item not in WORDS[key]:
                return _word_fault(key, item)
    wanted = RANGES.get(key)
    if wanted is None or not is_number(value) or wanted.holds(value):
        return None
    return f"'{key}' is {value!r}, it has to be {wanted}", "give a number in that range"


def _estimator_fault(value: Any) -> tuple[str, str] | None:
    if value in GRPO_ESTIMATORS or value is None:
        return None
    what = "it needs a critic" if value == "gae" else f"GRPO's are {', '.join(GRPO_ESTIMATORS)}"
    return f"'algorithm.adv_estimator' is {value!r}, this plan is GRPO: {what}", "write algorithm.adv_estimator: grpo"


def _word_fault(key: str, item: Any) -> tuple[str, str]:
    allowed = ", ".join(WORDS[key])
    if key.endswith("strategy") or key == "model_engine":
        hint = f"use {' or '.join(WORDS[key])}: other engines write checkpoints that cannot be exported here"
    else:
        close = difflib.get_close_matches(str(item), WORDS[key], n=1)
        hint = f"did you mean {close[0]}?" if close else "use one of the allowed values"
    return f"'{key}' is {item!r}, allowed: {allowed}", hint
