"""Rows that stand twice, contradict each other, or stand in both the training and the validation data."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence

from loopai_trainer.files import snapshots
from loopai_trainer.operations.problem_tally import KEPT_PER_CODE, ProblemTally
from loopai_trainer.operations.row_pass import FileFacts
from loopai_trainer.records import Problem, Row, Severity
from loopai_trainer.rules import splitting

_SHOWN_ROWS = 12


def report_repeats(facts: FileFacts, snapshot: str, tally: ProblemTally) -> None:
    """Warn of rows that repeat each other (DUPLICATE_ROW) and of prompts with several answers (CONTRADICTION).

    One warning for each group of rows. `snapshot` holds the rows of `facts`.
    """
    counted = _Counted(splitting.repeats(facts.prompts, facts.answers))
    earliest = heapq.nsmallest(KEPT_PER_CODE * 2, counted, key=lambda group: group.rows[0])
    shown = [row for group in earliest for row in _shown(group)]
    rows = snapshots.rows_at(snapshot, shown)
    kept = {"DUPLICATE_ROW": 0, "CONTRADICTION": 0}
    for group in earliest:
        for problem in _group_problems(facts, group, rows):
            kept[problem.code] += 1
            tally.add(problem)
    tally.count_more("DUPLICATE_ROW", counted.duplicates - kept["DUPLICATE_ROW"])
    tally.count_more("CONTRADICTION", counted.contradictions - kept["CONTRADICTION"])


class _Counted:
    """Passes groups on and counts what they will be called."""

    def __init__(self, groups: Iterator[splitting.Repeats]) -> None:
        self._groups = groups
        self.duplicates = 0
        self.contradictions = 0

    def __iter__(self) -> Iterator[splitting.Repeats]:
        for group in self._groups:
            answers = max(group.answers) + 1
            self.contradictions += answers > 1
            self.duplicates += sum(1 for rows in _by_answer(group) if len(rows) > 1)
            yield group


def _by_answer(group: splitting.Repeats) -> list[list[int]]:
    result: list[list[int]] = [[] for _ in range(max(group.answers) + 1)]
    for row, answer in zip(group.rows, group.answers, strict=True):
        result[answer].append(row)
    return result


def _shown(group: splitting.Repeats) -> set[int]:
    shown: set[int] = set()
    for rows in _by_answer(group)[:KEPT_PER_CODE]:
        shown.update(rows[:_SHOWN_ROWS])
    return shown


def _group_problems(facts: FileFacts, group: splitting.Repeats, rows: dict[int, Row]) -> Iterator[Problem]:
    by_answer = _by_answer(group)
    for same in by_answer[:KEPT_PER_CODE]:
        if len(same) > 1:
            shown = same[:_SHOWN_ROWS]
            known = [rows[row] for row in shown]
            more = ", ..." if len(same) > _SHOWN_ROWS else ""
            alike = (
                "" if all(_same_prompt(row, known[0]) for row in known) else " (apart from blanks or character forms)"
            )
            message = f"the same row stands {len(same)} times{alike}: {_places(facts, shown, known)}{more}"
            yield _problem(facts, "DUPLICATE_ROW", known[0], message, "keep one, unless it is meant to weigh more")
    if len(by_answer) > 1:
        first, other = rows[by_answer[0][0]], rows[by_answer[1][0]]
        count = len(by_answer)
        here = f"in item {facts.item_of(by_answer[1][0])}" if facts.by_item else "here"
        message = f"the prompt of {_places(facts, [by_answer[0][0]], [first])} has another answer {here}" + (
            f"; {count} different answers in all" if count > 2 else ""
        )
        yield _problem(facts, "CONTRADICTION", other, message, "keep the right answer, unless several are right")


def report_overlap(
    train: FileFacts, train_snapshot: str, held: FileFacts, held_snapshot: str, severity: Severity, tally: ProblemTally
) -> None:
    """OVERLAP for each validation row whose prompt stands in the training data too, by whatever answer."""
    total = 0

    def counted() -> Iterator[tuple[int, int]]:
        nonlocal total
        for pair in splitting.shared(train.prompts, held.prompts):
            total += 1
            yield pair

    earliest = heapq.nsmallest(KEPT_PER_CODE, counted(), key=lambda pair: pair[1])
    train_rows = snapshots.rows_at(train_snapshot, [pair[0] for pair in earliest])
    held_rows = snapshots.rows_at(held_snapshot, [pair[1] for pair in earliest])
    for train_row, held_row in earliest:
        place = _places(held, [held_row], [held_rows[held_row]])
        item = f"item {train.item_of(train_row)} of the list: " if train.by_item else ""
        tally.add(_overlap(train, train_rows[train_row], held_rows[held_row], place, item, severity))
    tally.count_more("OVERLAP", total - len(earliest), errors=severity == "error")


def _places(facts: FileFacts, usable: Sequence[int], rows: Sequence[Row]) -> str:
    """'lines 1, 9-14', or 'items ...' where several stand on a line."""
    unit = "item" if facts.by_item else facts.unit
    numbers = [facts.item_of(index) for index in usable] if facts.by_item else [row.source_line for row in rows]
    return f"{unit}{'s' if len(numbers) > 1 else ''} {line_ranges(numbers)}"


def _overlap(train: FileFacts, row: Row, other: Row, place: str, item: str, severity: Severity) -> Problem:
    same = "the same row" if row.messages[-1] == other.messages[-1] else "the same prompt with another answer"
    alike = "" if _same_prompt(row, other) else ", apart from blanks or character forms"
    message = f"{item}{same} stands in the validation data too ({place}{alike})"
    hint = "take it out of one of the two"
    if severity == "error":
        hint += "; or accept it with --option allow_overlap=true"
    return _problem(train, "OVERLAP", row, message, hint, severity)


def _same_prompt(row: Row, other: Row) -> bool:
    return (row.messages[:-1], row.system, row.tools) == (other.messages[:-1], other.system, other.tools)


def _problem(facts: FileFacts, code: str, row: Row, message: str, hint: str, severity: Severity = "warning") -> Problem:
    by_line = facts.unit == "line"
    return Problem(
        severity,
        code,
        facts.where,
        message,
        hint,
        path=facts.path,
        line=row.source_line if by_line else None,
        row=None if by_line else row.source_line,
        origin=facts.origin,
    )


def line_ranges(lines: Sequence[int]) -> str:
    """'1, 9-14' for people."""
    ranges: list[str] = []
    for _, group in itertools.groupby(enumerate(lines), lambda pair: pair[1] - pair[0]):
        run = [line for _, line in group]
        ranges.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(ranges)
