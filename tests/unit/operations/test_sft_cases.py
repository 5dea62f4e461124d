"""Cases from the field (tests/cases/sft): what a person met, and what prepare says now."""

from pathlib import Path

import pytest
from fakes.row_backend import prepare

from loopai_trainer.errors import DataError
from loopai_trainer.files.snapshots import rows_at

CASES = Path(__file__).parents[2] / "cases" / "sft"


def refused(run, case, evaluation=None, **more):
    with pytest.raises(DataError) as caught:
        prepare(run, CASES / case / "data.jsonl", evaluation and CASES / case / evaluation, **more)
    return caught.value


def found(error):
    return [(p.code, p.line, p.field) for p in error.problems]


def test_sft_01a_null_answers_are_not_dropped_in_silence(tmp_path):
    error = refused(tmp_path, "SFT-01A")
    assert found(error) == [("OUTPUT_NULL", 4, "output"), ("OUTPUT_NULL", 5, "output")]
    assert error.details["counts"]["train"] == {"input": 6, "usable": 4, "rejected": 2}
    report = prepare(tmp_path, CASES / "SFT-01A" / "data.jsonl", bad_rows="skip")
    assert report.splits[0].snapshot.rows == 4


def test_sft_02a_answers_of_other_types_are_all_named(tmp_path):
    error = refused(tmp_path, "SFT-02A")
    assert found(error) == [("OUTPUT_NOT_TEXT", 2, "output"), ("OUTPUT_NOT_TEXT", 4, "output")]
    assert "a number" in error.problems[0].message
    assert "an object" in error.problems[1].message
    assert all("write it as a string" in p.hint for p in error.problems)


def test_sft_03b_reasons_of_lost_chats_are_told_apart(tmp_path):
    error = refused(tmp_path, "SFT-03B")
    assert [(p.code, p.line) for p in error.problems] == [
        ("LAST_TURN_NOT_ASSISTANT", 2),
        ("ROLE_UNKNOWN", 3),
        ("FIRST_TURN_NOT_USER", 4),
    ]
    assert "did you mean 'gpt'" in error.problems[1].message
    assert error.details["counts"]["train"]["usable"] == 2


def registry(case):
    return str(CASES / case / "dataset_info.json")


def test_sft_04a_partial_tags_do_not_lose_the_system_turns(tmp_path):
    error = refused(tmp_path, "SFT-04A", train_input_dataset_info=registry("SFT-04A"))
    assert found(error) == [("TAG_NOT_MAPPED", 1, "messages[0].role"), ("TAG_NOT_MAPPED", 3, "messages[0].role")]
    assert "does not name system_tag, and to give 'tags' clears those left out" in error.problems[0].message
    assert error.hint == 'add "system_tag": "system" to the entry\'s tags'
    assert error.details["counts"]["train"] == {"input": 3, "usable": 1, "rejected": 2}
    assert prepare(tmp_path, CASES / "SFT-04A" / "data.jsonl").splits[0].counts.usable == 3, "without the registry"


def test_sft_10a_format_is_not_formatting(tmp_path):
    error = refused(tmp_path, "SFT-10A", train_input_dataset_info=registry("SFT-10A"))
    first = error.problems[0]
    assert (first.code, first.line, first.field, first.path) == (
        "DATASET_INFO_KEY",
        7,
        "data.format",
        registry("SFT-10A"),
    )
    assert "did you mean 'formatting'?" in first.message
    assert error.hint == "rename 'format' to 'formatting'"
    assert error.message == "2 of 2 rows cannot be trained on"
    assert error.details["counts"]["train"]["usable"] == 0


def test_sft_05a_tool_lists_that_are_no_json(tmp_path):
    error = refused(tmp_path, "SFT-05A")
    assert found(error)[:2] == [("TOOLS_INVALID", 2, "tools"), ("TOOLS_INVALID", 3, "tools")]
    assert [p.code for p in error.problems[2:]] == ["DUPLICATE_ROW"]
    assert "blanks" in error.problems[0].message
    assert "column 3" in error.problems[1].message
    assert error.details["counts"]["train"]["usable"] == 2


def test_sft_06a_tool_arguments_get_no_foreign_keys(tmp_path):
    report = prepare(tmp_path, CASES / "SFT-06A" / "data.jsonl")
    calls = [row.messages[1].content for row in rows_at(report.splits[0].snapshot.path, range(3)).values()]
    assert calls == [
        '[{"name":"get_level","arguments":{"tank":"T2"}}]',
        '[{"name":"open_valve","arguments":{"valve":"V9","percent":40}}]',
        '[{"name":"get_level","arguments":{"tank":"T5"}}]',
    ]
    assert "tool calls were written as function turns" in (tmp_path / "data_check_report.txt").read_text()


def test_sft_08b_gbk_is_named_not_converted(tmp_path):
    error = refused(tmp_path, "SFT-08B")
    first = error.problems[0]
    with pytest.raises(UnicodeDecodeError) as bad:
        (CASES / "SFT-08B" / "data.jsonl").read_bytes().decode("utf-8")
    assert (first.code, first.line) == ("ENCODING", 1)
    assert f"byte offset {bad.value.start}" in first.message
    assert "iconv -f GBK" in first.hint


def test_sft_09a_repeats_contradiction_and_a_leak(tmp_path):
    error = refused(tmp_path, "SFT-09A", "eval.jsonl")
    by_code = {p.code: p for p in error.problems}
    assert {code: (p.severity, p.line) for code, p in by_code.items()} == {
        "DUPLICATE_ROW": ("warning", 1),
        "CONTRADICTION": ("warning", 15),
        "OVERLAP": ("error", 4),
    }
    assert "7 times: lines 1, 9-14" in by_code["DUPLICATE_ROW"].message
    assert "line 2" in by_code["CONTRADICTION"].message
    assert "(line 1)" in by_code["OVERLAP"].message
    allowed = prepare(tmp_path, CASES / "SFT-09A" / "data.jsonl", CASES / "SFT-09A" / "eval.jsonl", allow_overlap=True)
    assert [split.counts.usable for split in allowed.splits] == [15, 2]


def test_sft_12a_no_system_prompt_is_made_up(tmp_path):
    report = prepare(tmp_path, CASES / "SFT-12A" / "data.jsonl")
    assert [row.system for row in rows_at(report.splits[0].snapshot.path, [0, 1]).values()] == ["", ""]
    assert report.splits[0].format == "messages"
    report = prepare(tmp_path, CASES / "SFT-12A" / "data.jsonl", train_input_dataset_info=registry("SFT-12A"))
    assert [row.system for row in rows_at(report.splits[0].snapshot.path, [0, 1]).values()] == ["", ""]
    assert [(p.code, p.severity, p.line) for p in report.problems] == [("OPENAI_SYSTEM_PROMPT", "warning", 4)]
    assert "detailed thinking off" in report.problems[0].message
