"""Source files in, snapshots, registry and report out; what is refused, and what a repeated prepare leaves."""

import json
import os
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from fakes.row_backend import prepare
from hypothesis import given, settings
from hypothesis import strategies as st

from loopai_trainer.errors import DataError
from loopai_trainer.files.snapshots import rows_at
from loopai_trainer.records import Counts

HELD_LINES = [10, 20, 32, 38, 42]


def alpaca(number, output="a", **more):
    return {"instruction": f"question {number}", "input": "", "output": output, **more}


@pytest.fixture
def write(tmp_path):
    def write(name, rows):
        path = tmp_path / name
        if name.endswith(".parquet"):
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        elif name.endswith(".json"):
            path.write_text(json.dumps(rows, indent=2), encoding="utf-8")
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def prepared(run):
    return sorted(os.listdir(run / "prepared_data"))


def refused(*args, **more):
    with pytest.raises(DataError) as caught:
        prepare(*args, **more)
    return caught.value


def test_good_rows_become_one_snapshot_with_its_registry_and_report(write, run):
    seen = []
    source = write("a.jsonl", [alpaca(n) for n in range(5)])
    report = prepare(run, source, progress=lambda done, total: seen.append((done, total)))
    (train,) = report.splits
    assert train.counts == Counts(5, 5, 0)
    assert (train.where, train.format, train.origin) == ("train", "alpaca", "--dataset")
    assert train.snapshot.source_path == str(source)
    assert train.lengths.minimum == train.lengths.maximum == len("question 0a")
    assert (report.problems, report.problem_counts, report.rejected_path) == ((), {}, None)
    assert prepared(run) == ["dataset_info.json", os.path.basename(train.snapshot.path)]
    assert json.loads(Path(report.registry.path).read_text())["train"]["file_name"] == train.snapshot.path
    assert "Accepted." in (run / "data_check_report.txt").read_text()
    assert seen[-1] == (source.stat().st_size, source.stat().st_size)


def test_the_same_data_prepared_twice_is_the_same(write, run, tmp_path):
    source = write("a.jsonl", [alpaca(n) for n in range(20)])
    once, again = prepare(run, source, size=0.2), prepare(tmp_path / "other", source, size=0.2)
    assert [s.snapshot.sha256 for s in once.splits] == [s.snapshot.sha256 for s in again.splits]
    assert [s.snapshot.sha256 for s in once.splits] != [
        s.snapshot.sha256 for s in prepare(run, source, size=0.2, seed=1).splits
    ]


def test_all_problems_come_at_once_and_nothing_is_written(write, run):
    rows = [alpaca(0), alpaca(1, None), alpaca(2, 5), alpaca(3), *[alpaca(n, "") for n in range(30)]]
    error = refused(run, write("a.jsonl", rows), write("b.jsonl", [alpaca(9, None)]))
    assert error.code == "DATA_INVALID"
    assert [(p.code, p.where, p.line, p.field) for p in error.problems[:2]] == [
        ("OUTPUT_NULL", "train", 2, "output"),
        ("OUTPUT_NOT_TEXT", "train", 3, "output"),
    ]
    assert error.details["counts"] == {
        "train": {"input": 34, "usable": 2, "rejected": 32},
        "validation": {"input": 1, "usable": 0, "rejected": 1},
    }
    assert error.details["problem_counts"]["OUTPUT_EMPTY"] == 30
    assert sum(p.code == "OUTPUT_EMPTY" for p in error.problems) == 20
    assert all(p.severity == "error" and p.origin and p.path for p in error.problems)
    assert error.hint == "mend the rows that the report lists"  # to leave them out would leave no validation rows
    assert prepared(run) == []
    text = Path(error.details["report_path"]).read_text()
    assert "Refused" in text
    assert "OUTPUT_EMPTY" in text
    assert "train line 2, output: output is null" in text


def test_leaving_rows_out_is_offered_where_some_would_be_left(write, run):
    assert "--bad-rows skip" in refused(run, write("a.jsonl", [alpaca(0), alpaca(1, None)])).hint


def test_rows_can_be_left_out_and_are_then_kept_apart(write, run):
    rows = [alpaca(0), alpaca(1, None), alpaca(2), alpaca(3, 7)]
    report = prepare(run, write("a.jsonl", rows), bad_rows="skip")
    assert report.splits[0].counts == Counts(4, 2, 2)
    assert {p.severity for p in report.problems} == {"warning"}
    lines = [json.loads(line) for line in Path(report.rejected_path).read_text().splitlines()]
    assert [(line["line"], line["code"], line["row"]) for line in lines] == [
        (2, "OUTPUT_NULL", rows[1]),
        (4, "OUTPUT_NOT_TEXT", rows[3]),
    ]
    assert [row.source_line for row in rows_at(report.splits[0].snapshot.path, [0, 1]).values()] == [1, 3]
    assert "2 rows were left out" in (run / "data_check_report.txt").read_text()


def test_lines_that_cannot_be_read_are_left_out_too(tmp_path, run):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(alpaca(0)) + '\n{"instruction": "cut\n' + json.dumps(alpaca(1)) + "\n")
    report = prepare(run, path, bad_rows="skip")
    assert report.splits[0].counts == Counts(3, 2, 1)
    assert json.loads(Path(report.rejected_path).read_text())["row"] == '{"instruction": "cut'


def test_leaving_out_never_hides_that_nothing_is_left_or_that_the_file_is_bad(write, run, tmp_path):
    assert refused(run, write("a.jsonl", [alpaca(0, None)]), bad_rows="skip").problems[-1].code == "NO_USABLE_ROWS"
    assert refused(run, write("b.json", []), bad_rows="skip").problems[-1].code == "NO_ROWS"
    (tmp_path / "c.json").write_text("[" + json.dumps(alpaca(0)) + ",]")
    assert refused(run, tmp_path / "c.json", bad_rows="skip").problems[0].code == "JSON_TRAILING_COMMA"
    missing = refused(run, tmp_path / "none.json", bad_rows="skip")
    assert [(p.code, p.line) for p in missing.problems] == [("FILE_NOT_FOUND", None)]
    unknown = refused(run, write("d.jsonl", [{"question": "q", "answer": "a"}]))
    assert [p.code for p in unknown.problems] == ["FORMAT_UNKNOWN", "NO_USABLE_ROWS"]


def test_a_share_is_held_out_of_the_training_file(write, run):
    rows = [alpaca(n) for n in range(40)]
    report = prepare(run, write("a.jsonl", rows), size=0.1)
    train, held = report.splits
    assert (train.counts, held.counts) == (Counts(36, 36, 0), Counts(4, 4, 0))
    assert "split of the training file" in held.origin
    assert held.snapshot.source_path == train.snapshot.source_path
    lines = [
        {row.source_line for row in rows_at(s.snapshot.path, range(s.counts.usable)).values()} for s in report.splits
    ]
    assert lines[0] | lines[1] == set(range(1, 41))
    assert not lines[0] & lines[1]
    assert sorted(json.loads(Path(report.registry.path).read_text())) == ["train", "validation"]
    assert "4 of 40 usable rows are held out" in (run / "data_check_report.txt").read_text()
    assert len(prepared(run)) == 3


def test_repeats_of_a_prompt_stay_on_one_side(write, run):
    rows = [alpaca(n % 10, f"a{n}") for n in range(40)]
    report = prepare(run, write("a.jsonl", rows), size=0.1)
    sides = [
        {row.messages[0].content for row in rows_at(s.snapshot.path, range(s.counts.usable)).values()}
        for s in report.splits
    ]
    assert len(sides[1]) == 1
    assert not sides[0] & sides[1]


def test_a_split_that_leaves_nothing_is_refused(write, run):
    assert refused(run, write("a.jsonl", [alpaca(0)]), size=0.5).problems[-1].code == "SPLIT_IMPOSSIBLE"
    assert (
        refused(run, write("b.jsonl", [alpaca(0, "x"), alpaca(0, "y")]), size=1).problems[-1].code == "SPLIT_IMPOSSIBLE"
    )
    assert refused(run, write("c.jsonl", [alpaca(n) for n in range(3)]), size=3).problems[-1].code == "SPLIT_IMPOSSIBLE"


def test_an_evaluation_file_takes_the_place_of_a_split(write, run):
    report = prepare(run, write("a.jsonl", [alpaca(0), alpaca(1)]), write("b.json", [alpaca(2)]), size=0.5)
    assert [split.counts.usable for split in report.splits] == [2, 1]


def test_overlap_is_refused_unless_it_is_allowed(write, run):
    train = write("a.jsonl", [alpaca(0), alpaca(1), alpaca(2)])
    evaluation = write("b.json", [{"instruction": "question\u3000１", "input": "", "output": "other"}, alpaca(2)])
    error = refused(run, train, evaluation)
    assert [(p.code, p.where, p.line) for p in error.problems] == [("OVERLAP", "train", 2), ("OVERLAP", "train", 3)]
    assert "allow_overlap=true" in error.hint
    assert "validation data too (line 2, apart from blanks or character forms)" in error.problems[0].message
    assert "another answer" in error.problems[0].message
    assert "the same row" in error.problems[1].message
    report = prepare(run, train, evaluation, allow_overlap=True)
    assert {p.severity for p in report.problems} == {"warning"}
    assert report.problem_counts == {"OVERLAP": 2}
    assert not any("allow_overlap" in problem.hint for problem in report.problems)  # it was given


def test_repeats_and_contradictions_are_warned_of_with_their_lines(write, run):
    rows = [alpaca(0), alpaca(1, "x"), alpaca(0), alpaca(0), alpaca(1, "y"), alpaca(1, "z"), alpaca(2)]
    rows.append({**alpaca(2), "instruction": "question  2"})
    report = prepare(run, write("a.jsonl", rows))
    assert [(p.code, p.line, p.severity) for p in report.problems] == [
        ("DUPLICATE_ROW", 1, "warning"),
        ("CONTRADICTION", 5, "warning"),
        ("DUPLICATE_ROW", 7, "warning"),
    ]
    assert report.problems[0].message == "the same row stands 3 times: lines 1, 3-4"
    assert report.problems[1].message == "the prompt of line 2 has another answer here; 3 different answers in all"
    assert "apart from blanks" in report.problems[2].message
    assert report.splits[0].counts.usable == 8


def test_many_repeats_are_counted_in_full(write, run):
    report = prepare(run, write("a.jsonl", [alpaca(n % 50, f"{n}") for n in range(100)] * 2))
    assert report.problem_counts == {"DUPLICATE_ROW": 100, "CONTRADICTION": 50}
    assert len(report.problems) == 40
    assert report.problems[0].line == 1


def test_a_repeated_prepare_leaves_only_its_own_files(write, run):
    first = prepare(
        run, write("a.jsonl", [alpaca(n) for n in range(10)] + [alpaca(0, None)]), size=0.2, bad_rows="skip"
    )
    assert len(prepared(run)) == 4
    refused(run, write("b.jsonl", [alpaca(0, None)]))
    assert len(prepared(run)) == 4, "a failed prepare keeps what the one before it wrote"
    second = prepare(run, write("c.jsonl", [alpaca(n) for n in range(9)]))
    assert first.splits[0].snapshot.path != second.splits[0].snapshot.path
    assert prepared(run) == ["dataset_info.json", os.path.basename(second.splits[0].snapshot.path)]


def test_parquet_problems_are_named_by_row(write, run):
    error = refused(run, write("a.parquet", [alpaca(0), alpaca(1, None), alpaca(2)]))
    assert [(p.code, p.line, p.row) for p in error.problems] == [("OUTPUT_NULL", None, 1)]


def test_a_full_disk_is_an_error_with_advice_and_leaves_nothing(write, run, monkeypatch):
    def no_space(self, *_):
        raise OSError(28, "No space left on device")

    source = write("a.jsonl", [alpaca(0), alpaca(1)])
    monkeypatch.setattr("loopai_trainer.files.snapshots._HashedFile.sync", no_space)
    error = refused(run, source)
    assert (error.code, error.recoverable) == ("DATA_NOT_COPIED", True)
    assert "No space left" in error.message
    assert prepared(run) == []


@pytest.mark.parametrize("name", ["run[1]", "run*", "ru?"])
def test_a_path_that_datasets_takes_for_a_pattern_is_refused(write, tmp_path, name):
    error = refused(tmp_path / name, write("a.jsonl", [alpaca(0)]))
    assert (error.code, os.listdir(tmp_path / name)) == ("PATH_IS_PATTERN", [])


def test_a_split_is_decided_by_the_seed_alone(write, run, monkeypatch):
    source = write("a.jsonl", [alpaca(n) for n in range(50)])
    monkeypatch.setattr("loopai_trainer.files.snapshots.GROUP_ROWS", 7)
    seen = []
    monkeypatch.setattr("loopai_trainer.operations.row_pass._ROWS_BETWEEN_PROGRESS", 10)
    held = prepare(run, source, size=5, progress=lambda done, total: seen.append(done)).splits[1].snapshot
    assert [row.source_line for row in rows_at(held.path, range(5)).values()] == HELD_LINES
    assert len(seen) == 6


def test_a_file_that_begins_with_much_rubbish_is_still_read(write, run, monkeypatch):
    monkeypatch.setattr("loopai_trainer.operations.row_pass._SAMPLE_ITEMS", 5)
    source = write("a.jsonl", [alpaca(0)])
    source.write_text("rubbish\n" * 4 + source.read_text())
    assert prepare(run, source, bad_rows="skip").splits[0].counts == Counts(5, 1, 4)


WORD = st.sampled_from(["q", "a", "", " ", "水", "<|im_end|>", '{"name": "f", "arguments": {}}'])
TURNS = st.lists(
    st.fixed_dictionaries(
        {"from": st.sampled_from(["human", "gpt", "system", "gptt", "function_call"]), "value": st.none() | WORD}
    ),
    max_size=4,
)
SAME_TYPES = st.one_of(
    st.lists(
        st.fixed_dictionaries({"instruction": st.none() | WORD, "input": st.none() | WORD, "output": st.none() | WORD}),
        min_size=1,
        max_size=6,
    ),
    st.lists(
        st.fixed_dictionaries({"conversations": st.none() | TURNS, "system": st.none() | WORD}), min_size=1, max_size=6
    ),
)


def verdicts(run, path):
    try:
        report = prepare(run, path, bad_rows="skip")
    except DataError as error:
        problems, usable = error.problems, 0
    else:
        problems = report.problems
        rows = rows_at(report.splits[0].snapshot.path, range(report.splits[0].counts.usable))
        usable = [(row.messages, row.system, row.tools) for row in rows.values()]
    return sorted((p.code, p.message.partition(":")[0], p.field or "") for p in problems), usable


@settings(deadline=None, max_examples=40)
@given(SAME_TYPES)
def test_lines_list_and_parquet_of_the_same_rows_get_the_same_verdict(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("twins")
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "a.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "a.parquet")
    lines, usable = verdicts(folder / "run", folder / "a.jsonl")
    for twin in ("a.json", "a.parquet"):
        found, its_usable = verdicts(folder / "run", folder / twin)
        assert its_usable == usable
        assert [code for code, _, _ in found] == [code for code, _, _ in lines]


def one_line(path, rows):
    path.write_text("[" + ", ".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "]")
    return path


def test_items_of_a_list_on_one_line_are_named_by_their_number(tmp_path, run):
    rows = [alpaca(0), alpaca(1, output=None), alpaca(2, output="<|im_end|>"), '{"instruction": 1,}', alpaca(3)]
    error = refused(run, one_line(tmp_path / "a.json", rows))
    found = {problem.code: problem for problem in error.problems}
    assert {problem.line for problem in error.problems} == {1}
    assert found["OUTPUT_NULL"].message.startswith("item 2 of the list: ")
    assert found["SPECIAL_TOKEN"].message.startswith("item 3 of the list: ")
    assert found["JSON_TRAILING_COMMA"].message.startswith("item 4 of the list: ")
    assert "item 2 of the list: " in (run / "data_check_report.txt").read_text()


def test_repeats_and_overlap_on_one_line_name_items_past_those_left_out(tmp_path, run):
    bad = alpaca(9, output=None)
    rows = [bad, alpaca(0), alpaca(1), bad, alpaca(1), bad, alpaca(0, output="other")]
    error = refused(
        run,
        one_line(tmp_path / "a.json", rows),
        one_line(tmp_path / "b.json", [bad, alpaca(7), alpaca(1)]),
        bad_rows="skip",
    )
    found = {problem.code: problem.message for problem in error.problems}
    assert "stands 2 times: items 3, 5" in found["DUPLICATE_ROW"]
    assert found["CONTRADICTION"].startswith("the prompt of item 2 has another answer in item 7")
    assert found["OVERLAP"].startswith("item 3 of the list: ")
    assert "(item 3)" in found["OVERLAP"]


def test_items_that_each_have_a_line_are_not_numbered(write, run):
    error = refused(run, write("a.json", [alpaca(0), alpaca(1, output=None)]))
    assert not any("item" in problem.message for problem in error.problems)
