import json
from pathlib import Path

import pytest
from fakes.tokenizer_files import write_tokenizer

from loopai_trainer.errors import ConfigError, SettingsError
from loopai_trainer.operations import token_lengths
from loopai_trainer.operations.inspect import inspect
from loopai_trainer.operations.token_lengths import Measured, measure
from loopai_trainer.records import RowLength
from loopai_trainer.rules import plan as plans

CASES = Path(__file__).parents[2] / "cases" / "sft"
LONG = {"instruction": "q" * 300, "output": "a"}
SHORT = {"instruction": "q", "output": "a"}


def rows(long, short):
    return [{**LONG, "instruction": f"{n}" + "q" * 300} for n in range(long)] + [
        {**SHORT, "instruction": f"{n} q"} for n in range(short)
    ]


def refused(place, overrides=(), **settings):
    with pytest.raises(ConfigError) as caught:
        place.prepare(overrides, **settings)
    return caught.value.problems


def codes(problems, *wanted):
    return [(p.code, p.where, p.line) for p in problems if p.code in wanted]


def report(place):
    return (place.run / "data_check_report.txt").read_text()


def without_split(place):
    place.template.write_text(place.template.read_text().replace("val_size: 0.25\n", ""))


def test_lengths_stand_in_the_summary_and_the_report(place):
    answer = place.prepare()
    assert answer.data["summary"]["row_tokens"] == (
        "train: half at most 58, 99 % at most 58, most 58; 0 rows are cut at 2048; "
        "validation: half at most 58, 99 % at most 58, most 58; 0 rows are cut at 2048"
    )
    text = report(place)
    assert "Tokens a row in train (template qwen): least 58, half at most 58" in text
    assert "         32 - 63                 6 ####" in text
    assert "  0 rows (0.0 %) are cut at cutoff_len 2048" in text.replace("0.0%", "0.0 %")
    assert "checks" not in plans.read(answer.data["config_yaml"].encode(), "x").loopai


def test_sft_07b_questions_that_are_cut_are_named_by_line(place):
    without_split(place)
    place.data.write_bytes((CASES / "SFT-07B" / "data.jsonl").read_bytes())
    problems = refused(place, ["cutoff_len=64"])
    assert codes(problems, "CUT_SHARE") == [("CUT_SHARE", "train", None)]
    answer = place.prepare(["cutoff_len=64"], max_cut_share=1.0)
    warnings = answer.data["warnings"]
    assert [(w["code"], w["line"]) for w in warnings if w["code"].endswith("_CUT")] == [
        ("PROMPT_CUT", 1),
        ("PROMPT_CUT", 3),
    ]
    first = next(w for w in warnings if w["code"] == "PROMPT_CUT")
    assert "the prompt loses its last " in first["message"] and "cutoff_len is 64" in first["message"]
    assert (first["path"], first["field"]) == (str(place.data), "cutoff_len")
    assert "2 rows (66.7%) are cut at cutoff_len 64" in report(place)
    assert "line 1: the prompt loses" in report(place)


def test_a_refusal_for_cut_rows_names_them_and_the_report(place):
    without_split(place)
    place.data.write_bytes((CASES / "SFT-07B" / "data.jsonl").read_bytes())
    with pytest.raises(ConfigError) as caught:
        place.prepare(["cutoff_len=64"])
    error = caught.value
    assert error.message.startswith("2 of 3 measured rows")  # no fault with a place in the template
    assert codes(error.problems, "PROMPT_CUT") == [("PROMPT_CUT", "train", 1), ("PROMPT_CUT", "train", 3)]
    assert [p.severity for p in error.problems] == ["error", "warning", "warning"]
    assert error.details["counts"]["train"] == {"input": 3, "usable": 3, "rejected": 0}
    assert error.details["report_path"] == str(place.run / "data_check_report.txt")
    text = report(place)
    assert text.splitlines()[1].startswith("Refused: 2 of 3 measured rows (66.7%) lose something")
    assert "No problems found but rows that training would cut" in text and "No problems found." not in text


def test_a_report_without_cut_rows_still_finds_no_problems(place):
    place.prepare()
    assert "\nNo problems found.\n" in report(place) and report(place).splitlines()[1] == "Accepted."


def test_sft_11a_a_template_of_another_family_is_refused_unless_allowed(place):
    place.data.write_bytes((CASES / "SFT-11A" / "data.jsonl").read_bytes())
    (problem,) = refused(place, ["template=llama3", "cutoff_len=256"])
    assert (problem.code, problem.field) == ("TEMPLATE_MISMATCH", "template")
    assert "<|start_header_id|>" in problem.message and problem.hint.startswith("write template: qwen ")
    allowed = place.prepare(["template=llama3", "cutoff_len=256"], allow_template_mismatch=True)
    assert [w["code"] for w in allowed.data["warnings"] if w["severity"] == "warning"].count("TEMPLATE_MISMATCH") == 1
    assert plans.read(allowed.data["config_yaml"].encode(), "x").loopai["checks"] == {"allow_template_mismatch": True}


def test_a_share_above_the_limit_is_refused_with_the_numbers_that_help(place):
    without_split(place)
    place.write_rows(rows(2, 18))
    problems = refused(place, ["cutoff_len=200"])
    (over,) = [p for p in problems if p.code == "CUT_SHARE"]
    assert over.message == ("2 of 20 measured rows (10.0%) lose something at cutoff_len 200; at most 5.0% are accepted")
    assert "set cutoff_len to 342 for all rows" in over.hint and "--option max_cut_share=0.11" in over.hint
    assert "2 rows (10.0%) are cut" in report(place)
    assert place.prepare(["cutoff_len=200"], max_cut_share=0.11).ok
    assert place.prepare(["cutoff_len=342"]).ok


def test_what_answers_and_turns_lose(place):
    without_split(place)
    talk = [{"from": who, "value": "t" * 40} for who in ("human", "gpt") * 4]
    place.write_rows(
        [
            {"conversations": talk},
            {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a" * 500}]},
        ]
    )
    answer = place.prepare(["cutoff_len=200"], max_cut_share=1.0)
    found = [(w["code"], w["line"], w["message"]) for w in answer.data["warnings"] if w["code"].endswith("_CUT")]
    assert [(code, line) for code, line, _ in found] == [
        ("PROMPT_CUT", 1),
        ("ANSWER_CUT", 1),
        ("TURNS_CUT", 1),
        ("ANSWER_CUT", 2),
    ]
    assert "the last 2 of 4 questions with their answers are left out" in found[2][2]
    assert "its end token among them" in found[3][2]
    masked = place.prepare(["cutoff_len=200", "mask_history=true"], max_cut_share=1.0)
    assert any("the first 2 of 4 questions" in w["message"] for w in masked.data["warnings"])


def test_validation_rows_are_judged_for_themselves(place):
    evaluation = place.root / "eval.jsonl"
    evaluation.write_text(json.dumps(LONG) + "\n")
    problems = refused(place, ["cutoff_len=200"], train_input_eval_dataset_path=str(evaluation))
    assert codes(problems, "CUT_SHARE") == [("CUT_SHARE", "validation", None)]


def test_rows_of_parquet_are_named_by_row(place):
    import pyarrow
    import pyarrow.parquet

    without_split(place)
    path = place.root / "data.PARQUET"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([SHORT, LONG]), path)
    answer = place.prepare(["cutoff_len=200"], train_input_dataset_path=str(path), max_cut_share=1.0)
    (cut,) = [w for w in answer.data["warnings"] if w["code"] == "PROMPT_CUT"]
    assert (cut["line"], cut["row"]) == (None, 1)
    assert "row 1: the prompt loses" in report(place)


@pytest.mark.parametrize("split", [False, True])
def test_items_that_stand_on_one_line_are_named_by_their_number(place, split):
    if not split:
        without_split(place)
    some = rows(8, 8)
    some.insert(2, {"instruction": "q", "output": ""})
    source = place.data.with_suffix(".json")
    source.write_text(json.dumps(some), encoding="utf-8")
    chosen = {"train_input_dataset_path": str(source), "bad_rows": "skip", "max_cut_share": 1.0}
    warnings = place.prepare(["cutoff_len=64"], **chosen).data["warnings"]
    cut = [warning for warning in warnings if warning["code"] == "PROMPT_CUT"]
    assert {warning["line"] for warning in cut} == {1}
    named = {f"item {number} of the list" for number in (1, 2, 4, 5, 6, 7, 8, 9)}
    assert {warning["message"].partition(":")[0] for warning in cut} == named
    assert {warning["where"] for warning in cut} == ({"train", "validation"} if split else {"train"})


def test_a_sample_is_said_to_be_one(place):
    without_split(place)
    place.write_rows(rows(0, 40))
    answer = place.prepare(length_sample="10")
    assert "0 of 10 sampled rows are cut" in answer.data["summary"]["row_tokens"]
    assert "10 of 40 rows were measured, evenly spread" in report(place)
    everything = place.prepare(length_sample="all")
    assert "sampled" not in everything.data["summary"]["row_tokens"]


@pytest.mark.parametrize("setting", [{"max_cut_share": 2}, {"length_sample": "most"}])
def test_limits_out_of_range_are_refused_before_the_data_is_read(place, setting):
    place.data.unlink()
    with pytest.raises(SettingsError) as caught:
        place.prepare(**setting)
    assert caught.value.problems[0].code == "LENGTH_LIMIT_INVALID"


def test_inspect_measures_again_by_the_same_limits(place):
    without_split(place)
    place.write_rows(rows(2, 18))
    prepared = place.prepare(["cutoff_len=400"], length_sample="all")
    config = Path(prepared.data["config_path"])
    before = report(place)
    assert inspect(str(config), place.environ).data["summary"]["row_tokens"] == prepared.data["summary"]["row_tokens"]
    text = config.read_text()
    config.write_text(text.replace("cutoff_len: 400", "cutoff_len: 200"))
    with pytest.raises(ConfigError) as caught:
        inspect(str(config), place.environ)
    assert [p.code for p in caught.value.problems] == ["CUT_SHARE"]
    config.write_text(config.read_text().replace("length_sample: all", "length_sample: all\n    max_cut_share: 0.2"))
    assert "2 rows are cut at 200" in inspect(str(config), place.environ).data["summary"]["row_tokens"]
    assert report(place) == before


def test_an_edit_that_breaks_the_limits_is_told(place):
    config = Path(place.prepare(length_sample="all").data["config_path"])
    config.write_text(config.read_text().replace("length_sample: all", "length_sample: -3"))
    with pytest.raises(ConfigError) as caught:
        inspect(str(config), place.environ)
    assert [p.code for p in caught.value.problems] == ["LENGTH_LIMIT_INVALID"]


def test_a_slow_tokenizer_is_a_warning_and_stands_in_the_report(place):
    (place.model / "tokenizer.json").rename(place.model / "tokenizer.model")
    answer = place.prepare()
    assert "LENGTHS_UNKNOWN" in [w["code"] for w in answer.data["warnings"]]
    assert "row_tokens" not in answer.data["summary"]
    assert "Tokens: row lengths in tokens are not known" in report(place)


def test_a_repeated_prepare_writes_the_section_once(place):
    place.prepare()
    place.prepare()
    assert report(place).count("Tokens a row in train") == 1


class Fixed:
    """A backend that knows nothing but lengths."""

    def __init__(self, *lengths):
        self._lengths = lengths

    def row_meter(self, plan, versions):
        return (lambda rows: [self._lengths[n % len(self._lengths)] for n, _ in enumerate(rows)]), []


def test_progress_is_told_and_ends_at_the_whole(place):
    plan = plans.read(place.prepare().data["config_yaml"].encode(), "x")
    told = []
    measure(plan, Fixed(RowLength(5, 5)), None, lambda done, total: told.append((done, total)))
    sizes = [plan.loopai["inputs"][where]["bytes"] for where in ("train", "validation")]
    assert told == [(sizes[0], sum(sizes)), (sum(sizes), sum(sizes)), (sum(sizes), sum(sizes))]


def test_estimates_are_counted(place):
    plan = plans.read(place.prepare().data["config_yaml"].encode(), "x")
    found = measure(plan, Fixed(RowLength(5, 5, exact=False), RowLength(5, 5)), None)
    assert "3 rows are estimates" in found.report


def test_a_snapshot_that_is_gone_is_left_to_the_check_of_inputs(place):
    plan = plans.read(place.prepare().data["config_yaml"].encode(), "x")
    for name in ("train", "validation"):
        Path(plan.loopai["inputs"][name]["path"]).unlink()
    assert measure(plan, Fixed(RowLength(5, 5)), None) == Measured()


@pytest.mark.parametrize("rows", ["0", "many", "[1]"])
def test_a_plan_whose_number_of_rows_was_spoilt_measures_nothing(place, rows):
    without_split(place)
    text = place.prepare().data["config_yaml"]
    spoilt = plans.read(text.replace("rows: 8", f"rows: {rows}").encode(), "x")
    assert "0 rows (0.0%) are cut" in measure(spoilt, Fixed(RowLength(5, 5)), None).report


def test_findings_are_capped_but_counted(place):
    without_split(place)
    place.write_rows(rows(30, 0))
    answer = place.prepare(["cutoff_len=200"], max_cut_share=1)
    assert sum(w["code"] == "PROMPT_CUT" for w in answer.data["warnings"]) == 20
    assert "PROMPT_CUT          30" in report(place)
    assert report(place).count("the prompt loses") == token_lengths._SHOWN


def test_a_larger_vocabulary_makes_rows_shorter(place):
    plain = place.prepare().data["summary"]["row_tokens"]
    write_tokenizer(place.model, corpus=["question answer"] * 100)
    assert place.prepare().data["summary"]["row_tokens"] != plain
