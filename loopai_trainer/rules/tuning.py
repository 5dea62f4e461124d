"""Keyword rules: what a task description changes in a template, and why.

Source: spec/000 "rule mode". Two rules that want different values for one key cancel each other (a "simple maths" task
keeps the template's learning rate): the first match must not win silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Change(NamedTuple):
    """One key that tuning sets. `reason` is for people."""

    key: str
    before: Any
    after: Any
    reason: str


class _Rule(NamedTuple):
    words: re.Pattern[str]
    values: Mapping[str, Any]
    lora_only: bool


def _rule(words: str, values: Mapping[str, Any], *, lora_only: bool = False) -> _Rule:
    pattern = "|".join(rf"\b{word}\b" if word.isascii() else word for word in words.split("|"))
    return _Rule(re.compile(pattern, re.IGNORECASE), values, lora_only)


_RULES: Sequence[_Rule] = (
    _rule("数学|推理|复杂|困难|math|maths|mathematics|reasoning", {"learning_rate": 1e-5}),
    _rule("对话|聊天|简单|chat|dialog|dialogue", {"learning_rate": 5e-5}),
    _rule("微调|适应|few-shot", {"num_train_epochs": 1.0}),
    _rule("从头|完整|全面|from scratch", {"num_train_epochs": 5.0}),
    _rule("代码|编程|code|coding", {"lora_rank": 16, "lora_alpha": 32, "lora_target": "all"}, lora_only=True),
    _rule("对话|聊天|chat", {"lora_rank": 8, "lora_alpha": 16, "lora_target": "q_proj,v_proj"}, lora_only=True),
)


def tune(template: Mapping[str, Any], description: str) -> tuple[dict[str, Any], list[Change], list[str]]:
    """(the template with the rules applied, what changed, notes on rules that cancelled each other)."""
    wanted: dict[str, dict[Any, str]] = {}
    is_lora = template.get("finetuning_type", "lora") == "lora"
    for rule in _RULES:
        match = rule.words.search(description)
        if match and (is_lora or not rule.lora_only):
            for key, value in rule.values.items():
                wanted.setdefault(key, {})[value] = match.group(0)
    tuned = dict(template)
    changes: list[Change] = []
    notes: list[str] = []
    for key, values in wanted.items():
        if len(values) > 1:
            sides = " and ".join(f"'{word}' wants {value}" for value, word in values.items())
            notes.append(f"{key}: {sides}; the template's value is kept")
            continue
        value, word = next(iter(values.items()))
        if _applies(key, tuned) and tuned.get(key) != value:
            changes.append(Change(key, tuned.get(key), value, f"the task description says '{word}'"))
            tuned[key] = value
    return tuned, changes, notes


def _applies(key: str, template: Mapping[str, Any]) -> bool:
    # max_steps beats num_train_epochs in the trainer, so that setting epochs would only mislead the approver.
    return not (key == "num_train_epochs" and (template.get("max_steps") or 0) > 0)
