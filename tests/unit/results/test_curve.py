"""results.curve: text that fits a terminal."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopai_trainer.results.curve import draw, sparkline

FALLING = [(step, 2 / math.sqrt(step)) for step in range(1, 200)]


def test_a_curve_fits_80_columns_without_colour_codes():
    text = draw({"loss": FALLING, "eval_loss": [(50, 0.5), (100, 0.4)]}, width=200)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert text.splitlines()[0] == "⣿ loss   o eval_loss   (by step)"
    assert "199" in text.splitlines()[-1]


def test_ascii_where_the_terminal_shows_no_more():
    text = draw({"loss": FALLING}, encoding="ascii")
    assert text.isascii()
    assert "*" in text
    assert draw({"loss": FALLING}, encoding="no-such-encoding").isascii()


@pytest.mark.parametrize("points", [[(5, 1.5)], [(5, 1.5), (6, 1.5)], [(5, 1.5), (10, 1e-9)], [(5, -3.0), (9, 4e20)]])
def test_few_points(points):
    text = draw({"loss": points}, width=60)
    assert len(text.splitlines()) > 5
    assert str(points[0][0]) in text.splitlines()[-1].split()


def test_steps_are_whole_numbers():
    last = draw({"loss": [(1, 2.0), (3, 1.0)]}).splitlines()[-1]
    assert last.split() == ["1", "2", "3"]


def test_what_is_not_finite_is_left_out():
    assert draw({"loss": [(1, math.nan), (2, math.inf)]}) == ""
    assert draw({}) == ""
    assert "eval" not in draw({"loss": [(1, 2.0)], "eval_loss": [(1, math.nan)]})


def test_two_curves_in_a_row_do_not_mix():
    first = draw({"loss": FALLING})
    draw({"other": [(1, 5.0), (2, 9.0)]})
    assert draw({"loss": FALLING}) == first


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats()), min_size=1, max_size=6), st.integers(10, 120))
def test_any_points_can_be_drawn(points, width):
    text = draw({"loss": sorted(points, key=lambda point: point[0])}, width=width, height=8)
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], ""),
        ([1.0], "▁"),
        ([0.0, 1.0], "▁█"),
        ([1.0, math.nan, 2.0], "▁!█"),
        ([math.inf], "!"),
        ([-1e308, 1e308], "▁█"),
    ],
)
def test_sparkline(values, text):
    assert sparkline(values) == text


def test_sparkline_is_as_wide_as_asked_and_plain_if_need_be():
    assert len(sparkline(range(1000), width=20)) == 20
    assert sparkline([1, 2], encoding="ascii").isascii()
    assert sparkline([1.0, 2.0], width=1) == "▁"
