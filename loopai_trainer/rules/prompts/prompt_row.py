"""A row that GRPO trains on, whatever the source format was."""

from __future__ import annotations

from typing import Any, NamedTuple

ROLES = frozenset(("system", "user", "assistant", "tool"))
"""What chat templates know. Source: Qwen2.5, Llama 3 and Mistral templates under transformers 5.10."""


class PromptRow(NamedTuple):
    """A prompt and its reference answer.

    `messages`: (role, content) pairs, the last one not the assistant's. `data_source`, `ability`, `style`: empty where
    the source has none. `ground_truth`: text for nearly all sources, else a list, an object or a number, as verl's
    own columns had it. `extra`: the source's own extra_info. `marker`: which explicit marker the answer was read by.
    `notes`: conversions, for people.
    """

    messages: tuple[tuple[str, str], ...]
    data_source: str
    ground_truth: Any
    adapter: str
    ability: str = ""
    style: str = ""
    extra: dict[str, Any] | None = None
    marker: str = ""
    notes: tuple[str, ...] = ()
