"""Rows in tokens: how long they are, which ones training will cut and what they lose, within what a person allows."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow

from loopai_trainer.contract import Backend, RowMeter
from loopai_trainer.files import snapshot_items, snapshots
from loopai_trainer.operations.data_report import LOSSES, histogram, length_stats
from loopai_trainer.operations.problem_tally import ProblemTally
from loopai_trainer.operations.row_pass import Split
from loopai_trainer.records import Plan, Problem, Row, RowLength, Versions
from loopai_trainer.rules import length_limits
from loopai_trainer.rules.length_limits import LengthLimits
from loopai_trainer.rules.sampling import sample

_SPLITS: tuple[Split, ...] = ("train", "validation")
_SHOWN = 5


class Measured(NamedTuple):
    """Findings, an entry for the approval view, and a section for data_check_report.txt (empty: nothing to say)."""

    problems: tuple[Problem, ...] = ()
    summary: Mapping[str, Any] = {}
    report: str = ""


@dataclass(slots=True)
class _Split:
    """What was measured of one split. `lengths`: tokens -> rows; `lost`: code -> rows."""

    where: Split
    rows: int
    measured: int = 0
    estimated: int = 0
    cut: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        return self.cut / self.measured if self.measured else 0.0


class _Source(NamedTuple):
    """Where a split's rows came from, to name a row as a person knows it.

    `items`: the item of the source list that each row was, if lines do not tell.
    """

    where: Split
    path: str | None
    cutoff: int
    reversed: bool
    items: Sequence[int] | None = None

    def problem(self, row: Row, code: str, message: str, hint: str) -> Problem:
        by_row = (self.path or "").lower().endswith(".parquet")
        line, index = (None, row.source_line) if by_row else (row.source_line, None)
        where = self.where
        return Problem("warning", code, where, message, hint, path=self.path, line=line, row=index, field="cutoff_len")


def measure(
    plan: Plan, backend: Backend, versions: Versions, progress: Callable[[int, int], None] | None = None
) -> Measured:
    """Measure the snapshots that the plan names, a fixed sample of them if they are large.

    `progress`: (bytes of snapshots done, bytes in all). A snapshot that cannot be read is left to the check of inputs.
    """
    meter, problems = backend.row_meter(plan, versions)
    if meter is None:
        return Measured(tuple(problems), {}, "\n".join(f"Tokens: {problem.message}" for problem in problems))
    limits, _ = length_limits.of_plan(plan.loopai)
    inputs = {where: plan.loopai["inputs"][where] for where in _SPLITS if plan.loopai["inputs"].get(where)}
    total = sum(_number(entry, "bytes") for entry in inputs.values())
    tally = ProblemTally()
    found: list[_Split] = []
    done = 0
    for where, entry in inputs.items():
        size = _number(entry, "bytes")
        one = _Split(where, _number(entry, "rows"))
        source = _source(plan, where, entry)
        try:
            _measure_split(one, entry["path"], meter, limits, source, tally, _tell(progress, done, size, total))
        except (OSError, pyarrow.ArrowException):
            continue
        found.append(one)
        done += size
    if progress is not None:
        progress(total, total)
    over = [problem for one in found if (problem := _over_limit(one, limits, _cutoff(plan)))]
    report = "\n".join(line for one in found for line in _section(one, tally, plan)) if found else ""
    return Measured((*problems, *over, *tally.kept), _summary(found, plan), report)


def _tell(
    progress: Callable[[int, int], None] | None, before: int, size: int, total: int
) -> Callable[[float], None] | None:
    if progress is None:
        return None
    return lambda share: progress(before + int(share * size), total)


def _number(entry: Mapping[str, Any], name: str) -> int:
    """A whole number of the plan's reserved block; 0 if an edit made something else of it."""
    value = entry.get(name)
    return value if type(value) is int else 0


def _cutoff(plan: Plan) -> int:
    return int(plan.native.get("cutoff_len", 2048))


def _source(plan: Plan, where: Split, entry: Mapping[str, Any]) -> _Source:
    path = (entry.get("source") or {}).get("path")
    return _Source(where, path, _cutoff(plan), plan.native.get("mask_history") is True)


def _measure_split(
    one: _Split,
    path: str,
    meter: RowMeter,
    limits: LengthLimits,
    source: _Source,
    tally: ProblemTally,
    tell: Callable[[float], None] | None,
) -> None:
    wanted = min(one.rows, limits.length_sample or one.rows)
    source = source._replace(items=snapshot_items.read(path))
    indices = sample(one.rows, limits.length_sample)
    for rows in snapshots.rows_in_order(path, sample(one.rows, limits.length_sample)):
        for row, length, index in zip(rows, meter(rows), itertools.islice(indices, len(rows)), strict=True):
            one.measured += 1
            one.estimated += not length.exact
            one.lengths[length.tokens] += 1
            lost = list(_losses(row, length, source, index))
            one.cut += bool(lost)
            for problem in lost:
                one.lost[problem.code] += 1
                tally.add(problem, row.messages[-2][1])
        if tell is not None:
            tell(one.measured / wanted)


def _losses(row: Row, length: RowLength, source: _Source, index: int) -> Iterator[Problem]:
    """What a row loses, one problem for each kind. `index`: of the row in its snapshot, 0-based."""
    item = f"item {source.items[index]} of the list: " if source.items is not None else ""
    about = f"the row has {length.tokens} tokens, cutoff_len is {source.cutoff}"
    hint = "raise cutoff_len, or shorten the row or leave it out"
    if length.prompt_lost:
        text = f"the prompt loses its last {length.prompt_lost} tokens, and its answer is trained all the same: {about}"
        yield source.problem(row, "PROMPT_CUT", item + text, hint)
    if length.answer_lost:
        text = f"the answer loses its last {length.answer_lost} tokens, its end token among them: {about}"
        yield source.problem(row, "ANSWER_CUT", item + text, hint)
    if length.turns_lost:
        pairs, which = len(row.messages) // 2, "first" if source.reversed else "last"
        text = f"the {which} {length.turns_lost} of {pairs} questions with their answers are left out: {about}"
        yield source.problem(row, "TURNS_CUT", item + text, hint)


def _over_limit(one: _Split, limits: LengthLimits, cutoff: int) -> Problem | None:
    if one.share <= limits.max_cut_share:
        return None
    stats = length_stats(one.lengths)
    message = (
        f"{one.cut} of {one.measured} measured rows ({one.share:.1%}) lose something at cutoff_len {cutoff}; "
        f"at most {limits.max_cut_share:.1%} are accepted"
    )
    hint = (
        f"set cutoff_len to {stats.maximum} for all rows (99 % fit in {stats.p99}), shorten the rows, "
        f"or accept it: --option max_cut_share={_next_percent(one.share)}"
    )
    return Problem("error", "CUT_SHARE", one.where, message, hint, field="cutoff_len")


def _next_percent(share: float) -> float:
    return min(100, int(share * 100) + 1) / 100


def _summary(found: list[_Split], plan: Plan) -> dict[str, Any]:
    entries = []
    for one in found:
        stats = length_stats(one.lengths)
        of = "" if one.measured == one.rows else f" of {one.measured} sampled"
        entries.append(
            f"{one.where}: half at most {stats.p50}, 99 % at most {stats.p99}, most {stats.maximum}; "
            f"{one.cut}{of} rows are cut at {_cutoff(plan)}"
        )
    return {"row_tokens": "; ".join(entries)} if entries else {}


def _section(one: _Split, tally: ProblemTally, plan: Plan) -> Iterator[str]:
    stats = length_stats(one.lengths)
    yield (
        f"Tokens a row in {one.where} (template {plan.native.get('template')}): least {stats.minimum}, "
        f"half at most {stats.p50}, 90 % at most {stats.p90}, 99 % at most {stats.p99}, most {stats.maximum}"
    )
    if one.measured < one.rows:
        yield f"  {one.measured} of {one.rows} rows were measured, evenly spread; length_sample: all measures every row"
    if one.estimated:
        yield f"  {one.estimated} rows are estimates: a tool format that is not followed here, or a huge text"
    if one.measured:
        yield from histogram(one.lengths)
    yield f"  {one.cut} rows ({one.share:.1%}) are cut at cutoff_len {_cutoff(plan)}"
    for code in LOSSES:
        if one.lost[code]:
            yield f"    {code:12}{one.lost[code]:>10}"
            kept = [problem for problem in tally.kept if (problem.code, problem.where) == (code, one.where)]
            yield from (f"      {_place(problem)}: {problem.message}" for problem in kept[:_SHOWN])


def _place(problem: Problem) -> str:
    return f"line {problem.line}" if problem.row is None else f"row {problem.row}"
