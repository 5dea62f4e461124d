"""The value that a key has in the end: the plan's own, else verl's default, interpolations followed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from loopai_trainer.backends.verl_grpo.tree import MISSING
from loopai_trainer.rules import dotted

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
MODEL = "actor_rollout_ref.model"
"""Short names for the long prefixes of verl's keys."""

SEEN_DEFAULTS: Mapping[str, Any] = {
    "data": {"max_prompt_length": 512, "max_response_length": 512, "train_batch_size": 1024, "train_max_samples": -1},
    "actor_rollout_ref": {
        "actor": {"ppo_mini_batch_size": 256, "ppo_epochs": 1, "use_dynamic_bsz": False, "use_kl_loss": False,
                  "strategy": "fsdp", "ppo_max_token_len_per_gpu": 16384, "optim": {"lr": 1.0e-6},
                  "ulysses_sequence_parallel_size": 1},
        "rollout": {"n": 1, "tensor_model_parallel_size": 2, "temperature": 1.0, "gpu_memory_utilization": 0.5,
                    "max_num_batched_tokens": 8192, "max_num_seqs": 256},
    },
    "algorithm": {"adv_estimator": "gae", "use_kl_in_reward": False},
    "trainer": {"total_epochs": 30, "save_freq": -1, "test_freq": -1, "val_before_train": True, "device": "cuda",
                "n_gpus_per_node": 8, "nnodes": 1},
}  # fmt: skip
"""What an approver sees of verl 0.9.1's defaults where a plan is silent. Source: its _generated_ppo_trainer.yaml."""

_SELECT = re.compile(r"\$\{oc\.select:([^,{}]+),\s*(.*)\}", re.DOTALL)
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?([A-Za-z0-9_.]+)\}")
_LITERALS: Mapping[str, Any] = {"null": None, "none": None, "true": True, "false": False, "[]": []}
_DEPTH = 8


class Effective:
    """A plan's keys over verl's defaults."""

    def __init__(self, native: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        self.native = native
        self._defaults = defaults

    def get(self, key: str) -> Any:
        """The value; None if it is null, missing or nowhere."""
        return self._value(key, 0)

    def whole(self, key: str, otherwise: int = 0) -> int:
        """The value if it is a whole number above 0."""
        value = self.get(key)
        return value if is_whole(value) and value > 0 else otherwise

    def on(self, key: str) -> bool:
        """Whether a switch is on."""
        return self.get(key) is True

    def names(self, key: str) -> tuple[str, ...]:
        """A text, or the texts of a list."""
        value = self.get(key)
        if isinstance(value, str):
            return (value,)
        return tuple(str(item) for item in value) if isinstance(value, list) else ()

    def _value(self, key: str, depth: int) -> Any:
        value = dotted.get(self.native if dotted.has(self.native, key) else self._defaults, key)
        return self._followed(value, key, depth)

    def _followed(self, value: Any, key: str, depth: int) -> Any:
        if value == MISSING or depth > _DEPTH:
            return None
        if not isinstance(value, str) or not value.startswith("${"):
            return value
        reference = _REFERENCE.fullmatch(value)
        if reference:
            return self._value(_absolute(reference[1], key), depth + 1)
        select = _SELECT.fullmatch(value)
        if not select:
            return None
        target = _absolute(select[1].strip(), key)
        if dotted.has(self.native, target) or dotted.has(self._defaults, target):
            return self._value(target, depth + 1)
        return self._followed(_literal(select[2].strip()), key, depth + 1)


def is_whole(value: object) -> bool:
    """Whether it is a whole number that can be computed with."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**12


def is_number(value: object) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value and abs(value) < 10**300


def _absolute(target: str, key: str) -> str:
    return f"{key.rpartition('.')[0]}{target}" if target.startswith(".") else target


def _literal(text: str) -> Any:
    if text.lower() in _LITERALS:
        return _LITERALS[text.lower()]
    return int(text) if text.isdecimal() else text
