"""Reference answers: behind explicit markers, or not at all."""

import pytest

from loopai_trainer.rules.prompts.answers import Marked, Unclear, comparable, is_missing, marked_answer, plain_number


@pytest.mark.parametrize(
    ("text", "marker", "value"),
    [
        ("6 x 12 = 72\n#### 72", "####", "72"),
        ("#### 1,234\n", "####", "1,234"),
        ("#### $18", "####", "18"),
        ("#### **72**", "####", "72"),
        (r"so \boxed{\frac{1}{2}}.", "boxed", r"\frac{1}{2}"),
        (r"\boxed{1} then \boxed{2}", "boxed", "2"),
        (r"\fbox{7}", "boxed", "7"),
        (r"\boxed{\{1, 2\}}", "boxed", r"\{1, 2\}"),
        ("<think>a</think><answer> Paris </answer>", "answer_tag", "Paris"),
        ("<ANSWER>Paris</ANSWER>", "answer_tag", "Paris"),
        (r"<answer>\boxed{5}</answer>", "boxed", "5"),
        ("Final answer: 42.", "final_answer", "42"),
        ("The final answer is: U.S.", "final_answer", "U.S."),
        ("**Final Answer:** x\nFinal Answer: y", "final_answer", "y"),
        ("最终答案：十二", "final_answer", "十二"),
        ("Final answer: $x^2$", "final_answer", "x^2"),
        (r"Final answer: \boxed{3}" "\n#### 3", "####", "3"),
        (r"#### \boxed{72}", "boxed", "72"),
    ],
)
def test_a_marked_answer_is_read(text, marker, value):
    assert marked_answer(text) == Marked(marker, value)


@pytest.mark.parametrize(
    "text",
    [
        "The answer is 42",
        "42",
        "",
        "#### Step 1\nadd them up\nthat makes 72",
        "##### 72",
        "####",
        r"put it in \boxed{}",
        "<answer></answer>",
        "Final answer:",
        "the box is full",
    ],
)
def test_what_is_no_marker_gives_nothing(text):
    assert marked_answer(text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (r"\boxed{5}" "\n#### 7", "different answers"),
        (r"<answer>a</answer> Final answer: b", "different answers"),
        (r"\boxed{\frac{1}{2}", "not closed"),
        ("#### " + "word " * 200, "characters stand behind"),
        (r"\boxed{5" "\n#### 5", "not closed"),
    ],
)
def test_markers_that_contradict_each_other_are_not_relied_on(text, reason):
    found = marked_answer(text)
    assert isinstance(found, Unclear)
    assert reason in found.reason


def test_markers_may_write_one_answer_in_several_ways():
    assert marked_answer(r"\boxed{1,234}" "\n#### 1234") == Marked("####", "1234")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("72", "72"),
        ("-3.5", "-3.5"),
        ("1,234,567.8", "1234567.8"),
        ("１２", "12"),
        ("−7", "-7"),
        ("－7", "-7"),
        ("1,23", None),
        ("12 apples", None),
        ("", None),
        ("٣", None),
    ],
)
def test_numbers_are_written_as_a_scorer_reads_them(text, number):
    assert plain_number(text) == number


def test_texts_compare_without_blanks_case_and_width():
    assert comparable("  New\n York") == comparable("new york")


@pytest.mark.parametrize(
    "value", [None, "", " \n", "None", "null", "NaN", "<NA>", float("nan"), [], [None], {}, {"a": None}]
)
def test_values_that_stand_for_nothing(value):
    assert is_missing(value)


@pytest.mark.parametrize("value", ["0", 0, False, "none of them", ["a"], {"target": ["a"], "x": None}])
def test_values_that_stand_for_something(value):
    assert not is_missing(value)
