"""GRPO data from any record to train.parquet and validation.parquet."""

import errno
import json
import os
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from fakes.prompt_sources import (
    manifest,
    native_row,
    native_rows,
    prepare,
    rejected,
    rows_of,
    write_lines,
    write_native,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopai_trainer.errors import DataError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import prompt_manifest
from loopai_trainer.records import Counts


def qa(number, **more):
    return {"question": f"What is {number} plus {number}?", "answer": f"Add them.\n#### {2 * number}", **more}


def questions(rows):
    return [row["prompt"][-1]["content"] for row in rows]


def refused(run, *sources, **more):
    with pytest.raises(DataError) as caught:
        prepare(run, *sources, **more)
    return caught.value


def test_records_become_verls_columns(tmp_path):
    train = write_lines(tmp_path / "train.jsonl", [qa(number) for number in range(40)])
    report = prepare(tmp_path / "run", train, verl_data_source="own/sums")
    rows = rows_of(report)
    assert report.split("train").counts == Counts(38, 38, 0)
    assert rows[0] == {
        "data_source": "own/sums",
        "prompt": [{"role": "user", "content": "What is 0 plus 0?"}],
        "ability": "",
        "reward_model": {"style": "rule", "ground_truth": "0"},
        "extra_info": {"index": 0, "split": "train", "source_position": 1},
    }
    assert [row["extra_info"]["index"] for row in rows] == list(range(38))
    held = [row["extra_info"] for row in rows_of(report, "validation")]
    assert {row["split"] for row in held} == {"validation"}
    places = [row["extra_info"]["source_position"] for row in rows]
    assert places == [line for line in range(1, 41) if line not in {row["source_position"] for row in held}]
    assert report.prompts.data_sources == {"own/sums": 40}
    assert report.prompts.answer_kinds == {"str": 40}
    assert report.prompts.markers == {"####": 40}
    assert not report.prompts.native
    assert report.split("train").lengths.minimum == 17


def test_the_split_is_the_same_for_every_format_and_run(tmp_path):
    rows = [qa(number) for number in range(100)]
    lines = write_lines(tmp_path / "a.jsonl", rows)
    (tmp_path / "b.json").write_text(json.dumps(rows, indent=1))
    write_native(tmp_path / "c.parquet", rows)
    write_native(tmp_path / "d.parquet", native_rows(100), row_group_size=7)
    sources = [lines, *(tmp_path / name for name in ("b.json", "c.parquet", "d.parquet"))]
    held = [questions(rows_of(prepare(tmp_path / f"run{n}", path), "validation")) for n, path in enumerate(sources)]
    assert len(held[0]) == 5
    assert held[1:] == held[:1] * 3
    other = rows_of(prepare(tmp_path / "other", lines, verl_split_seed=7), "validation")
    assert questions(other) != held[0]
    assert questions(rows_of(prepare(tmp_path / "flag", lines, split_seed=7), "validation")) == questions(other)
    assert manifest(tmp_path / "run0")["split"] == {"ratio": 0.05, "seed": 42}


def test_repeats_of_a_prompt_stay_on_one_side(tmp_path):
    rows = [qa(number % 30) for number in range(90)]
    report = prepare(tmp_path / "run", write_lines(tmp_path / "a.jsonl", rows), verl_validation_ratio=0.2)
    train, held = set(questions(rows_of(report))), set(questions(rows_of(report, "validation")))
    assert not train & held
    assert len(rows_of(report, "validation")) == 18
    assert manifest(tmp_path / "run")["duplicate_records"] == 60
    assert report.problem_counts["DUPLICATE_ROW"] == 30


def test_one_prompt_alone_cannot_be_split(tmp_path):
    error = refused(tmp_path / "run", write_lines(tmp_path / "a.jsonl", [qa(1), qa(1)]))
    assert [p.code for p in error.problems if p.severity == "error"] == ["SPLIT_IMPOSSIBLE"]
    assert "--validation-ratio" in error.hint


@pytest.mark.parametrize("ratio", [0, 1, -0.5, 1.5, float("nan")])
def test_a_ratio_is_a_share(tmp_path, ratio):
    error = refused(tmp_path / "run", write_lines(tmp_path / "a.jsonl", [qa(1), qa(2)]), verl_validation_ratio=ratio)
    assert "SPLIT_IMPOSSIBLE" in error.details["problem_counts"]


def test_a_native_file_is_split_without_a_change_of_types(tmp_path):
    rows = [native_row(n, extra_info={"index": n, "big": 2**60 + n, "nested": {"x": [[n]]}}) for n in range(20)]
    source = write_native(tmp_path / "a.parquet", rows, row_group_size=3, compression="zstd")
    report = prepare(tmp_path / "run", source)
    schema = pyarrow.parquet.read_schema(source)
    both = []
    for where in ("train", "validation"):
        assert pyarrow.parquet.read_schema(report.split(where).snapshot.path).equals(schema)
        both += rows_of(report, where)
    assert sorted(both, key=lambda row: row["extra_info"]["index"]) == rows
    assert manifest(tmp_path / "run")["status"] == "prepared"


def test_overlap_is_refused_unless_it_is_allowed(tmp_path):
    train = write_native(tmp_path / "a.parquet", native_rows(10))
    same = native_row(3)
    alike = native_row(4, "What is  4 plus\n4？")
    held = write_lines(tmp_path / "b.jsonl", [native_row(50), same, alike])
    error = refused(tmp_path / "run", train, held)
    found = [(p.code, p.severity, p.row) for p in error.problems]
    assert found == [("OVERLAP", "error", 3), ("OVERLAP", "error", 4)]
    assert "(line 2)" in error.problems[0].message
    assert "(line 3, apart from blanks or character forms)" in error.problems[1].message
    report = prepare(tmp_path / "run", train, held, allow_overlap=True)
    assert [p.severity for p in report.problems] == ["warning", "warning"]
    assert manifest(tmp_path / "run")["cross_split_duplicates"] == 2


def test_overlap_of_many_rows_is_counted(tmp_path):
    train = write_native(tmp_path / "a.parquet", native_rows(60))
    held = write_native(tmp_path / "b.parquet", native_rows(50), row_group_size=9)
    error = refused(tmp_path / "run", train, held)
    assert error.details["problem_counts"]["OVERLAP"] == 50
    assert len(error.problems) == 20
    assert error.message.endswith("(and 49 more)")


def test_the_round_befores_validation_is_reused_byte_for_byte(tmp_path):
    first = prepare(tmp_path / "one", write_lines(tmp_path / "a.jsonl", [qa(n) for n in range(100)]))
    before = first.split("validation").snapshot
    new = write_lines(tmp_path / "b.jsonl", [qa(n) for n in range(50, 200)])
    report = prepare(tmp_path / "two", new, reused=before.path)
    snapshot = report.split("validation").snapshot
    assert snapshot.sha256 == before.sha256
    assert Path(snapshot.path).read_bytes() == Path(before.path).read_bytes()
    held = set(questions(rows_of(first, "validation")))
    train = questions(rows_of(report))
    assert not held & set(train)
    left_out = sum(1 for n in range(50, 100) if f"What is {n} plus {n}?" in held)
    assert left_out
    assert report.split("train").counts.usable == 150 - left_out
    text = (tmp_path / "two" / "data_check_report.txt").read_text()
    assert f"{left_out} rows whose prompt stands in it were left out of train" in text
    # Its rows, whose source is no longer known, do not speak when a reward is recommended.
    assert sum(report.prompts.data_sources.values()) == sum(report.prompts.answer_kinds.values()) == 150
    facts = manifest(tmp_path / "two")
    assert facts["reused_validation"] == before.path
    assert facts["split"] is None
    assert facts["input_records"] == 150


def test_a_native_file_stays_as_it_is_beside_a_reused_validation(tmp_path):
    held = write_native(tmp_path / "v.parquet", native_rows(5, first=100))
    train = write_native(tmp_path / "t.parquet", native_rows(20))
    report = prepare(tmp_path / "run", train, reused=held)
    assert Path(report.split("train").snapshot.path).read_bytes() == train.read_bytes()
    assert manifest(tmp_path / "run")["status"] == "reused_native_parquet"


def test_nothing_new_to_train_on(tmp_path):
    train = write_native(tmp_path / "t.parquet", native_rows(5))
    error = refused(tmp_path / "run", train, reused=train)
    assert error.problems[0].code == "NO_USABLE_ROWS"
    assert "verl_reuse_previous_validation=false" in error.hint


def test_an_explicit_validation_file_beats_a_reused_one(tmp_path):
    train = write_native(tmp_path / "t.parquet", native_rows(20))
    held = write_native(tmp_path / "v.parquet", native_rows(5, first=100))
    old = write_native(tmp_path / "o.parquet", native_rows(7, first=200))
    report = prepare(tmp_path / "run", train, held, reused=old)
    assert report.split("validation").counts.usable == 5


def test_an_explicit_source_beats_the_native_file_and_that_is_said(tmp_path):
    train = write_native(tmp_path / "t.parquet", native_rows(20))
    lines = write_lines(tmp_path / "a.jsonl", [qa(n) for n in range(30)])
    report = prepare(tmp_path / "run", train, verl_source_dataset_path=str(lines))
    assert sum(split.counts.usable for split in report.splits) == 30
    assert [p.code for p in report.problems] == ["SOURCE_NOT_READ"]


def test_bad_records_are_left_out_with_reason_and_place(tmp_path):
    rows = [qa(n) for n in range(20)] + [{"question": "q?", "answer": None}, {"question": "", "answer": "5"}]
    path = write_lines(tmp_path / "a.jsonl", rows)
    path.write_text(path.read_text() + '{"question": "cut\n')
    report = prepare(tmp_path / "run", path)
    found = [(row["line"], row["code"]) for row in rejected(tmp_path / "run")]
    assert sorted(found) == [(21, "ANSWER_MISSING"), (22, "PROMPT_MISSING"), (23, "JSON_CUT")]
    assert report.split("train").counts.rejected == 3
    assert report.rejected_path == str(tmp_path / "run" / "prepared_data" / "rejected_rows.jsonl")
    assert all(p.severity == "warning" for p in report.problems)
    assert manifest(tmp_path / "run")["rejected_records"] == 3
    text = (tmp_path / "run" / "data_check_report.txt").read_text()
    assert "Accepted; 3 rows were left out" in text
    assert "read as qa 20" in text


def test_items_on_one_line_are_named_by_their_number(tmp_path):
    rows = [qa(1), {"question": "q?"}, qa(2), qa(3), qa(3)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    report = prepare(tmp_path / "run", tmp_path / "a.json", verl_validation_ratio=0.3)
    messages = {p.code: p.message for p in report.problems}
    assert messages["ANSWER_MISSING"].startswith("item 2 of the list: ")
    assert "items 4-5" in messages["DUPLICATE_ROW"]


def test_contradictions_are_named(tmp_path):
    rows = [*native_rows(10), native_row(3, truth="7")]
    report = prepare(tmp_path / "run", write_native(tmp_path / "a.parquet", rows), verl_validation_ratio=0.3)
    assert [(p.code, p.row) for p in report.problems] == [("CONTRADICTION", 3)]
    assert "2 different ground truths: rows 3, 10" in report.problems[0].message


def test_a_file_without_any_usable_row_says_what_to_do(tmp_path):
    rows = [{"question": f"q{n}?", "answer": "first\nsecond"} for n in range(30)]
    error = refused(tmp_path / "run", write_lines(tmp_path / "a.jsonl", rows))
    assert "none of 30 rows can be trained on" in error.message
    assert "ground_truth" in error.hint
    assert error.details["counts"]["train"] == {"input": 30, "usable": 0, "rejected": 30}
    assert {p.severity for p in error.problems} == {"error"}
    assert not (tmp_path / "run" / "prepared_data" / "rejected_rows.jsonl").exists()


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.jsonl", b"", "NO_ROWS"),
        ("a.parquet", b"PAR1 no PAR1", "PARQUET_INVALID"),
        ("a.csv", b"a,b", "FILE_TYPE"),
        ("a.jsonl", b"\x1f\x8b\x08", "FILE_TYPE"),
        ("a.json", b'[{"question": "q?", "answer": "1"}', "JSON_CUT"),
    ],
)
def test_files_that_are_none(tmp_path, name, content, code):
    (tmp_path / name).write_bytes(content)
    error = refused(tmp_path / "run", tmp_path / name)
    assert code in [p.code for p in error.problems]


def test_a_missing_file_is_named(tmp_path):
    error = refused(tmp_path / "run", tmp_path / "no.parquet", tmp_path / "none.jsonl")
    assert [(p.code, p.where) for p in error.problems] == [
        ("FILE_NOT_FOUND", "train"),
        ("FILE_NOT_FOUND", "validation"),
    ]


def test_a_torn_native_file_is_refused(tmp_path):
    train = write_native(tmp_path / "a.parquet", native_rows(2000), compression="none", use_dictionary=False)
    data = bytearray(train.read_bytes())
    data[200:3000] = b"\xff" * 2800
    train.write_bytes(data)
    error = refused(tmp_path / "run", train)
    assert {"PARQUET_INVALID", "ENCODING"} & {p.code for p in error.problems}


def test_pages_that_cannot_be_decoded_are_the_file_s_fault_not_the_disk_s(tmp_path):
    train = write_native(tmp_path / "a.parquet", native_rows(200), compression="zstd")
    data = bytearray(train.read_bytes())
    column = pyarrow.parquet.ParquetFile(train).metadata.row_group(0)
    places = {column.column(index).path_in_schema: column.column(index) for index in range(column.num_columns)}
    content = next(chunk for name, chunk in places.items() if name.startswith("prompt") and name.endswith("content"))
    start = content.dictionary_page_offset or content.data_page_offset
    data[start : start + 24] = b"\xff" * 24  # the page's header: Arrow answers with an OSError that has no errno
    train.write_bytes(data)
    error = refused(tmp_path / "run", train)
    assert error.code == "DATA_INVALID"
    assert [(p.code, p.path) for p in error.problems] == [("PARQUET_INVALID", str(train))]


def test_a_disk_that_fails_while_data_are_read_is_no_fault_of_the_file(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("loopai_trainer.files.prompt_columns.NativeFile.needed", fails)
    error = refused(tmp_path / "run", write_native(tmp_path / "a.parquet", native_rows(20)))
    assert error.code == "DATA_NOT_COPIED"


def test_text_that_is_not_utf_8_is_found_by_its_row(tmp_path):
    schema = pyarrow.schema([("role", pyarrow.binary()), ("content", pyarrow.binary())])
    turns = pyarrow.list_(pyarrow.struct(list(schema)))
    rows = [native_row(n) for n in range(4)]
    prompts = [[{"role": b"user", "content": b"caf\xe9 5?" if n == 2 else b"cafe %d?" % n}] for n in range(4)]
    table = pyarrow.Table.from_pylist(rows)
    wanted = table.schema.field("prompt").type
    spoilt = pyarrow.array(prompts, turns)
    inner = spoilt.values
    texts = [
        pyarrow.Array.from_buffers(pyarrow.string(), len(inner), inner.field(name).buffers())
        for name in ("role", "content")
    ]
    order = [wanted.value_type.field(index).name for index in range(2)]
    by_name = dict(zip(("role", "content"), texts, strict=True))
    struct = pyarrow.StructArray.from_arrays([by_name[name] for name in order], fields=list(wanted.value_type))
    column = pyarrow.ListArray.from_arrays(spoilt.offsets, struct)
    table = table.set_column(table.schema.get_field_index("prompt"), "prompt", column)
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    report = prepare(tmp_path / "run", tmp_path / "a.parquet", verl_validation_ratio=0.4)
    assert [(p.code, p.row) for p in report.problems] == [("ENCODING", 2)]
    assert sum(split.counts.usable for split in report.splits) == 3


def test_large_and_dictionary_columns_are_read_too(tmp_path):
    table = pyarrow.Table.from_pylist([*native_rows(10), native_row(11, truth=" ")])
    large = pyarrow.large_list(pyarrow.struct([("role", pyarrow.large_string()), ("content", pyarrow.large_string())]))
    prompts = pyarrow.array(table.column("prompt").to_pylist(), large)
    sources = table.column("data_source").dictionary_encode()
    table = table.set_column(table.schema.get_field_index("prompt"), "prompt", prompts)
    table = table.set_column(table.schema.get_field_index("data_source"), "data_source", sources)
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    report = prepare(tmp_path / "run", tmp_path / "a.parquet", verl_validation_ratio=0.2)
    assert [(p.code, p.row) for p in report.problems] == [("GROUND_TRUTH_MISSING", 10)]
    assert report.prompts.data_sources == {"openai/gsm8k": 10}


def test_extra_info_that_is_no_struct_is_refused(tmp_path):
    rows = [{**native_row(n), "extra_info": "text"} for n in range(3)]
    error = refused(tmp_path / "run", write_native(tmp_path / "a.parquet", rows))
    assert {p.code for p in error.problems} == {"EXTRA_INFO_TYPE", "NO_USABLE_ROWS"}


def test_a_native_file_without_data_source_gets_the_given_one(tmp_path):
    rows = [{key: value for key, value in native_row(n).items() if key != "data_source"} for n in range(10)]
    source = write_native(tmp_path / "a.parquet", rows)
    error = refused(tmp_path / "run", source)
    assert error.problems[0].code == "DATA_SOURCE_MISSING"
    assert "--data-source" in error.hint
    report = prepare(tmp_path / "run", source, verl_data_source="own")
    assert report.prompts.data_sources == {"own": 10}
    assert report.prompts.native


def test_several_answers_and_objects_keep_their_shape(tmp_path):
    rows = [native_row(n, truth={"target": [str(n), f"n{n}"]}) for n in range(10)]
    for name in ("a.jsonl", "b.parquet"):
        path = write_lines(tmp_path / name, rows) if name == "a.jsonl" else write_native(tmp_path / name, rows)
        report = prepare(tmp_path / f"run {name}", path)
        assert report.prompts.answer_kinds == {"dict": 10}
        truths = [row["reward_model"]["ground_truth"] for row in rows_of(report)]
        assert truths[0]["target"] in [[str(n), f"n{n}"] for n in range(10)]


def test_ground_truths_of_two_kinds_are_not_mixed(tmp_path):
    rows = [*(qa(n) for n in range(10)), {"question": "who?", "answer": ["a", "b"]}]
    report = prepare(tmp_path / "run", write_lines(tmp_path / "a.jsonl", rows))
    assert [(p.code, p.line) for p in report.problems] == [("GROUND_TRUTH_MIXED", 11)]
    rows = [native_row(n, truth={"target": [n, 1] if n else ["x", "y"]}) for n in range(4)]
    error = refused(tmp_path / "run", write_lines(tmp_path / "b.jsonl", rows))
    assert "GROUND_TRUTH_MIXED" in [p.code for p in error.problems]


def test_extra_info_of_several_types_becomes_json_text(tmp_path):
    rows = [native_row(n, extra_info={"index": n, "id": n if n % 2 else f"id{n}", "big": 2**60 + n}) for n in range(20)]
    report = prepare(tmp_path / "run", write_lines(tmp_path / "a.jsonl", rows))
    for row in rows_of(report):
        number = row["extra_info"]["index"]
        assert json.loads(row["extra_info"]["id"]) == (number if number % 2 else f"id{number}")
        assert row["extra_info"]["big"] == 2**60 + number


def test_chats_keep_their_turns(tmp_path):
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]
    rows = [
        {"messages": [*turns, {"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": f"#### {n}"}]}
        for n in range(20)
    ]
    report = prepare(tmp_path / "run", write_lines(tmp_path / "a.jsonl", rows))
    first = rows_of(report)[0]
    assert [turn["role"] for turn in first["prompt"]] == ["system", "user", "assistant", "user"]
    assert report.split("train").format == "messages"
    assert report.split("train").lengths.minimum == 13


def test_metadata_that_the_source_names_itself(tmp_path):
    rows = [qa(n, dataset="GSM8K", metadata={"task": "Math"}) for n in range(20)]
    report = prepare(tmp_path / "run", write_lines(tmp_path / "a.jsonl", rows))
    assert report.prompts.metadata == ("gsm8k", "math")


@pytest.mark.parametrize("odd", [{}, {"dataset": "orca"}, {"nested": {"x": 1}}, {"metadata": {"task": "orca"}}])
def test_the_last_row_counts_too_for_what_all_rows_name(tmp_path, odd):
    rows = [qa(n, dataset="GSM8K") for n in range(3000)]
    rows += [qa(3000, dataset="gsm8k"), qa(3001, **odd)]
    prompts = prepare(tmp_path / "run", write_lines(tmp_path / "a.jsonl", rows)).prompts
    last = ("orca",) if "orca" in str(odd) else ()
    assert prompts.named_together == (("gsm8k",), last)
    assert prompts.metadata == ("gsm8k", *last)
    again = prepare(tmp_path / "same", write_lines(tmp_path / "b.jsonl", rows[:-1])).prompts
    assert again.named_together == (("gsm8k",),)


def test_more_names_than_are_kept_are_none(tmp_path):
    rows = [qa(n, source=f"site {n}") for n in range(99)]
    prompts = prepare(tmp_path / "run", write_lines(tmp_path / "a.jsonl", rows)).prompts
    assert len(prompts.named_together) == 21
    assert prompts.named_together[-1] == ()


def test_lines_of_all_kinds_end_as_the_same_rows_in_a_list(tmp_path):
    odd = [
        {"question": "", "answer": "5"},
        qa(7, answer="1,234"),
        qa(8, id=5),
        {"problem": "q?", "answer": "\\boxed{3}"},
    ]
    rows = [qa(n) for n in range(3000)] + odd + [qa(n) for n in range(2990, 5000)]
    (tmp_path / "b.json").write_text(json.dumps(rows))
    one = prepare(tmp_path / "one", write_lines(tmp_path / "a.jsonl", rows))
    two = prepare(tmp_path / "two", tmp_path / "b.json")
    assert one.prompts == two.prompts
    assert one.problem_counts == two.problem_counts
    for where in ("train", "validation"):
        strip = [{**row, "extra_info": row["extra_info"]["index"]} for row in rows_of(one, where)]
        assert strip == [{**row, "extra_info": row["extra_info"]["index"]} for row in rows_of(two, where)]
        assert one.split(where).counts == two.split(where).counts
        assert one.split(where).lengths == two.split(where).lengths


def test_records_that_name_no_data_source_are_told_of(tmp_path):
    report = prepare(tmp_path / "run", write_lines(tmp_path / "a.jsonl", [qa(n) for n in range(20)]))
    assert report.prompts.data_sources == {"generated": 20}
    assert "20  records that name no data_source" in (tmp_path / "run" / "data_check_report.txt").read_text()


def test_an_earlier_preparation_is_replaced_and_a_refused_one_leaves_it(tmp_path):
    good = write_native(tmp_path / "a.parquet", native_rows(20))
    prepare(tmp_path / "run", good)
    before = (tmp_path / "run" / "prepared_data" / "train.parquet").read_bytes()
    refused(tmp_path / "run", write_lines(tmp_path / "bad.jsonl", [{"x": 1}]))
    assert (tmp_path / "run" / "prepared_data" / "train.parquet").read_bytes() == before
    prepare(tmp_path / "run", write_lines(tmp_path / "b.jsonl", [qa(n) for n in range(10)]))
    names = sorted(os.listdir(tmp_path / "run" / "prepared_data"))
    assert names == ["dataset_manifest.json", "train.parquet", "validation.parquet"]


def test_progress_ends_with_all_bytes(tmp_path):
    seen = []
    lines = write_lines(tmp_path / "a.jsonl", [qa(n) for n in range(3000)])
    held = write_native(tmp_path / "b.parquet", native_rows(10, first=5000))
    prepare(tmp_path / "run", lines, held, progress=lambda done, total: seen.append((done, total)))
    total = lines.stat().st_size + held.stat().st_size
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_the_manifest_says_what_was_made_of_what(tmp_path):
    train = write_lines(tmp_path / "a.jsonl", [*(qa(n) for n in range(20)), qa(1), {"question": "?"}])
    report = prepare(tmp_path / "run", train)
    facts = manifest(tmp_path / "run")
    assert facts == {
        "version": 1,
        "status": "prepared",
        "source_path": str(train),
        "source_paths": {"train": str(train)},
        "source_sha256": {"train": report.split("train").snapshot.source_sha256},
        "train_path": report.split("train").snapshot.path,
        "validation_path": report.split("validation").snapshot.path,
        "reused_validation": None,
        "input_records": 22,
        "train_records": 20,
        "validation_records": 1,
        "rejected_records": 1,
        "duplicate_records": 1,
        "cross_split_duplicates": 0,
        "adapter_counts": {"qa": 21},
        "requested_adapter": "auto",
        "reward": None,
        "split": {"ratio": 0.05, "seed": 42},
        "rejection_path": report.rejected_path,
        "train_sha256": report.split("train").snapshot.sha256,
        "validation_sha256": report.split("validation").snapshot.sha256,
    }
    run = RunDir(str(tmp_path / "run"))
    prompt_manifest.record_reward(run, {"mode": "preset", "preset": "gsm8k_exact"})
    assert prompt_manifest.read(run)["reward"] == {"mode": "preset", "preset": "gsm8k_exact"}
    block = {"mode": "preset", "preset": "gsm8k_exact", "function": None, "origin": "recommended: all are marked"}
    prompt_manifest.note_reward(run, block)
    advice = {"applied": True, "mode": "preset", "preset": "gsm8k_exact", "reason": "recommended: all are marked"}
    told = {
        "mode": "preset",
        "preset": "gsm8k_exact",
        "origin": "recommended: all are marked",
        "recommendation": advice,
    }
    assert prompt_manifest.read(run)["reward"] == told
    prompt_manifest.note_reward(run, {**block, "origin": "named by the user (--reward-preset)"})
    assert prompt_manifest.read(run)["reward"]["recommendation"] is None
    prompt_manifest.note_reward(run, None)
    assert prompt_manifest.read(run)["reward"]["origin"] == "named by the user (--reward-preset)"
    (tmp_path / "run" / "prepared_data" / "dataset_manifest.json").write_text("[")
    assert prompt_manifest.read(run) is None
    with pytest.raises(DataError, match="missing or damaged"):
        prompt_manifest.record_reward(run, {})


def test_a_disk_that_fails_is_no_traceback(tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device", target)

    monkeypatch.setattr("loopai_trainer.files.exact_copies.copy_exactly", full)
    error = refused(tmp_path / "run", write_native(tmp_path / "a.parquet", native_rows(5)))
    assert error.code == "DATA_NOT_COPIED"


_records = st.lists(
    st.builds(
        lambda question, answer: {"question": question, "answer": answer},
        st.sampled_from(["q?", "r?", "", "s? #### 5"]),
        st.sampled_from(["so\n#### 5", "5", "1,234", "a\nb", "null", "", "so \\boxed{5}"]),
    ),
    min_size=1,
    max_size=8,
)
_native = st.lists(
    st.builds(
        lambda content, truth: native_row(1, content, truth),
        st.sampled_from(["q?", "r? #### 5", " "]),
        st.sampled_from(["5", "None", "x"]),
    ),
    min_size=1,
    max_size=8,
)


def _verdict(run, path):
    try:
        report = prepare(run, path, verl_validation_ratio=0.3)
    except DataError as error:
        return sorted(error.details["problem_counts"].items()), error.details["counts"]["train"]
    counts = [split.counts for split in report.splits]
    rows = [(questions([row])[0], row["reward_model"]["ground_truth"]) for row in rows_of(report)]
    return sorted(report.problem_counts.items()), counts, rows, report.prompts.data_sources


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=_records | _native)
def test_twins_get_the_same_verdict(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("twins")
    write_lines(folder / "a.jsonl", rows)
    (folder / "b.json").write_text(json.dumps(rows, indent=2))
    write_native(folder / "c.parquet", rows)
    found = [_verdict(folder / f"run {name}", folder / name) for name in ("a.jsonl", "b.json", "c.parquet")]
    assert found[0] == found[1] == found[2]
