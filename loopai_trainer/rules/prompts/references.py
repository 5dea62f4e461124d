"""The ground truth of a record: judged where verl's own columns state it, read from fields and markers elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

from loopai_trainer.records import Rejection
from loopai_trainer.rules.prompts.answers import (
    MISSING_WORDS,
    Marked,
    Unclear,
    comparable,
    is_missing,
    marked_answer,
    plain_number,
    unread_marker,
)
from loopai_trainer.rules.prompts.records import SOLUTIONS, VERBATIM, reference_of, text_of
from loopai_trainer.rules.rows.tool_json import kind_name

NUMBER_AS_TEXT = "numbers that became text as the ground truth"
COMMAS_OUT = "ground truths written as a scorer reads numbers (thousands commas, full-width digits, Unicode minus)"
_MENDS = "give the answer in a field of its own, such as ground_truth, or behind a marker: '#### 72'"
_BIGGEST_EXACT_FLOAT = 2.0**53


class Reference(NamedTuple):
    """A reference answer; `marker`: by which it was read, `solution`: the text around it, `notes`: conversions."""

    truth: Any
    marker: str = ""
    solution: str = ""
    notes: tuple[str, ...] = ()


def native_fault(truth: object, text_only: bool) -> Rejection | None:
    """What is wrong with verl's own reward_model.ground_truth. `text_only`: the reward compares text."""
    field = "reward_model.ground_truth"
    if is_missing(truth):
        text = f"is the text {truth.strip()!r}" if isinstance(truth, str) and truth.strip() else "is null or blank"
        word = isinstance(truth, str) and truth.strip().casefold() in MISSING_WORDS
        message = f"ground_truth {text}: {'what null becomes as text' if word else 'every reply would score 0'}"
        return Rejection("GROUND_TRUTH_MISSING", message, "give the answer, or leave the row out", field)
    if text_only and isinstance(truth, (bool, int, float)):
        message = (
            f"ground_truth is {kind_name(truth)}, not text: verl's scorers compare text, and would score every right "
            "answer 0"
        )
        return Rejection(
            "GROUND_TRUTH_TYPE", message, "write it as text, or have it converted with --data-adapter messages", field
        )
    return None


def reference(record: dict[str, Any], reply: str = "") -> Reference | Rejection:
    """The reference answer that the record states. `reply`: the assistant's last turn, which counts if it is marked."""
    found = reference_of(record)
    solution = reply or text_of(record, SOLUTIONS)
    marked = marked_answer(solution) if solution else None
    if found is None:
        return _from_solution(solution, marked)
    name, value = found
    stated = _stated(name, value)
    if isinstance(stated, Rejection) or not isinstance(marked, Marked) or not isinstance(stated.truth, str):
        return stated
    if stated.marker == "" and comparable(stated.truth) != comparable(marked.value):
        message = f"{name} says {stated.truth[:40]!r}, but the solution marks {marked.value[:40]!r} as the answer"
        return Rejection("ANSWER_AMBIGUOUS", message, "make the two agree", name)
    return stated._replace(solution=stated.solution or solution)


def _from_solution(solution: str, marked: Marked | Unclear | None) -> Reference | Rejection:
    if isinstance(marked, Unclear):
        return Rejection("ANSWER_AMBIGUOUS", f"no answer can be relied on: {marked.reason}", _MENDS)
    if marked is None:
        what = "its solution marks no answer" if solution else "it has no answer"
        return Rejection("ANSWER_MISSING", f"the record has no reliable reference answer: {what}", _MENDS)
    return _tidied(marked.value, marked.marker, solution)


def _stated(name: str, value: Any) -> Reference | Rejection:
    """The answer that a field of that name states."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if is_missing(value):
        shown = f"the text {value.strip()!r}" if isinstance(value, str) and value.strip() else "null or blank"
        return Rejection("GROUND_TRUTH_MISSING", f"{name} is {shown}: there is no answer to compare with", _MENDS, name)
    if isinstance(value, bool):
        return Rejection("GROUND_TRUTH_TYPE", f"{name} is true or false, not text", "write the answer as text", name)
    if isinstance(value, (int, float)):
        return _number(name, value)
    if not isinstance(value, str):
        return Reference(value)
    return _stated_text(name, value)


def _stated_text(name: str, text: str) -> Reference | Rejection:
    marked = marked_answer(text)
    if isinstance(marked, Unclear):
        return Rejection("ANSWER_AMBIGUOUS", f"no answer can be relied on: in {name}, {marked.reason}", _MENDS, name)
    if marked is not None:
        return _tidied(marked.value, marked.marker, text if text.strip() != marked.value else "")
    text = text.strip()
    if name in VERBATIM or name.startswith("reward_model"):
        return _tidied(text, "", "")
    marker = unread_marker(text)
    if marker is not None:
        message = (
            f"{name} holds the marker {marker}, but no answer behind it (#### counts at the start of the last line)"
        )
        return Rejection("ANSWER_MISSING", message, _MENDS, name)
    if "\n" in text:
        message = f"{name} is a text of several lines without an answer marker: which part is the answer?"
        return Rejection("ANSWER_MISSING", message, _MENDS, name)
    return _tidied(text, "", "")


def _number(name: str, value: int | float) -> Reference | Rejection:
    if isinstance(value, float):
        if abs(value) >= _BIGGEST_EXACT_FLOAT:
            message = f"{name} is {value}, a number whose last digits are not known"
            return Rejection("GROUND_TRUTH_TYPE", message, "write the answer as text", name)
        value = int(value) if value.is_integer() else value
    return Reference(str(value), notes=(NUMBER_AS_TEXT,))


def _tidied(text: str, marker: str, solution: str) -> Reference | Rejection:
    if is_missing(text):
        message = f"the reference answer is the text {text!r}, which null becomes"
        return Rejection("GROUND_TRUTH_MISSING", message, "give the answer, or leave the row out")
    plain = plain_number(text)
    if plain is not None and plain != text:
        return Reference(plain, marker, solution, (COMMAS_OUT,))
    return Reference(text, marker, solution)
