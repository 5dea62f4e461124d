"""Searching many Arrow texts as one."""

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.files import arrow_texts

MARKS = ("nswer", "NSWER", "  ", "答案", "\\box", ".", "a")


@pytest.mark.parametrize("has_memmem", [True, False])
def test_a_mark_is_found_wherever_it_stands(has_memmem, monkeypatch):
    if not has_memmem:
        monkeypatch.setattr(arrow_texts, "_memmem", lambda: None)
    elif arrow_texts._memmem() is None:
        pytest.skip("this C library has no memmem")

    @given(st.text("answerNSWER \0答案\\box.", max_size=40), st.sampled_from(MARKS))
    def same(text, mark):
        assert arrow_texts.holds(pyarrow.py_buffer(text.encode()), mark) is (mark in text)

    same()
    assert arrow_texts.holds(None, "nswer") is False
    assert arrow_texts.holds(pyarrow.py_buffer(b"x" * 5000 + b"nswer" + b"y" * 5000), "nswer") is True
    assert arrow_texts.holds(pyarrow.py_buffer(b"x" * 5000 + b"nswe"), "nswer") is False


def test_only_what_belongs_to_the_buffer_is_looked_through():
    whole = pyarrow.py_buffer(b"an answer")
    assert arrow_texts.holds(whole.slice(0, 8), "nswer") is False
    assert arrow_texts.holds(whole.slice(3), "nswer") is True
