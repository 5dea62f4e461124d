import math
import time
from pathlib import Path

import pytest
from fakes import verl_inside, verl_rehearsals

probe = verl_inside.load("reward_probe")
PLAIN = ("{answer}", "#### {answer}", "\\boxed{{answer}}", "<answer>{answer}</answer>", "Answer: {answer}")
CASE = Path(__file__).parents[4] / "cases" / "grpo" / "GRPO-05B" / "reward.py"


def custom(source):
    return probe.Scoring(PLAIN, strict=False)


def strict(source):
    return probe.Scoring(("#### {answer}",), strict=True)


def exact(data_source, solution_str, ground_truth, extra_info):
    return 1.0 if solution_str.rpartition("#### ")[2] == ground_truth else 0.0


def tried(function, truths=("72", "27"), scoring=custom, source="x", load=None, **limits):
    """(findings, the probe) of a function on rows with these ground truths, train and validation alike."""
    limit = probe.Limits(**{"load_s": 60.0, "call_s": 60.0, "budget_s": 600.0, **limits})
    one = probe.Probe(load or (lambda: function), scoring, lambda module: f"pip-{module}", limit)
    try:
        for where in ("train", "validation"):
            for number, row in enumerate(verl_rehearsals.rows(truths, source)):
                one.add(probe.Place(where, f"/{where}.parquet", number), row)
    finally:
        one.close()
    return one.findings(), one


def codes(findings):
    return [(finding["severity"], finding["code"]) for finding in findings]


@pytest.mark.parametrize(("scoring", "very_long"), [(custom, 0.0), (strict, 1.0)])  # plain text scores there
def test_a_good_reward_has_no_finding_and_its_scores_are_seen(scoring, very_long):
    findings, one = tried(exact, scoring=scoring)
    assert findings == []
    assert one.scores["right"] == [1.0] * 4
    assert one.scores["wrong"] == one.scores["empty"] == one.scores["marker-free"] == [0.0] * 4
    assert one.scores["very long"] == [very_long] * 4
    assert one.tried == {"train": 2, "validation": 2}


def test_case_grpo_05b_has_three_findings():
    names: dict = {}
    exec(compile(CASE.read_text(), str(CASE), "exec"), names)
    findings, _ = tried(names["compute_score"], ("72", "27", "90", "20"))
    assert codes(findings) == [("error", "REWARD_TYPE"), ("error", "REWARD_NOT_FINITE"), ("error", "REWARD_KEYS")]
    kind, finite, keys = findings
    assert "with a tuple for the wrong reply '1081' -> (0.0, 'wrong') [train row 0]" in kind["message"]
    assert "not finite for the empty reply '' -> nan" in finite["message"]
    assert "a bare number" in keys["message"] and "acc (number), bonus (number), score (number)" in keys["message"]
    assert {finding["path"] for finding in findings} == {"/train.parquet"}
    assert [finding["row"] for finding in findings] == [0, 0, 0]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda hit: None, "REWARD_NONE"),
        (lambda hit: (hit, "x"), "REWARD_TYPE"),
        (lambda hit: str(hit), "REWARD_TYPE"),
        (lambda hit: math.nan, "REWARD_NOT_FINITE"),
        (lambda hit: math.inf, "REWARD_NOT_FINITE"),
        (lambda hit: {"acc": hit}, "REWARD_NO_SCORE"),
        (lambda hit: {"score": hit, "why": [hit]}, "REWARD_EXTRAS"),
        (lambda hit: {"score": hit, "why": None}, "REWARD_EXTRAS"),
        (lambda hit: 1 / 0, "REWARD_RAISES"),
    ],
)
def test_what_verl_cannot_use_is_refused(answer, code):
    findings, _ = tried(lambda **row: answer(exact(**row)))
    assert codes(findings) == [("error", code)]
    assert "so in" in findings[0]["message"]
    assert findings[0]["hint"]


@pytest.mark.parametrize(
    "answer",
    [
        lambda hit: {"score": hit, "extra": 1} if hit else {"score": hit},
        lambda hit: {"score": hit} if hit else hit,
        lambda hit: {"score": hit, "note": "yes"} if hit else {"score": hit, "note": 0},
    ],
)
def test_keys_that_change_are_refused(answer):
    findings, _ = tried(lambda **row: answer(exact(**row)))
    assert codes(findings) == [("error", "REWARD_KEYS")]


def test_numbers_and_texts_beside_the_score_are_fine():
    findings, _ = tried(lambda **row: {"score": exact(**row), "acc": True, "pred": "text", "n": 3})
    assert findings == []


@pytest.mark.parametrize(
    ("truth", "cause"),
    [
        (72, "type int"),
        (["72"], "a list"),
        ("７２", "digits that are not 0 to 9"),
        ("−5", "Unicode minus"),
        ("1,234", "comma between digits"),
    ],
)
def test_a_right_answer_that_scores_nothing_is_an_error_for_a_preset(truth, cause):
    def gsm8k_like(data_source, solution_str, ground_truth, extra_info):
        import re

        found = re.findall("#### (\\-?[0-9\\.\\,]+)", solution_str)
        return float(bool(found) and found[-1].replace(",", "") == ground_truth)

    # One row of each file is good: the bad one is told all the same.
    findings, _ = tried(gsm8k_like, ("5", truth), scoring=strict)
    assert codes(findings) == [("error", "REWARD_USELESS")]
    assert cause in findings[0]["message"]
    assert "so in 2 of 4 rows [train row 1]" in findings[0]["message"]


def test_different_causes_are_told_apart():
    findings, _ = tried(lambda **row: 0.0, ("72", 72, ["72"]), scoring=strict)
    assert codes(findings) == [("error", "REWARD_USELESS")] * 3


def test_for_a_custom_reward_it_is_a_warning_unless_no_row_scores():
    only_seven = lambda data_source, solution_str, ground_truth, extra_info: float(solution_str == "7")  # noqa: E731
    assert codes(tried(only_seven, ("7", "8"))[0]) == [("warning", "REWARD_USELESS")]
    assert codes(tried(only_seven, ("8", "9"))[0]) == [("error", "REWARD_USELESS")]


@pytest.mark.parametrize("form", PLAIN)
def test_any_of_the_usual_forms_may_score_for_a_custom_reward(form):
    start, _, end = form.partition("{answer}")

    def picky(data_source, solution_str, ground_truth, extra_info):
        return float(solution_str == start + ground_truth + end)

    assert tried(picky)[0] == []


def test_penalties_count_as_long_as_right_beats_wrong():
    findings, _ = tried(lambda **row: exact(**row) * 2 - 1.0, scoring=strict)
    assert findings == []


def test_ground_truths_that_are_no_answers_are_said_to_be_untried():
    findings, _ = tried(lambda **row: 0.5, ("tests: " + "x" * 400,))
    assert codes(findings) == [("warning", "REWARD_RIGHT_UNTRIED")]


def test_code_is_run_for_one_row_of_a_source_alone_and_is_never_called_useless():
    calls = []

    def scorer(source):
        calls.append(source)
        return probe.Scoring((), strict=True, runs_code=True)

    findings, one = tried(lambda **row: 0.0, ("{}", "{}", "{}"), scoring=scorer)
    assert findings == []
    assert len(one.scores["empty"]) == 1
    assert len(calls) == 6


def test_an_exception_for_a_number_says_why():
    findings, _ = tried(lambda **row: float(row["ground_truth"].split()[0]), (72,), scoring=strict)
    assert any("type int" in finding["message"] and "as text" in finding["hint"] for finding in findings)


def test_a_reward_that_hangs_stops_the_probe():
    findings, one = tried(lambda **row: time.sleep(600), ("1", "2", "3"), call_s=0.5)
    assert codes(findings) == [("error", "REWARD_SLOW")]
    assert one.tried == {"train": 1}


def test_a_reward_that_ends_its_process():
    import os

    findings, _ = tried(lambda **row: os._exit(0), ("1",))
    assert codes(findings) == [("error", "REWARD_DIES")]


def test_a_missing_package_has_its_pip_name_and_stops_the_probe():
    def load():
        raise RuntimeError("loading") from ModuleNotFoundError("No module named 'mathruler'", name="mathruler")

    for function, loader in ((None, load), (lambda **row: load(), None)):
        findings, one = tried(function, load=loader)
        assert codes(findings) == [("error", "PACKAGE_MISSING")]
        assert findings[0]["hint"].endswith("pip install pip-mathruler")
        assert one.tried == {"train": 1}


def test_a_file_that_cannot_be_loaded():
    def load():
        raise ValueError("at import")

    findings, _ = tried(None, load=load)
    assert codes(findings) == [("error", "REWARD_LOAD")]
    assert "ValueError: at import" in findings[0]["message"]


def test_rows_get_what_verl_gives_and_time_is_bounded():
    def check(data_source, solution_str, ground_truth, extra_info):
        return float(
            extra_info["num_turns"] == 2 and extra_info["rollout_reward_scores"] == {} and "index" in extra_info
        )

    _, one = tried(check)
    assert set(one.scores["empty"]) == {1.0}
    assert tried(check, budget_s=-1.0)[1].tried == {}


def test_rows_without_extra_info_or_reward_model():
    one = probe.Probe(lambda: lambda **row: 0.0, custom, str)
    one.add(probe.Place("train", "/t", 0), {"data_source": "x", "reward_model": None, "extra_info": None})
    one.close()
    assert codes(one.findings()) == [("warning", "REWARD_RIGHT_UNTRIED")]
