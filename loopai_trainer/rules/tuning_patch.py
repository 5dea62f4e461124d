"""What a language model may change in a template: the question that it is asked, and which answers count.

Only what this module writes goes out: the task description, and the present values of the keys that may be changed. No
row, no path, no other key. An answer counts as a whole or not at all: a key that was not offered, a value that is out
of range or of another type, and the answer is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from loopai_trainer.rules.tuning import counts_epochs, is_lora


class AnswerRefused(ValueError):
    """The answer does not count; the text says why, for people, and quotes little of it."""


class _Range(NamedTuple):
    low: float
    high: float
    whole: bool = False

    def described(self) -> str:
        return f"{'a whole number' if self.whole else 'a number'} from {self.low:g} to {self.high:g}"

    def fault(self, value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return f"is not {self.described()}"
        return "" if self.low <= value <= self.high else f"is {value:g}, and has to be {self.described()}"


class _Modules(NamedTuple):
    names: Sequence[str]

    def described(self) -> str:
        return f"the text all, or some of {', '.join(self.names)}, joined by commas"

    def fault(self, value: object) -> str:
        named = value.split(",") if isinstance(value, str) else []
        good = value == "all" or (named and set(named) <= set(self.names) and len(set(named)) == len(named))
        return "" if good else f"is not {self.described()}"


_RANGES: Mapping[str, _Range | _Modules] = {
    "learning_rate": _Range(1e-6, 1e-3),
    "num_train_epochs": _Range(0.1, 10),
    "per_device_train_batch_size": _Range(1, 16, whole=True),
    "gradient_accumulation_steps": _Range(1, 64, whole=True),
    "lora_rank": _Range(1, 64, whole=True),
    "lora_alpha": _Range(1, 128, whole=True),
    "lora_dropout": _Range(0, 0.5),
    "lora_target": _Modules(("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")),
}
"""Source of learning rate, batch size and rank: spec/000 "LLM mode". The others are as wide as those."""

_OLD_NAMES: Mapping[str, str] = {"batch_size": "per_device_train_batch_size", "lora_r": "lora_rank"}
"""spec/000's names, by which a model may know the keys."""

_MAX_DESCRIPTION = 4000
"""Characters of the task description that are sent: a sentence is asked for."""

_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)


def question(template: Mapping[str, Any], description: str, given: Collection[str] = ()) -> list[dict[str, str]]:
    """The chat to be sent: a system and a user message. It holds the description, and values of keys on offer alone."""
    keys = offered(template, given)
    allowed = "\n".join(f"- {key}: {_RANGES[key].described()}" for key in keys)
    rules = (
        "You choose hyperparameters for the supervised fine-tuning of a language model. "
        "Answer with one JSON object that maps each key to be changed to its new value, and with nothing else. "
        "Leave out keys whose present value suits the task. Only these keys and values are allowed:\n" + allowed
    )
    present = {key: template[key] for key in keys if not _RANGES[key].fault(template.get(key))}
    asked = {"task": description[:_MAX_DESCRIPTION], "present": present}
    return [
        {"role": "system", "content": rules},
        {"role": "user", "content": json.dumps(asked, ensure_ascii=False)},
    ]


def offered(template: Mapping[str, Any], given: Collection[str] = ()) -> list[str]:
    """The keys that may be changed in this template: LoRA's only where LoRA is trained, epochs only where they count.

    `given`: keys that a person has decided.
    """
    unfit = set(given) if counts_epochs(template) else {*given, "num_train_epochs"}
    if not is_lora(template):
        unfit |= {key for key in _RANGES if key.startswith("lora_")}
    return [key for key in _RANGES if key not in unfit]


def read_answer(text: str, template: Mapping[str, Any], given: Collection[str] = ()) -> dict[str, Any]:
    """The keys to be changed, by LLaMA-Factory's names; empty if nothing is to be changed. Raises AnswerRefused."""
    patch: dict[str, Any] = {}
    allowed = offered(template, given)
    for name, value in _object(text).items():
        key = _OLD_NAMES.get(name, name)
        if key in patch:
            raise AnswerRefused(f"it sets {key} twice")
        if key not in allowed:
            raise AnswerRefused(f"it sets {_quoted(name)}, which was not on offer")
        fault = _RANGES[key].fault(value)
        if fault:
            raise AnswerRefused(f"its {key} {fault}")
        patch[key] = value
    return patch


def _object(text: str) -> dict[str, Any]:
    thought = _THOUGHT.match(text)
    bare = text[thought.end() if thought else 0 :].strip()
    fenced = _FENCE.fullmatch(bare)
    try:
        found = json.loads(fenced[1] if fenced else bare, object_pairs_hook=_once, parse_constant=_not_a_number)
    except AnswerRefused:
        raise
    except (ValueError, RecursionError):
        raise AnswerRefused("it is not JSON") from None
    if not isinstance(found, dict):
        raise AnswerRefused("it is no JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise AnswerRefused("it sets a key twice")
    return found


def _not_a_number(word: str) -> Any:
    raise AnswerRefused(f"it holds {word}, which is no number")


def _quoted(name: str) -> str:
    return repr(name if len(name) <= 40 else name[:40] + "...")
