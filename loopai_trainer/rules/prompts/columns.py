"""Many prompts at once, as columns; and the quick way there for records whose shape leaves little to be asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import itemgetter, ne
from typing import Any

from loopai_trainer.records import Rejection
from loopai_trainer.rules.prompts import records
from loopai_trainer.rules.prompts.adapters import DEFAULT_DATA_SOURCE, REPLY_OUT, UNNAMED, PromptCheck
from loopai_trainer.rules.prompts.prompt_row import PromptRow

_SPECIAL = frozenset(
    (
        *(*records.TURNS, *records.QUESTIONS, *records.ANSWERS, *records.SOLUTIONS, *records.SYSTEMS),
        *(*records.CONTEXTS, *records.CHOICES, *records.MEDIA, records.INSTRUCTION),
        *("input", "history", "reward_model", "data_source", "ability", "extra_info"),
    )
)
ANSWER_MARKS = ("\\box", "\\fbox", "</", "nswer", "NSWER", "答案")
"""Texts with one of them get a close look: an answer of that kind may stand there."""
PROMPT_MARKS = ("####", "\\box", "\\fbox", "nswer", "NSWER")
"""As above, of prompts. The first one also tells that a prompt holds a whole solution whose answer is marked by it."""
ANSWER_LINE = "\n#### "
LONGEST_NUMBER = 18
"""Digits of an answer that needs no close look; fewer characters than a solution that must not stand in the prompt."""


@dataclass(slots=True)
class PromptColumns:
    """Prompts in file order. `turns`: the number of turns of each; empty if each is one user turn.

    Columns that are empty where all rows have nothing: `roles` (as `turns`), `abilities`, `styles`, `extras`.
    """

    contents: list[str]
    truths: list[Any]
    data_sources: list[str]
    turns: list[int] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    abilities: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    extras: list[dict[str, Any] | None] = field(default_factory=list)
    adapters: Counter[str] = field(default_factory=Counter)
    markers: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)

    def prompts(self) -> list[list[tuple[str, str]]]:
        """The turns of each prompt."""
        if not self.turns:
            return [[("user", content)] for content in self.contents]
        pairs = iter(zip(self.roles, self.contents, strict=True))
        return [[next(pairs) for _ in range(count)] for count in self.turns]


def columns_of(rows: Sequence[PromptRow]) -> PromptColumns:
    """Rows as columns."""
    result = PromptColumns(
        [content for row in rows for _, content in row.messages],
        [row.ground_truth for row in rows],
        [row.data_source for row in rows],
        adapters=Counter([row.adapter for row in rows]),
        markers=Counter([row.marker for row in rows if row.marker]),
    )
    for row in rows:
        if row.notes:
            result.notes.update(row.notes)
    if any(len(row.messages) != 1 or row.messages[0][0] != "user" for row in rows):
        result.turns = [len(row.messages) for row in rows]
        result.roles = [role for row in rows for role, _ in row.messages]
    if any(row.ability for row in rows):
        result.abilities = [row.ability for row in rows]
    if any(row.style for row in rows):
        result.styles = [row.style for row in rows]
    if any(row.extra for row in rows):
        result.extras = [row.extra for row in rows]
    return result


@dataclass(slots=True)
class _Plain:
    """Questions and the texts that hold their answers; `stated`: a bare number in such a text is an answer too."""

    adapter: str
    questions: list[str]
    answers: list[str]
    stated: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TwoTexts:
    """Records whose prompt is one text and whose answer stands in another; each names a key.

    `stated`: a bare number as the answer's text is an answer too, not only one behind `####`.
    """

    adapter: str
    question: str
    answer: str
    stated: bool


def two_texts(record: dict[str, Any], adapter: str) -> TwoTexts | None:
    """What a record is, by its keys, if they leave no doubt that it is of that kind."""
    shape = _TWO_TEXTS.get(_SPECIAL.intersection(record))
    return shape if shape is not None and adapter in ("auto", shape.adapter) else None


_TWO_TEXTS = {
    frozenset((shape.question, shape.answer)): shape
    for shape in (
        TwoTexts("qa", "question", "answer", stated=True),
        TwoTexts("qa", "problem", "answer", stated=True),
        TwoTexts("alpaca", "instruction", "output", stated=False),
    )
}


def quick_columns(
    values: Sequence[Any], adapter: str, data_source: str, check: PromptCheck
) -> tuple[PromptColumns, list[tuple[int, Rejection]]] | None:
    """Records of one plain shape as columns, with those that are bad; None if they are of no such shape.

    Rows that are not plain in their texts go through `check`, so that the verdict is always the same as its.
    """
    try:
        plain = _plain(values, adapter)
    except (KeyError, TypeError, AttributeError, ValueError):
        return None
    if plain is None:
        return None
    truths = _numbers(plain)
    unsure = [index for index, truth in enumerate(truths) if truth is None] if None in truths else []
    # A number that is shorter than its text stood behind a marker; unsure ones are counted below.
    quick_ones = (truths, plain.answers) if not unsure else _sure(truths, plain.answers)
    marked = sum(map(ne, map(len, quick_ones[0]), map(len, quick_ones[1])))
    markers = Counter({"####": marked})
    notes: Counter[str] = Counter()
    quick = len(truths) - len(unsure)
    bad: list[tuple[int, Rejection]] = []
    named = data_source or DEFAULT_DATA_SOURCE
    result = PromptColumns(plain.questions, truths, [named] * len(truths), markers=markers, notes=notes)
    for index in unsure:
        verdict = check(values[index])
        if isinstance(verdict, Rejection):
            bad.append((index, verdict))
            continue
        result.contents[index], result.truths[index] = verdict.messages[-1][1], verdict.ground_truth
        markers.update([verdict.marker] if verdict.marker else ())
        notes.update(verdict.notes)
    result.adapters[plain.adapter] = len(truths) - len(bad)
    if quick:
        notes.update(dict.fromkeys(plain.notes if data_source else (*plain.notes, UNNAMED), quick))
    if bad:
        keep = bytearray(b"\1") * len(truths)
        for index, _ in bad:
            keep[index] = 0
        for name in ("contents", "truths", "data_sources"):
            setattr(result, name, list(compress(getattr(result, name), keep)))
    return result, bad


def _sure(truths: list[Any], answers: list[str]) -> tuple[list[Any], list[str]]:
    known = [truth is not None for truth in truths]
    return list(compress(truths, known)), list(compress(answers, known))


def _plain(values: Sequence[Any], adapter: str) -> _Plain | None:
    """What all records hold, if they are plain; raises KeyError or TypeError if some are not."""
    keys = tuple(values[0]) if type(values[0]) is dict else ()
    special = _SPECIAL.intersection(keys)
    reader = _READERS.get(frozenset(special))
    if reader is None or adapter not in ("auto", reader[0]):
        return None
    if not all(map(dict.fromkeys(keys).keys().__eq__, map(dict.keys, values))):
        return None
    plain = reader[1](values)
    if not (set(map(type, plain.questions)) == set(map(type, plain.answers)) == {str}):
        return None
    return plain


def _questions(name: str) -> Callable[[Sequence[Any]], _Plain]:
    question, answer = itemgetter(name), itemgetter("answer")
    return lambda values: _Plain("qa", list(map(question, values)), list(map(answer, values)), stated=True)


def _alpaca(values: Sequence[Any]) -> _Plain:
    instructions = [row["instruction"] for row in values]
    inputs = [row.get("input") or "" for row in values]
    texts = [
        f"{text}\n{given}" if given and not given.isspace() and text and not text.isspace() else text
        for text, given in zip(instructions, inputs, strict=True)
    ]
    if any(not text or text.isspace() for text in texts):
        raise KeyError("instruction")
    return _Plain("alpaca", texts, [row["output"] for row in values], stated=False)


def _chats(values: Sequence[Any]) -> _Plain:
    questions, answers = [], []
    for row in values:
        first, last = row["messages"]  # a chat of another length raises ValueError
        if first["role"] != "user" or last["role"] != "assistant":
            raise KeyError("role")
        questions.append(first["content"])
        answers.append(last["content"])
    return _Plain("messages", questions, answers, stated=False, notes=(REPLY_OUT,))


_READERS: dict[frozenset[str], tuple[str, Callable[[Sequence[Any]], _Plain]]] = {
    frozenset(("question", "answer")): ("qa", _questions("question")),
    frozenset(("problem", "answer")): ("qa", _questions("problem")),
    frozenset(("instruction", "output")): ("alpaca", _alpaca),
    frozenset(("instruction", "input", "output")): ("alpaca", _alpaca),
    frozenset(("messages",)): ("messages", _chats),
}


def _numbers(plain: _Plain) -> list[str | None]:
    """The answer of each row that is a plain number behind `####` (or alone, if that states it); None: look closely."""
    answers = plain.answers
    ends = [answer.rpartition(ANSWER_LINE)[2] for answer in answers]
    truths: list[str | None] = [
        end if end.isdigit() and end.isascii() and len(end) <= LONGEST_NUMBER else None for end in ends
    ]
    if not plain.stated:
        truths = [
            None if truth is not None and len(truth) == len(answer) else truth
            for truth, answer in zip(truths, answers, strict=True)
        ]
    for texts, marks in ((answers, ANSWER_MARKS), (plain.questions, PROMPT_MARKS)):
        together = "\0".join(texts)
        # One rare character is looked for several times as fast as a word.
        for mark in [mark for mark in marks if mark[0] in together and mark in together]:
            for index, text in enumerate(texts):
                if mark in text:
                    truths[index] = None
    # No solution is looked for in its prompt: one that a truth was read from here is a number alone, and too short for
    # that, or holds `####`, as the prompt would too.
    if not all(map(str.strip, plain.questions)):
        for index, question in enumerate(plain.questions):
            if not question.strip():
                truths[index] = None
    return truths
