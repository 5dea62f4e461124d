"""Keyword rules: what a task description changes in a template, and why.

The rules rank as they are written below, which is spec/000's order ("rule mode"): where two of them want different
values for one key, the one that stands first has it, and a note says who lost (decisions/0044).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from loopai_trainer.records import Problem


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


class _Wish(NamedTuple):
    word: str
    value: Any


def _rule(words: str, values: Mapping[str, Any], *, lora_only: bool = False) -> _Rule:
    """`words` in any case. One of Latin letters stands alone, or between Chinese ones, and may have an `s`."""
    found = (rf"(?<![A-Za-z0-9_]){word}s?(?![A-Za-z0-9_])" if word.isascii() else word for word in words.split("|"))
    return _Rule(re.compile("|".join(found), re.IGNORECASE), values, lora_only)


_TALK = "对话|聊天|chat|chatbot|dialog|dialogue|conversation|conversational"

_RULES: Sequence[_Rule] = (
    _rule(
        "数学|推理|复杂|困难|math|mathematical|mathematics|reasoning|complex|difficult",
        {"learning_rate": 1e-5},
    ),
    _rule(f"{_TALK}|简单|simple", {"learning_rate": 5e-5}),
    _rule(
        "微调|适应|few[- ]shot|fine-?tune|fine-?tuned|fine-?tuning|adapt|adaptation",
        {"num_train_epochs": 1.0},
    ),
    _rule("从头|完整|全面|from scratch|complete|comprehensive", {"num_train_epochs": 5.0}),
    _rule(
        "代码|编程|code|coding|programming", {"lora_rank": 16, "lora_alpha": 32, "lora_target": "all"}, lora_only=True
    ),
    _rule(_TALK, {"lora_rank": 8, "lora_alpha": 16, "lora_target": "q_proj,v_proj"}, lora_only=True),
)
"""Source of words and values: spec/000; the English words are its Chinese ones translated. Its `lora_r` is written
`lora_rank`, the key that LLaMA-Factory 0.9.5 knows. No two rules want the same value for a key."""


def tune(
    template: Mapping[str, Any], description: str, given: Collection[str] = ()
) -> tuple[dict[str, Any], list[Change], list[str]]:
    """(the template with the rules applied, what changed, notes on rules that lost to others).

    `given`: keys that a person has decided, which no rule changes.
    """
    tuned = dict(template)
    changes: list[Change] = []
    lost: dict[tuple[str, str], list[str]] = {}
    for key, (first, *others) in _wishes(template, description).items():
        if key in given:
            continue
        for other in others:
            lost.setdefault((first.word, other.word), []).append(f"{key} {first.value} (not {other.value})")
        if tuned.get(key) != first.value:
            changes.append(Change(key, tuned.get(key), first.value, f"the task description says '{first.word}'"))
            tuned[key] = first.value
    notes = [
        f"the rule of '{one}' ranks before that of '{other}': {', '.join(keys)}" for (one, other), keys in lost.items()
    ]
    return tuned, changes, notes


def disagreements(notes: Sequence[str]) -> tuple[Problem, ...]:
    """A warning for each note on rules that lost to others, so that an approver hears of it."""
    hint = "give the value you want by --set, or word the task description differently"
    return tuple(Problem("warning", "KEYWORDS_DISAGREE", "config", note, hint) for note in notes)


def is_lora(template: Mapping[str, Any]) -> bool:
    """Whether the template trains LoRA, which is what LLaMA-Factory 0.9.5 does where nothing is said."""
    return bool(template.get("finetuning_type", "lora") == "lora")


def counts_epochs(template: Mapping[str, Any]) -> bool:
    """Whether epochs decide how long it trains: max_steps beats them, and setting them would mislead an approver."""
    max_steps = template.get("max_steps")
    return not (isinstance(max_steps, int | float) and max_steps > 0)


def _wishes(template: Mapping[str, Any], description: str) -> dict[str, list[_Wish]]:
    """What the rules that match want for each key, by rank."""
    wanted: dict[str, list[_Wish]] = {}
    for rule in _RULES:
        match = rule.words.search(description)
        if match is None or (rule.lora_only and not is_lora(template)):
            continue
        for key, value in rule.values.items():
            if key != "num_train_epochs" or counts_epochs(template):
                wanted.setdefault(key, []).append(_Wish(match.group(0), value))
    return wanted
