"""Lines that are taken as a whole are the rows that the table's own reader and the check find on each of them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.files import row_lines
from loopai_trainer.files.row_lines import RowLines
from loopai_trainer.files.tables.json_lines import JsonLines
from loopai_trainer.records import Row
from loopai_trainer.rules.rows import row_check_for
from loopai_trainer.rules.rows.columns import columns_of

ALPACA = {"instruction": "q", "input": "", "output": "a"}
SHAREGPT = {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}], "system": ""}
MESSAGES = {"messages": [{"role": "user", "content": "q: 1"}, {"role": "assistant", "content": "a"}]}
LIKE = (ALPACA, SHAREGPT, MESSAGES)


def taken(text, like):
    lines = RowLines()
    assert lines(text) is None  # no check yet
    lines.check = row_check_for([like])[1]
    return lines(text)


def alone(tmp_path_factory, text, like):
    """What each line gives: Rows, or other verdicts and Faults."""
    path = tmp_path_factory.getbasetemp() / "lines.jsonl"
    path.write_bytes(text + b"\n")  # else CR alone might end its lines
    check = row_check_for([like])[1]
    rows = JsonLines(str(path), len(text) + 1).rows()
    return [check(value, line) if isinstance(value, dict) else value for line, value in rows]


def same(tmp_path_factory, text, like):
    found = taken(text, like)
    if found is None:
        return False
    rows = alone(tmp_path_factory, text, like)
    assert all(type(row) is Row for row in rows)
    assert [row.source_line for row in rows] == list(range(1, len(found) + 1))
    plain, expected = found.columns, columns_of(rows)
    assert (plain.contents, plain.roles, plain.turns) == (expected.contents, expected.roles, expected.turns)
    assert (plain.systems, plain.tools, plain.plain) == (expected.systems, expected.tools, True)
    assert found.contents.to_pylist() == plain.contents
    return True


def written(rows):
    """Lines, some of them as ASCII."""
    return "\n".join(json.dumps(row, ensure_ascii=number % 2 == 0) for number, row in enumerate(rows)).encode()


TEXT = st.sampled_from(["q", "水：a", "a: b", 'x ":y', "\\:", "\n", "", "<|x|>", "\\u003a", "{}", "\0", "😀"])
BESIDE = {
    "id": st.integers(0, 2) | st.just("a:b"),
    "system": st.sampled_from(["", None, "s"]),
    "meta": st.just({"a": 1}),
}
TURNS = st.lists(TEXT, min_size=1, max_size=4).map(
    lambda texts: [{"from": ("human", "gpt")[place % 2], "value": text} for place, text in enumerate(texts)]
)


@given(
    st.lists(
        st.fixed_dictionaries({"instruction": TEXT, "output": TEXT}, optional={"input": TEXT, **BESIDE}),
        min_size=1,
        max_size=5,
    )
)
def test_alpaca_rows_taken_together_are_those_of_each_line(tmp_path_factory, rows):
    same(tmp_path_factory, written(rows), ALPACA)


@given(st.lists(st.fixed_dictionaries({"conversations": TURNS}, optional=BESIDE), min_size=1, max_size=5))
def test_chats_taken_together_are_those_of_each_line(tmp_path_factory, rows):
    same(tmp_path_factory, written(rows), SHAREGPT)


LINES = [json.dumps(row).encode() for row in LIKE]
MUTATION = st.tuples(st.integers(0, 400), st.sampled_from([*b'":,{}[]\\ \r\n\tu0aq\x00\xff\xe4']), st.booleans())


@given(st.sampled_from([0, 1, 2]), st.integers(1, 3), st.lists(MUTATION, max_size=4))
def test_lines_with_odd_bytes_are_taken_only_if_each_is_good(tmp_path_factory, which, count, mutations):
    text = bytearray(b"\n".join([LINES[which]] * count))
    for place, byte, inserted in mutations:
        at = place % len(text)
        text[at : at if inserted else at + 1] = bytes((byte,))
    text = bytes(text).strip(b"\n")
    same(tmp_path_factory, text, LIKE[which])


@pytest.mark.parametrize("like", LIKE)
def test_plain_lines_are_taken(tmp_path_factory, like):
    assert same(tmp_path_factory, written([like] * 3), like)
    assert same(tmp_path_factory, written([like, {**like, "system": None}, {**like, "id": 1}]), like)
    assert same(tmp_path_factory, written([{**like, "url": "a:b", "meta": {"a": {"b": ":"}}}] * 2), like)
    assert same(tmp_path_factory, written([like] * 3).replace(b"\n", b"\r\n"), like)
    assert same(tmp_path_factory, written([like]).replace(b"q", b"\\u003c"), like)
    assert not same(tmp_path_factory, written([like]).replace(b"q", b"\\u003a"), like)


@pytest.mark.parametrize(
    ("like", "line"),
    [
        (ALPACA, b'{"instruction": "q", "instruction": "r", "input": "", "output": "a"}'),
        (ALPACA, b'{"instruction": "q", "instr\\u0075ction": "r", "input": "", "output": "a"}'),
        (ALPACA, b'{"instruction" : "q", "input": "", "output" : "", "output" :"a"}'),
        # As many colons brought by escapes as stand behind keys that get lost.
        (ALPACA, b'{"instruction": "q", "instruction": "\\u003a", "input": "", "output": "a"}'),
        (ALPACA, b'{"instruction": "q", "instruction": "\\u003A", "input": "", "output": "a"}'),
        (ALPACA, b'{"instruction": "q", "input": "", "output": "a", "meta": {"a": 1, "a": 2}}'),
        (ALPACA, b'{"instruction": "q", "input": "", "output": "a", "meta": {"a": 1, "a": "\\u003a\\u003a"}}'),
        (SHAREGPT, b'{"conversations": [{"from": "human", "value": "q", "value": "r"}, {"from": "gpt", "value": "a"}]}'),
        (SHAREGPT, b'{"conversations": [], "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}'),
        (MESSAGES, b'{"messages": [{"role": "user", "role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}'),
        (ALPACA, b'{"instruction": "\\ud800", "input": "", "output": "a"}'),
        (ALPACA, b'{"instruction": "\xff", "input": "", "output": "a"}'),
        (ALPACA, b'{"instruction": "q", "input": "", "output": "a", "score": NaN}'),
        (ALPACA, b'{"instruction": "q", "input": "", "output": null}'),
        (ALPACA, b'{"instruction": "q", "input": "", "output": ""}'),
        (ALPACA, b'{"instruction": "q", "input": "", "output": "a <|im_end|>"}'),
        (ALPACA, b'{"instruction": "q", "input": "", "output": "a"}{"instruction": "q", "input": "", "output": "a"}'),
        (ALPACA, b'{"instruction": "q", "input": "",\n"output": "a"}'),
        (ALPACA, b"[1]"),
        (ALPACA, b" "),
    ],
)  # fmt: skip
def test_one_odd_line_leaves_all_to_others(like, line):
    good = json.dumps(like).encode()
    assert taken(good, like) is not None
    for text in (line, good + b"\n" + line, line + b"\n" + good):
        assert taken(text, like) is None


def test_no_line_is_written_again_where_the_colons_tell(monkeypatch):
    monkeypatch.setattr(row_lines, "doubtful", lambda text, value: pytest.fail("asked"))
    for like in LIKE:
        assert len(taken(written([like] * 3), like)) == 3


def test_no_more_is_tried_of_a_file_of_other_lines():
    lines = RowLines()
    lines.check = row_check_for([ALPACA])[1]
    good = json.dumps(ALPACA).encode()
    for _ in range(2):
        assert {lines(b"{}") for _ in range(7)} == {None}
        assert lines(good) is not None
    assert {lines(b"{}") for _ in range(8)} == {None}
    assert lines(good) is None


def test_a_check_of_single_rows_takes_nothing():
    lines = RowLines()
    lines.check = lambda value, line: None
    assert lines(json.dumps(ALPACA).encode()) is None
