"""Key names by verl's version: the 0.9 line and the 0.8 line before it call the reward's keys differently.

verl 0.9.1 still composes the 0.8 line's names and ignores them without a word (its `migrate_legacy_reward_impl` runs
in an experimental trainer alone), so that the other line's names are refused, with the right ones.
Source: verl 0.9.1 and 0.8.0.dev (b178a3cd), read and run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from loopai_trainer.records import Problem
from loopai_trainer.rules import dotted

Family = Literal["0.9", "0.8"]

NEWEST_TRIED = (0, 9)
OLDEST_TRIED = (0, 8)

REWARD_FUNCTION: Mapping[Family, str] = {"0.9": "reward.custom_reward_function", "0.8": "custom_reward_function"}
"""Where the reward's path and name stand."""

REWARD_BLOCK: Mapping[Family, str] = {"0.9": "reward", "0.8": "custom_reward_function"}
"""The top-level key that `reward.native_keys` fills."""

REWARD_MANAGER: Mapping[Family, str] = {"0.9": "reward.reward_manager.name", "0.8": "reward_model.reward_manager"}

MANAGERS: Mapping[Family, tuple[str, ...]] = {
    "0.9": ("naive", "dapo", "gdpo", "remote", "rate_limited"),
    "0.8": ("naive", "dapo", "prime", "batch"),
}
"""Registered names; 0.9.1 raises 'Unknown reward manager' for prime, batch and limited."""

_OTHERS: Mapping[Family, Mapping[str, str]] = {
    "0.9": {
        "custom_reward_function": "reward.custom_reward_function, which --reward-function sets",
        "reward_model": "reward.reward_model (reward.reward_manager.name for reward_manager)",
        "reward_manager": "reward.reward_manager",
        "sandbox_fusion": "reward.sandbox_fusion",
        "trainer.use_legacy_worker_impl": "nothing: 0.9 has one implementation",
        "data.sampler": "trainer.v1.sampler",
        "data.datagen": "nothing: 0.9 has no such key",
        "actor_rollout_ref.rollout.multi_turn.interaction_config_path": "nothing: 0.9 has no interactions",
    },
    "0.8": {
        "reward": "custom_reward_function and reward_model",
        "trainer.use_v1": "nothing: 0.8 has one trainer",
        "trainer.v1": "nothing: 0.8 has one trainer",
        "trainer.checkpoint_callback_class": "nothing: 0.8 has no such key",
        "transfer_queue": "nothing: 0.8 has no such key",
        "distillation": "nothing: 0.8 has no such key",
        "algorithm.filter_groups": "nothing: 0.8 has no such key",
        "data.gen_batch_size": "data.train_batch_size",
    },
}
"""Family -> the other one's keys -> what to write instead."""


def family(version: str) -> Family:
    """Which names a version of verl reads."""
    return "0.9" if _number(version) >= NEWEST_TRIED else "0.8"


def version_problems(version: str) -> Iterator[Problem]:
    """A finding where the installed version is one that was never tried."""
    number = _number(version)
    if number < OLDEST_TRIED:
        message = f"verl {version} is older than the 0.8 line: its keys are not known"
        yield Problem("error", "BACKEND_UNTRIED", "environment", message, "run: trainer setup verl")
    elif number > NEWEST_TRIED:
        message = f"verl {version} is newer than 0.9, the newest line that was tried: keys may have moved"
        yield Problem("warning", "BACKEND_UNTRIED", "environment", message, "or run: trainer setup verl")


def other_family(native: Mapping[str, Any], lines: Mapping[str, int], version: str) -> Iterator[Problem]:
    """An error for each key that the installed version ignores because another line of verl reads it."""
    for key, instead in _OTHERS[family(version)].items():
        if dotted.has(native, key):
            message = f"'{key}' is not read by verl {version}: it is ignored without a word"
            hint = f"remove {key}" if instead.startswith("nothing") else f"remove {key}; what is read is {instead}"
            yield Problem("error", "OTHER_VERSION_KEY", "template", message, hint, line=lines.get(key), field=key)


def belongs_to_other(key: str, version: str) -> bool:
    """Whether a dotted key is, or lies below, one that `other_family` refuses."""
    return any(key == other or key.startswith(f"{other}.") for other in _OTHERS[family(version)])


def _number(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
