import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.rules.visible_text import hidden, visible, visible_values


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("learning_rate: 1e-5\nlines: 问题 ü\ttab\n", None),
        ("a: 1 \rb: 2", "a: 1 \\x0db: 2"),
        ("\x1b[2Kx", "\\x1b[2Kx"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb", "a\\u200bb"),
        ("\x85\x9b", "\\x85\\x9b"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_a_terminal_does_not_show_is_spelt_out(text, shown):
    assert visible(text) == (text if shown is None else shown)
    assert hidden(text) == (shown is not None)


@given(st.text())
def test_nothing_unseen_is_left(text):
    assert all(one.isprintable() or one in "\n\t" for one in visible(text))


def test_texts_in_nested_values():
    value = {"a\r": ["b\x1b", {"c": 1}, ("d",)], "e": None}
    assert visible_values(value) == {"a\\x0d": ["b\\x1b", {"c": 1}, ["d"]], "e": None}
