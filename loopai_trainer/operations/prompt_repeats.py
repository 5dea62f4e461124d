"""Prompts that stand twice, contradict each other, or stand in both the training and the validation data."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator
from typing import Any

import pyarrow
import pyarrow.compute as compute

from loopai_trainer.files.prompt_columns import NativeFile
from loopai_trainer.files.prompt_files import spooled_prompts
from loopai_trainer.operations.problem_tally import KEPT_PER_CODE, ProblemTally
from loopai_trainer.operations.prompt_side import PromptSide
from loopai_trainer.operations.row_repeats import line_ranges
from loopai_trainer.records import Problem, Severity
from loopai_trainer.rules import splitting

_SHOWN_ROWS = 12


def report_repeats(side: PromptSide, tally: ProblemTally) -> int:
    """Warn of rows that repeat each other and of prompts with several answers; gives the number of surplus rows."""
    surplus, contradictions, duplicates = 0, 0, 0
    kept: list[tuple[int, splitting.Repeats]] = []
    for group in _groups(side):
        answers = max(group.answers) + 1
        contradictions += answers > 1
        duplicates += answers < len(group.rows)
        surplus += len(group.rows) - answers
        heapq.heappush(kept, (-group.rows[0], group))  # no two groups have one first row
        if len(kept) > KEPT_PER_CODE * 2:
            heapq.heappop(kept)
    shown = {"DUPLICATE_ROW": 0, "CONTRADICTION": 0}
    for _, group in sorted(kept, key=lambda one: -one[0]):
        for problem in _group_problems(side, group):
            shown[problem.code] += 1
            tally.add(problem)
    tally.count_more("DUPLICATE_ROW", duplicates - shown["DUPLICATE_ROW"])
    tally.count_more("CONTRADICTION", contradictions - shown["CONTRADICTION"])
    return surplus


def _groups(side: PromptSide) -> Iterator[splitting.Repeats]:
    """Rows with one prompt. Only prompts that stand twice are made into objects."""
    prompts = _column(side.facts.prompts)
    if len(compute.unique(prompts)) == len(prompts):
        return  # most often; to count them costs half as much again
    counted = compute.value_counts(prompts)
    repeated = counted.field("values").filter(compute.greater(counted.field("counts"), 1))
    if not len(repeated):
        return
    rows = array("Q", compute.indices_nonzero(compute.is_in(prompts, value_set=repeated)).to_pylist())
    some_prompts = array("Q", [side.facts.prompts[row] for row in rows])
    some_answers = array("q", [side.facts.answers[row] for row in rows])
    for group in splitting.repeats(some_prompts, some_answers):
        yield group._replace(rows=tuple(rows[index] for index in group.rows))


def _group_problems(side: PromptSide, group: splitting.Repeats) -> Iterator[Problem]:
    places = side.places(list(group.rows[:_SHOWN_ROWS]))
    unit = "item" if side.facts.by_item else side.facts.unit
    more = ", ..." if len(group.rows) > _SHOWN_ROWS else ""
    answers = max(group.answers) + 1
    if answers < len(group.rows):
        message = f"the same prompt and answer stand more than once: {unit}s {line_ranges(places)}{more}"
        yield _problem(side, "DUPLICATE_ROW", group.rows[0], message, "keep one, unless it is meant to weigh more")
    if answers > 1:
        message = f"one prompt has {answers} different ground truths: {unit}s {line_ranges(places)}{more}"
        yield _problem(side, "CONTRADICTION", group.rows[0], message, "keep the right one")


def rows_in(side: PromptSide, other: PromptSide) -> list[int]:
    """The rows of `side` whose prompt stands in `other` too, in order."""
    return _shared(side.facts.prompts, other.facts.prompts)


def _shared(prompts: array[int], others: array[int]) -> list[int]:
    rows: list[int] = compute.indices_nonzero(compute.is_in(_column(prompts), value_set=_column(others))).to_pylist()
    return rows


def report_overlap(train: PromptSide, held: PromptSide, severity: Severity, tally: ProblemTally) -> int:
    """OVERLAP for each validation row whose prompt stands in the training data too; gives their number."""
    at = rows_in(held, train)
    earliest = at[:KEPT_PER_CODE]
    first: dict[int, int] = {}
    for row in _shared(train.facts.prompts, array("Q", [held.facts.prompts[row] for row in earliest])):
        first.setdefault(train.facts.prompts[row], row)
    pairs = [(first[held.facts.prompts[row]], row) for row in earliest]
    train_texts = _texts(train, [pair[0] for pair in pairs])
    held_texts = _texts(held, [pair[1] for pair in pairs])
    for train_row, held_row in pairs:
        alike = "" if train_texts[train_row] == held_texts[held_row] else ", apart from blanks or character forms"
        unit = "item" if held.facts.by_item else held.facts.unit
        message = f"the same prompt stands in the validation data too ({unit} {held.places([held_row])[0]}{alike})"
        hint = "take it out of one of the two"
        if severity == "error":
            hint += "; or accept it with --option allow_overlap=true"
        tally.add(_problem(train, "OVERLAP", train_row, message, hint, severity))
    tally.count_more("OVERLAP", len(at) - len(earliest), errors=severity == "error")
    return len(at)


def _texts(side: PromptSide, rows: list[int]) -> dict[int, list[tuple[str, str]]]:
    if not side.native:
        return spooled_prompts(side.path, rows)
    in_file = [int(side.positions[row]) for row in rows]
    with NativeFile(side.path) as file:
        found = file.prompts_at(in_file)
    return {row: found[at] for row, at in zip(rows, in_file, strict=True)}


def _column(keys: array[int]) -> Any:
    """The keys as an Arrow column, without a copy."""
    return pyarrow.Array.from_buffers(pyarrow.uint64(), len(keys), [None, pyarrow.py_buffer(memoryview(keys))])


def _problem(side: PromptSide, code: str, row: int, message: str, hint: str, severity: Severity = "warning") -> Problem:
    facts, at = side.facts, int(side.positions[row])
    item = f"item {facts.item_of(row)} of the list: " if facts.by_item else ""
    line, number = (at, None) if facts.unit == "line" else (None, at)
    return Problem(
        severity, code, facts.where, item + message, hint, path=facts.path, line=line, row=number, origin=facts.origin
    )
