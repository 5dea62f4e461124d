"""The text that a person reads first."""

from collections import Counter

from loopai_trainer.operations.data_report import length_stats, place, report_text
from loopai_trainer.operations.problem_tally import ProblemTally
from loopai_trainer.operations.row_pass import FileFacts
from loopai_trainer.records import Counts, LengthStats, Problem


def facts(**more):
    values = {
        "where": "train",
        "path": "/d/a.jsonl",
        "origin": "--dataset",
        "layout": "JSON Lines",
        "unit": "line",
        "format": "alpaca",
    }
    return FileFacts(**{**values, **more})


def test_percentiles_are_by_nearest_rank():
    assert length_stats(Counter(dict.fromkeys(range(1, 101), 1))) == LengthStats(1, 50, 90, 99, 100)
    assert length_stats(Counter({7: 1})) == LengthStats(7, 7, 7, 7, 7)
    assert length_stats(Counter()) == LengthStats(0, 0, 0, 0, 0)


def test_the_report_tells_counts_faults_lengths_and_conversions():
    tally = ProblemTally()
    for line in range(1, 31):
        problem = Problem("error", "OUTPUT_NULL", "train", "output is null", "give it", line=line, field="output")
        tally.add(problem, {"instruction": "x" * 500, "output": None})
    tally.add(Problem("warning", "DUPLICATE_ROW", "train", "stands twice", row=3))
    tally.count_more("DUPLICATE_ROW", 9)
    tally.count_more("CONTRADICTION", 0)
    one = facts(input=40, usable=10, rejected=30, lengths=Counter({10: 5, 1000: 5}))
    one.notes["byte-order mark left out"] = 1
    text = report_text([one], {"train": Counts(40, 10, 30)}, tally, "1 of 10", "Refused.")
    lines = text.splitlines()
    assert lines[:2] == ["DATA CHECK", "Refused."]
    assert "train                 40          10          30" in lines
    assert "train: /d/a.jsonl (JSON Lines, alpaca rows; from --dataset)" in lines
    assert "Split: 1 of 10" in lines
    assert "  error   OUTPUT_NULL                       30" in lines
    assert "  warning DUPLICATE_ROW                     10" in lines
    assert text.index("error   OUTPUT_NULL") < text.index("warning DUPLICATE_ROW")
    assert "  train line 1, output: output is null" in lines
    assert "  ... and 25 more" in lines
    assert "  ... and 9 more" in lines
    assert "  hint: give it" in lines
    assert "           1  byte-order mark left out" in lines
    assert any(line.startswith("          8 - 15 ") and line.endswith("#" * 40) for line in lines)
    assert "CONTRADICTION" not in text
    assert max(map(len, lines)) < 220


def test_no_problems_are_said_so():
    assert "No problems found." in report_text([facts()], {"train": Counts(0, 0, 0)}, ProblemTally(), "", "Accepted.")


def test_places_are_lines_or_rows():
    assert place(Problem("error", "X", "validation", "m", row=0)) == "validation row 0"
    assert place(Problem("error", "X", "train", "m", line=3, field="output")) == "train line 3, output"


def test_excerpts_are_short_printable_and_shallow():
    tally = ProblemTally()
    deep = []
    for _ in range(2000):
        deep = [deep]
    for about in ({"a": "\x1b[31m" + "x" * 9999}, b"\xff\x00" * 999, deep, None, {"n": list(range(99))}):
        tally.add(Problem("error", "X", "train", "m"), about)
    assert all(len(text) < 170 and text.isprintable() for text in tally.excerpts)
    assert tally.excerpts[2] == "[[[[...]]]]"
    assert tally.excerpts[3] == ""
