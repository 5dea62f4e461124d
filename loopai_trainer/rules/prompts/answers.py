"""Reference answers: only what the source states itself, in a field of that name or behind an explicit marker."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import NamedTuple

MAX_MARKED_CHARACTERS = 400
"""Behind a marker stands an answer; what is longer is a text that happens to follow the mark."""
MISSING_WORDS = frozenset(("none", "null", "nan", "<na>"))
"""What a missing value becomes when it is written as text."""

_TAG = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)
_FINAL = re.compile(r"(?:final answer(?: is)?|最终答案(?:是)?)[ \t]*[:：][ \t]*([^\n]+)", re.IGNORECASE)
_BOX = re.compile(r"\\f?box(?:ed)?[ \t]*\{")
_MARKERS = {"####": re.compile("####"), r"\boxed": _BOX, "<answer>": re.compile("<answer>", re.IGNORECASE)}
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_MINUS = str.maketrans("\N{MINUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}", "--")


class Marked(NamedTuple):
    """An answer behind an explicit marker: `####`, `boxed`, `answer_tag` or `final_answer`."""

    marker: str
    value: str


class Unclear(NamedTuple):
    """Markers that do not lead to one answer. `reason` says why, for people."""

    reason: str


def marked_answer(text: str) -> Marked | Unclear | None:
    """The answer that `text` marks as its own: the last one of each kind of marker, which all have to agree.

    `#### x` counts on the last line alone (elsewhere it is a heading). Source: GSM8K, MATH, and the replies that
    verl 0.9.1's scorers look for.
    """
    found = [*_hashes(text), *_boxes(text), *_tags(text), *_finals(text)]
    if len(found) < 2:
        return found[0] if found else None
    broken = next((one for one in found if isinstance(one, Unclear)), None)
    marked = [one for one in found if isinstance(one, Marked)]
    if broken is not None:
        return broken
    values = {comparable(one.value): one for one in marked}
    if len(values) > 1:
        shown = " and ".join(repr(one.value[:40]) for one in values.values())
        return Unclear(f"its markers give different answers: {shown}")
    return marked[0]


def unread_marker(text: str) -> str | None:
    """A marker in a text of which `marked_answer` gave None: nothing stands behind it, or it stands inside a line."""
    return next((marker for marker, pattern in _MARKERS.items() if pattern.search(text)), None)


def _hashes(text: str) -> list[Marked | Unclear]:
    if "####" not in text:
        return []
    last = text.rstrip().rpartition("\n")[2].strip()
    if not last.startswith("####") or last.startswith("#####"):
        return []
    value = last[4:].strip().strip("*").strip()
    return [_inner("####", value.removeprefix("$").strip())] if value else []


def _boxes(text: str) -> list[Marked | Unclear]:
    if "box" not in text:
        return []
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return []
    last = boxes[-1]
    depth, position = 1, last.end()
    while position < len(text) and depth:
        character = text[position]
        if character == "\\":
            position += 2
            continue
        depth += (character == "{") - (character == "}")
        position += 1
    if depth:
        return [Unclear(r"the brace of its last \boxed{ is not closed")]
    value = text[last.end() : position - 1].strip()
    return [_inner("boxed", value)] if value else []


def _tags(text: str) -> list[Marked | Unclear]:
    if "</" not in text:
        return []
    values = [value.strip() for value in _TAG.findall(text) if value.strip()]
    return [_inner("answer_tag", values[-1])] if values else []


def _finals(text: str) -> list[Marked | Unclear]:
    if "nswer" not in text and "NSWER" not in text and "答案" not in text:
        return []  # far cheaper than to look for the pattern
    values = _FINAL.findall(text)
    value = values[-1].strip().strip("*").strip() if values else ""
    # One full stop ends the sentence, not the answer; in "3.5." and "U.S." the rest stays as it is.
    value = value[:-1].rstrip() if value.endswith((".", "。")) and value.count(".") <= 1 else value
    return [_inner("final_answer", value)] if value else []


def _inner(marker: str, value: str) -> Marked | Unclear:
    """`value`, or what a marker inside it marks (`<answer>\\boxed{5}</answer>`)."""
    if len(value) > MAX_MARKED_CHARACTERS:
        return Unclear(f"{len(value)} characters stand behind its answer marker")
    if marker != "boxed":
        within = _boxes(value) or (_finals(value) if marker != "final_answer" else [])
        if within:
            return within[0]
    if len(value) > 2 and value[0] == value[-1] == "$" and "$" not in value[1:-1]:
        value = value[1:-1].strip()
    return Marked(marker, value)


def comparable(text: str) -> str:
    """`text` by which two writings of one answer are held against each other."""
    return plain_number(text) or " ".join(unicodedata.normalize("NFKC", text).split()).casefold()


def plain_number(text: str) -> str | None:
    """`1,234` (also with full-width digits or a Unicode minus) as a scorer reads a number: `1234`; None for others."""
    plain = text.strip()
    if not plain.isascii():
        plain = unicodedata.normalize("NFKC", plain.translate(_MINUS)).translate(_MINUS)
    if _GROUPED.fullmatch(plain):
        return plain.replace(",", "")
    return plain if _NUMBER.fullmatch(plain) and plain.isascii() else None


def is_missing(value: object) -> bool:
    """Whether a value stands for no answer: null, NaN, blank text, or the text that null became."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    if isinstance(value, str):
        return not value or value.isspace() or (len(value) < 8 and value.strip().casefold() in MISSING_WORDS)
    if isinstance(value, list):
        return not value or any(is_missing(item) for item in value)
    if isinstance(value, dict):
        return not value or all(is_missing(item) for item in value.values())
    return False
