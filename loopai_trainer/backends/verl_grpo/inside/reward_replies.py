"""Replies to try a reward with, made of a row's ground truth: right, wrong, empty, without a marker, very long.

Runs in verl's environment, stdlib alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

LONG_CHARACTERS = 1_000_000

LONGEST_ANSWER = 300
"""Characters. A longer ground truth (tests, a proof, a rubric) is no answer that a reply could repeat."""

_WRONG_TEXT = "no such answer"
_PLACE = "{answer}"


class Reply(NamedTuple):
    """`kind`: right, wrong, empty, marker-free or very long; `text`: what the model would have written."""

    kind: str
    text: str

    def shown(self) -> str:
        """For messages: kind and beginning."""
        short = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return f"{self.kind} reply {short!r}"


def answers(ground_truth: Any) -> list[str]:
    """Texts that answer rightly, the likeliest first; empty if none can be made."""
    if isinstance(ground_truth, dict):
        inner = ground_truth["target"] if "target" in ground_truth else list(ground_truth.values())
        return answers(inner) if not isinstance(inner, dict) else []
    items = ground_truth if isinstance(ground_truth, list | tuple) else [ground_truth]
    texts = [str(item) for item in items if isinstance(item, str | int | float)]
    return [text for text in texts if len(text) <= LONGEST_ANSWER][:3]


def wrong_answer(answer: str, ground_truths: Sequence[str]) -> str:
    """An answer of the same sort that is none of the right ones."""
    try:
        wrong = str(int(answer.replace(",", "")) + 1009)
    except ValueError:
        wrong = _WRONG_TEXT
    return wrong if wrong not in ground_truths else f"{_WRONG_TEXT} {wrong}"


def pairs(ground_truth: Any, forms: Sequence[str]) -> list[tuple[str, Reply, Reply]]:
    """(form, right reply, wrong reply) for each answer in each form."""
    right = answers(ground_truth)
    return [
        (
            form,
            Reply("right", form.replace(_PLACE, answer)),
            Reply("wrong", form.replace(_PLACE, wrong_answer(answer, right))),
        )
        for answer in right
        for form in forms
    ]


def others(ground_truth: Any) -> list[Reply]:
    """Replies that have to get a score, whatever it is."""
    right = answers(ground_truth)
    free = f"I have thought about it and I believe that it may be {right[0] if right else 'so'} after all"
    return [Reply("empty", ""), Reply("marker-free", free)]


def very_long(ground_truth: Any, form: str) -> Reply:
    """A million characters that end in a right answer, if there is one."""
    right = answers(ground_truth)
    end = "\n" + form.replace(_PLACE, right[0] if right else _WRONG_TEXT)
    filler = "and so on " * (LONG_CHARACTERS // 10 + 1)
    return Reply("very long", filler[: LONG_CHARACTERS - len(end)] + end)


def peculiarity(ground_truth: Any) -> tuple[str, str]:
    """(what about a ground truth may keep a right answer from scoring, what to do); empty if nothing is seen."""
    if isinstance(ground_truth, bool | int | float):
        kind = type(ground_truth).__name__
        return f"the ground truth is of type {kind}, and text is compared", "store reward_model.ground_truth as text"
    if isinstance(ground_truth, list | tuple):
        return "the ground truth is a list", "give one text, or choose a reward that takes a list"
    if isinstance(ground_truth, dict):
        return "the ground truth is a mapping", "give the text that the reward compares"
    if not isinstance(ground_truth, str):
        return "there is no ground truth", "leave the row out"
    return _peculiar_text(ground_truth)


def _peculiar_text(text: str) -> tuple[str, str]:
    if not text.strip():
        return "the ground truth is empty", "leave the row out"
    if any(character.isdecimal() and not character.isascii() for character in text):
        plain = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)
        return "the ground truth has digits that are not 0 to 9", f"write it as {plain!r}"
    if any(character in text for character in "\u2212\u2012\u2013\u2014\ufe63\uff0d"):
        return "the ground truth has a Unicode minus", "write it with the ASCII character -"
    if any(a.isdigit() and b == "," and c.isdigit() for a, b, c in zip(text, text[1:], text[2:], strict=False)):
        return "the ground truth has a comma between digits", f"write it as {text.replace(',', '')!r}"
    if text != text.strip():
        return "the ground truth has spaces around it", f"write it as {text.strip()!r}"
    return "", ""
