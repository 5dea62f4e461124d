import pytest
from fakes import verl_inside

replies = verl_inside.load("reward_replies")


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        ("72", ["72"]),
        (72, ["72"]),
        (0.5, ["0.5"]),
        (True, ["True"]),
        (["a", "b", "c", "d"], ["a", "b", "c"]),
        ({"target": ["Paris"]}, ["Paris"]),
        ({"target": "Paris", "x": "y"}, ["Paris"]),
        ({"answer": "4", "unit": "m"}, ["4", "m"]),
        ({"target": {"deep": 1}}, []),
        ([["nested"]], []),
        (None, []),
        ("x" * 301, []),
    ],
)
def test_answers(truth, expected):
    assert replies.answers(truth) == expected


@pytest.mark.parametrize("answer", ["72", "-3", "1,234", "A", "", "0.5", "７２"])
def test_a_wrong_answer_is_none_of_the_right_ones(answer):
    assert replies.wrong_answer(answer, [answer]) != answer
    assert replies.wrong_answer("1", ["1", "1010"]) not in ("1", "1010")


def test_pairs_have_the_answer_in_each_form():
    found = replies.pairs("72", ("#### {answer}", "\\boxed{{answer}}"))
    assert [(right.text, wrong.text) for _, right, wrong in found] == [
        ("#### 72", "#### 1081"), ("\\boxed{72}", "\\boxed{1081}"),
    ]  # fmt: skip
    assert replies.pairs(None, ("{answer}",)) == []


def test_a_very_long_reply_has_a_million_characters_and_ends_rightly():
    reply = replies.very_long("72", "#### {answer}")
    assert len(reply.text) == 1_000_000
    assert reply.text.endswith("\n#### 72")
    assert len(replies.very_long(None, "{answer}").text) == 1_000_000


def test_replies_are_shown_short():
    assert len(replies.very_long("72", "{answer}").shown()) < 90
    assert replies.Reply("right", "#### 7").shown() == "right reply '#### 7'"


def test_others():
    assert [reply.kind for reply in replies.others("72")] == ["empty", "marker-free"]
    assert "72" in replies.others("72")[1].text
    assert replies.others(None)[1].text


@pytest.mark.parametrize(
    ("truth", "cause", "hint"),
    [
        (72, "type int", "as text"),
        (0.5, "type float", "as text"),
        (True, "type bool", "as text"),
        (["72"], "a list", "one text"),
        ({"a": 1}, "a mapping", "text"),
        (None, "no ground truth", "leave"),
        ("  ", "is empty", "leave"),
        ("７２", "digits that are not 0 to 9", "'72'"),
        ("−5", "Unicode minus", "ASCII"),
        ("1,234", "comma between digits", "'1234'"),
        (" 72", "spaces around", "'72'"),
        ("72", "", ""),
        ("a, b", "", ""),
    ],
)
def test_what_keeps_a_right_answer_from_scoring(truth, cause, hint):
    found = replies.peculiarity(truth)
    assert cause in found[0]
    assert hint in found[1]
    assert bool(found[0]) is bool(cause)
