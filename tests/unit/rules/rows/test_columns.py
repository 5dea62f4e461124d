"""Rows judged many at a time get the verdicts that they get one by one."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.records import Row
from loopai_trainer.rules.rows import row_check_for, text_marks
from loopai_trainer.rules.rows.columns import columns_of, plain_columns

ALPACA = {"instruction": "q", "input": "", "output": "a"}
SHAREGPT = {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}
MESSAGES = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}

GOOD = st.sampled_from(["q", "水", " x", "a <b", "(1)", "\u200bz", "é"])
TEXT = st.sampled_from(["", " ", "\n", "\u200b", "<|im_end|>", "x<image>", "</s>"])
ODD = TEXT | st.none() | st.integers(0, 1) | st.just([]) | st.just({}) | st.booleans()
MOSTLY = st.one_of(GOOD, GOOD, GOOD, GOOD, TEXT, ODD)
BESIDE = dict.fromkeys(("system", "tools", "history", "id", "images", "sytem", "chosen"), st.just("") | st.none() | ODD)
NOT_ROWS = st.sampled_from([None, 1, "abc", [], ["instruction", "input", "output"], ["conversations"], {}])


def chats(turns, role, content, usual):
    plain = st.lists(GOOD, min_size=2, max_size=4).map(
        lambda texts: [{role: usual[number % 2], content: text} for number, text in enumerate(texts)]
    )
    turn = st.fixed_dictionaries({role: st.sampled_from(usual) | ODD, content: MOSTLY}, optional={"weight": ODD})
    lists = st.one_of(plain, plain, plain, st.lists(turn | ODD, max_size=3), ODD)
    return st.fixed_dictionaries({turns: lists}, optional=BESIDE)


def alpacas(text):
    return st.fixed_dictionaries({"instruction": text, "output": text}, optional={"input": text | st.just("")})


FAMILIES = {
    "alpaca": (
        ALPACA,
        alpacas(GOOD),
        st.fixed_dictionaries({"output": MOSTLY}, optional={"instruction": MOSTLY, **BESIDE}),
    ),
    "sharegpt": (
        SHAREGPT,
        chats("conversations", "from", "value", ("human", "gpt")).filter(lambda row: len(row) == 1),
        chats("conversations", "from", "value", ("human", "gpt")),
    ),
    "messages": (
        MESSAGES,
        chats("messages", "role", "content", ("user", "assistant")).filter(lambda row: len(row) == 1),
        chats("messages", "role", "content", ("user", "assistant")),
    ),
}
CASES = st.sampled_from(sorted(FAMILIES)).flatmap(
    lambda name: st.tuples(
        st.just(FAMILIES[name][0]),
        st.one_of(
            st.lists(FAMILIES[name][1], min_size=1, max_size=5),
            st.lists(st.one_of(*FAMILIES[name][1:], NOT_ROWS), min_size=1, max_size=4),
        ),
    )
)


def rows_of(columns):
    """The rows that columns stand for, at lines 1, 2, ..."""
    turns = iter(zip(columns.roles, columns.contents, strict=True))
    beside = zip(columns.turns, columns.systems, columns.tools, strict=True)
    found = [
        Row(tuple(next(turns) for _ in range(count)), system, tools, line)
        for line, (count, system, tools) in enumerate(beside, 1)
    ]
    assert next(turns, None) is None
    return found


@given(CASES)
def test_rows_judged_together_get_the_verdicts_of_each_alone(case):
    like, rows = case
    _, check = row_check_for([like])
    columns = plain_columns(check, rows)
    alone = [check(row, line) for line, row in enumerate(rows, 1)]
    if columns is not None:
        assert rows_of(columns) == alone
        assert columns.plain


@pytest.mark.parametrize("like", [ALPACA, SHAREGPT, MESSAGES])
def test_plain_rows_are_judged_together(like):
    _, check = row_check_for([like])
    many = [like, {**like, "id": 7}, {**like, "system": None, "tools": ""}, {**like, "tools": []}]
    columns = plain_columns(check, many)
    assert columns is not None
    assert rows_of(columns) == [check(row, line) for line, row in enumerate(many, 1)]
    assert columns.characters() == [2, 2, 2, 2]
    assert columns.single


@pytest.mark.parametrize("like", [ALPACA, SHAREGPT, MESSAGES])
@pytest.mark.parametrize("more", [{"system": "s"}, {"system": 0}, {"tools": "[]"}, {"images": []}, {"sytem": ""}])
def test_a_row_of_which_something_is_to_be_said_is_judged_by_itself(like, more):
    _, check = row_check_for([like])
    assert plain_columns(check, [like, {**like, **more}]) is None


@pytest.mark.parametrize("text", ["", " ", "\u200b", "<|im_end|>", "<image>", None, 1, ["q"]])
@pytest.mark.parametrize("place", ["question", "answer"])
def test_a_text_of_which_something_is_to_be_said_is_judged_by_itself(text, place):
    question, answer = (text, "a") if place == "question" else ("q", text)
    rows = (
        (ALPACA, {"instruction": question, "input": "", "output": answer}),
        (SHAREGPT, {"conversations": [{"from": "human", "value": question}, {"from": "gpt", "value": answer}]}),
    )
    for like, row in rows:
        _, check = row_check_for([like])
        assert plain_columns(check, [like]) is not None
        assert plain_columns(check, [like, row]) is None


def test_a_check_of_single_rows_needs_no_more():
    assert plain_columns(lambda value, line: None, [ALPACA]) is None


@given(
    st.lists(st.tuples(st.lists(GOOD, min_size=2, max_size=2), st.sampled_from(["", "s"]), st.sampled_from(["", "[]"])))
)
def test_rows_become_columns_and_are_the_same_rows(parts):
    rows = [
        Row((("user", question), ("assistant", answer)), system, tools, line)
        for line, ((question, answer), system, tools) in enumerate(parts, 1)
    ]
    columns = columns_of(rows)
    assert rows_of(columns) == rows
    assert columns.plain == all(not row.system and not row.tools for row in rows)
    assert columns.characters() == [
        sum(len(text) for _, text in row.messages) + len(row.system) + len(row.tools) for row in rows
    ]


@pytest.mark.parametrize(
    "messages",
    [
        (("user", "q"), ("assistant", "a"), ("user", "q")),
        (("tool", "q"), ("assistant", "a")),
        (("user", "q"), ("function", "{}")),
    ],
)
def test_other_turns_are_not_plain(messages):
    assert not columns_of([Row(messages, "", "", 1)]).plain


def test_no_character_that_surely_shows_is_one_that_shows_nothing():
    shown = [one for one in map(chr, range(0x110000)) if not text_marks._NOT_SURELY_SHOWN.match(one)]
    assert len(shown) > 27_000
    assert not any(map(text_marks.is_blank, shown))
    assert not any(unicodedata.category(one) in ("Cf", "Cc", "Cn", "Zs", "Mn") for one in shown)
