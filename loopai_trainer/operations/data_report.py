"""The text of data_check_report.txt: what a person wants to know of the data first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from loopai_trainer.operations.problem_tally import ProblemTally
from loopai_trainer.operations.row_pass import FileFacts
from loopai_trainer.records import Counts, LengthStats, Problem

_SHOWN_PER_CODE = 5
_BAR_WIDTH = 40
LOSSES = ("PROMPT_CUT", "ANSWER_CUT", "TURNS_CUT")
"""Codes of rows that training would cut."""
_NONE_FOUND = "No problems found."
_NONE_BUT_CUT = "No problems found but rows that training would cut: see the tokens below."


def report_text(
    files: Sequence[FileFacts], counts: Mapping[str, Counts], tally: ProblemTally, split: str, outcome: str
) -> str:
    """The whole report. `split`: one sentence on how rows were held out, or empty; `outcome`: one on what follows."""
    lines = ["DATA CHECK", outcome, ""]
    lines += _table(files, counts)
    if split:
        lines += ["", f"Split: {split}"]
    lines += _problems(tally)
    for facts in files:
        lines += _about(facts)
    return "\n".join(lines) + "\n"


def with_tokens(report: str, section: str, refused: str) -> str:
    """The report once rows were measured in tokens: its claims above must hold beside the section below.

    `section`: what was measured; `refused`: why the data are refused after all, or empty.
    """
    if refused:
        report = report.replace("\nAccepted", f"\nRefused: {refused}.\nThe rows for themselves: accepted", 1)
    cut = any(f"    {code} " in section for code in LOSSES)
    return report.replace(f"\n{_NONE_FOUND}\n", f"\n{_NONE_BUT_CUT}\n", 1) if cut else report


def length_stats(lengths: Counter[int]) -> LengthStats:
    """Nearest-rank percentiles of rows by characters; zeros if there are no rows."""
    total = lengths.total()
    if not total:
        return LengthStats(0, 0, 0, 0, 0)
    ordered = sorted(lengths.items())
    ranks = {name: max(1, -(-total * percent // 100)) for name, percent in (("p50", 50), ("p90", 90), ("p99", 99))}
    found: dict[str, int] = {}
    seen = 0
    for characters, rows in ordered:
        seen += rows
        for name, rank in ranks.items():
            if seen >= rank:
                found.setdefault(name, characters)
    return LengthStats(ordered[0][0], found["p50"], found["p90"], found["p99"], ordered[-1][0])


def _table(files: Sequence[FileFacts], counts: Mapping[str, Counts]) -> list[str]:
    lines = [f"{'':12}{'rows in':>12}{'usable':>12}{'rejected':>12}"]
    lines += [f"{where:12}{c.input:>12}{c.usable:>12}{c.rejected:>12}" for where, c in counts.items()]
    lines.append("")
    for facts in files:
        lines.append(f"{facts.where}: {facts.path} ({facts.layout}, {facts.format} rows; from {facts.origin})")
    return lines


def _problems(tally: ProblemTally) -> Iterator[str]:
    if not tally.counts:
        yield from ("", _NONE_FOUND)
        return
    yield from ("", "Problems, by how often they were found:")
    severities = {problem.code: problem.severity for problem in tally.kept}
    order = sorted(tally.counts.items(), key=lambda item: (severities.get(item[0]) != "error", -item[1], item[0]))
    for code, count in order:
        yield f"  {severities.get(code, ''):8}{code:26}{count:>10}"
    for code, _ in order:
        found = [(p, about) for p, about in zip(tally.kept, tally.excerpts, strict=True) if p.code == code]
        yield from ("", f"{code} ({found[0][0].severity})" if found else code)
        for problem, about in found[:_SHOWN_PER_CODE]:
            yield f"  {place(problem)}: {problem.message}"
            if about:
                yield f"      {about}"
        if len(found) > _SHOWN_PER_CODE or tally.counts[code] > len(found):
            yield f"  ... and {tally.counts[code] - min(len(found), _SHOWN_PER_CODE)} more"
        hints = dict.fromkeys(problem.hint for problem, _ in found if problem.hint)
        yield from (f"  hint: {hint}" for hint in list(hints)[:3])


def place(problem: Problem) -> str:
    """'train line 3, output' for people."""
    at: str = problem.where
    if problem.line is not None:
        at += f" line {problem.line}"
    if problem.row is not None:
        at += f" row {problem.row}"
    return f"{at}, {problem.field}" if problem.field else at


def _about(facts: FileFacts) -> Iterator[str]:
    if facts.notes:
        yield from ("", f"What was converted in {facts.where}:")
        yield from (f"  {count:>10}  {note}" for note, count in facts.notes.most_common())
    if not facts.usable:
        return
    stats = length_stats(facts.lengths)
    yield ""
    yield (
        f"Characters a row in {facts.where}: least {stats.minimum}, half at most {stats.p50}, "
        f"90 % at most {stats.p90}, 99 % at most {stats.p99}, most {stats.maximum}"
    )
    yield from histogram(facts.lengths)


def histogram(lengths: Counter[int]) -> Iterator[str]:
    """Lines of a bar chart of lengths; each bar holds twice the range of the one before."""
    bins: Counter[int] = Counter()
    for characters, rows in lengths.items():
        bins[characters.bit_length()] += rows
    highest = max(bins.values())
    for bits in range(min(bins), max(bins) + 1):
        low, high = (1 << bits) >> 1, (1 << bits) - 1
        bar = "#" * -(-bins[bits] * _BAR_WIDTH // highest)
        yield f"  {low:>9} - {high:<9} {bins[bits]:>10} {bar}".rstrip()
