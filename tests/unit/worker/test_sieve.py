import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.worker.sieve import marked_lines, wanted_marks

MARKS = (b"ab", b"b\x00", b"ccc")


@pytest.mark.parametrize(
    ("block", "found"),
    [
        (b"", []),
        (b"ab", [b"ab"]),
        (b"xab\nx\nabab ccc\n", [b"xab", b"abab ccc"]),
        (b"\n\nab\n\n", [b"ab"]),
        (b"a\nb", []),
        (b"\r1%ab\r2%\nx", [b"\r1%ab\r2%"]),
    ],
)
def test_lines_with_a_mark_are_found_once_and_in_order(block, found):
    assert marked_lines(block, MARKS, len(block)) == found
    assert marked_lines(bytearray(block + b"\nab"), MARKS, len(block)) == found


@given(st.lists(st.text("abc\x00\r", max_size=6).map(str.encode), max_size=12))
def test_it_is_what_looking_at_every_line_gives(lines):
    expected = [line for line in lines if any(mark in line for mark in MARKS)]
    block = b"\n".join(lines)
    assert marked_lines(block, MARKS, len(block)) == expected


def test_marks_of_several_kinds_are_given_once():
    marks = {"phase": (b"a", b"b"), "train_examples": (b"b", b"c")}
    assert wanted_marks(marks, ["phase", "train_examples", "other"]) == (b"a", b"b", b"c")
    assert wanted_marks(marks, []) == ()
