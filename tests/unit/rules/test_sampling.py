import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.rules.sampling import sample


@given(st.integers(0, 3000), st.one_of(st.none(), st.integers(1, 400)))
def test_as_many_as_wanted_ascending_and_inside(total, limit):
    rows = list(sample(total, limit))
    assert len(rows) == (total if limit is None else min(total, limit))
    assert rows == sorted(set(rows))
    assert not rows or (rows[0] >= 0 and rows[-1] < total)


def test_it_is_spread_evenly_and_the_same_each_time():
    rows = list(sample(1_000_000, 1000))
    assert rows == list(sample(1_000_000, 1000))
    assert all(1000 * n <= row < 1000 * (n + 1) for n, row in enumerate(rows))


@pytest.mark.parametrize("period", [2, 3, 5, 7, 50])
def test_rows_that_repeat_with_a_period_are_all_met(period):
    seen = {row % period for row in sample(100_000, 2000)}
    assert seen == set(range(period))
