"""Prompts that give their answer away, and those that only seem to."""

import re

import pytest

from loopai_trainer.rules.prompts.leaks import SUSPECT, leak

LEAKS = [
    ("How many?\nReference: #### 72", "72"),
    ("#### 72.", "72"),
    ("####72", "72"),
    ("#### 1,234 in all", "1234"),
    (r"the result is \boxed{72}", "72"),
    (r"\boxed{ 72 }", "72"),
    ("<answer> Paris </answer>", "Paris"),
    ("<ANSWER>Paris</ANSWER>", "Paris"),
    ("Final answer: Paris", "Paris"),
    ("final answer is: 5", "5"),
    ("#### 7\n#### 72", "72"),
    ("<answer>b</answer>", ["a", "b"]),
    ("<answer>b</answer>", {"target": ["a", "b"]}),
    ("#### 72", 72),
]


@pytest.mark.parametrize(("text", "truth"), LEAKS)
def test_a_marked_answer_is_a_leak(text, truth):
    assert leak([text], truth)


@pytest.mark.parametrize(("text", "truth"), LEAKS)
def test_columns_suspect_every_leak(text, truth):
    assert any(re.search(pattern, text) for pattern in SUSPECT)


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("9 bolts in 8 crates make 72?", "72"),
        ('finish with "#### <number>"', "72"),
        ("#### 725", "72"),
        ("#### 72.5", "72"),
        ("#### 7,200", "7"),
        (r"put it into \boxed{}", "72"),
        ("put it between <answer> and </answer>", "72"),
        ("give the final answer: a number", "72"),
        ("#### 71", "72"),
        ("", "72"),
        ("#### true", True),
        ("#### x", ""),
        ("#### x", None),
        ("#### x", {"target": ["y", "z"]}),
        ("#### x", []),
    ],
)
def test_what_only_looks_like_one_is_none(text, truth):
    assert leak([text], truth) == ""


def test_a_pasted_solution_is_a_leak():
    solution = "First add nine and eight, then multiply by four to get it."
    assert "reference solution" in leak([f"Question? {solution}"], "68", solution)
    assert leak(["Question? short"], "68", "short") == ""
