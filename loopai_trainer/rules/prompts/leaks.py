"""Prompts that hold their own answer. A bare number that equals the answer proves nothing; a marked one does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from loopai_trainer.rules.prompts.answers import plain_number

MIN_SOLUTION_CHARACTERS = 40
"""A shorter solution may stand in a prompt by chance."""

_MARK = re.compile(r"####|\\boxed[ \t]*\{|<answer>|final answer(?: is)?[ \t]*[:：]", re.IGNORECASE)
_BEFORE_VALUE = " \t\r\n:*$="
_NUMBER = re.compile(r"[-+\N{MINUS SIGN}]?\d[\d,]*(?:\.\d+)?")

SUSPECT = (
    r"####[ \t]*[^\s\"'<>.,;:)\]}`]",
    r"\\boxed[ \t]*\{[^}]",
    r"<(?:answer|ANSWER|Answer)>",
    r"final answer(?: is)?[ \t]*[:：]",
    r"Final [Aa]nswer(?: is)?[ \t]*[:：]",
)
"""RE2 patterns of which one matches wherever `leak` may have something to say of ordinary writings of the markers.

Each begins with a literal, which is looked for several times as fast as one pattern of them all.
"""


def leak(texts: Sequence[str], truth: object, solution: str = "") -> str:
    """How the prompt's `texts` give the answer away, for people; empty if they don't.

    `solution`: the text that the reference answer was read from.
    """
    for text in texts:
        if len(solution) >= MIN_SOLUTION_CHARACTERS and solution in text:
            return "the prompt holds the reference solution"
        if "####" not in text and "\\box" not in text and "nswer" not in text and "NSWER" not in text:
            continue  # far cheaper than to look for the pattern
        found = _MARK.search(text)
        while found:
            mark, rest = found.group(), text[found.end() : found.end() + 500].lstrip(_BEFORE_VALUE)
            for value in _values(truth):
                if _says(rest, value):
                    return f"the prompt holds its own answer: {mark}{'' if mark.endswith('{') else ' '}{value[:60]}"
            found = _MARK.search(text, found.end())
    return ""


def _says(rest: str, value: str) -> bool:
    """Whether `rest` begins with `value`, and with no more than that (`72` is not said by `725` or `72.5`)."""
    if rest.startswith(value):
        after = rest[len(value) : len(value) + 2]
        return not (after[:1].isalnum() or (after[:1] in (".", ",") and after[1:].isdigit()))
    number = _NUMBER.match(rest)
    return number is not None and plain_number(number.group()) == value


def _values(truth: object) -> Iterator[str]:
    if isinstance(truth, dict):
        for item in truth.values():
            yield from _values(item)
    elif isinstance(truth, list):
        for item in truth:
            yield from _values(item)
    elif isinstance(truth, (str, int, float)) and not isinstance(truth, bool):
        text = str(truth).strip()
        if text:
            yield text
