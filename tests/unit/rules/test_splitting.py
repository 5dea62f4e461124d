"""Held-out rows, repeats and leaks, on fingerprints."""

import math
import random
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.rules import splitting
from loopai_trainer.rules.splitting import SplitImpossible, choose_validation, repeats, shared, wanted_rows

# Few values, some in the same bucket, so that repeats are common.
PRINTS = st.lists(st.sampled_from([0, 1, 2, 1 << 56, (1 << 56) + 1, (1 << 64) - 1]) | st.integers(0, (1 << 64) - 1))


@pytest.mark.parametrize(
    ("size", "total", "wanted"),
    [
        (0.1, 64, 6),
        (0.1, 30, 3),
        (0.01, 10, 1),
        (0.29, 100, 29),
        (1, 5, 1),
        (3, 5, 3),
        (3.0, 5, 3),
        (0.5, 2, 1),
        (1e-9, 5, 1),
    ],
)
def test_a_share_is_rounded_down_to_at_least_one_row_and_a_count_is_a_count(size, total, wanted):
    assert wanted_rows(size, total) == wanted


@pytest.mark.parametrize(
    ("size", "total"),
    [
        (5, 5),
        (6, 5),
        (0.5, 1),
        (1, 1),
        (0.1, 0),
        (1.0, 5),
        (2.5, 5),
        (-0.1, 5),
        (0, 5),
        (math.nan, 5),
        (math.inf, 5),
        (True, 5),
    ],
)
def test_sizes_that_leave_nothing_or_mean_nothing_are_refused(size, total):
    with pytest.raises(SplitImpossible):
        wanted_rows(size, total)


def test_the_smallest_fingerprints_are_held_out():
    assert list(choose_validation(array("Q", [9 << 56, 1, 5 << 56, 3]), 2)) == [0, 1, 0, 1]


def test_a_prompt_that_does_not_fit_is_passed_over():
    assert list(choose_validation(array("Q", [1, 1, 1, 7, 8]), 2)) == [0, 0, 0, 1, 1]


def test_fewer_rows_are_held_out_if_what_is_left_does_not_fit():
    assert list(choose_validation(array("Q", [1, 2, 2, 3, 3, 3, 4, 4]), 2)) == [1, 0, 0, 0, 0, 0, 0, 0]


def test_if_no_prompt_fits_the_one_with_the_fewest_rows_is_taken():
    assert list(choose_validation(array("Q", [1, 1, 1, 7, 7]), 1)) == [0, 0, 0, 1, 1]


def test_one_prompt_alone_cannot_be_split():
    with pytest.raises(SplitImpossible, match="same prompt"):
        choose_validation(array("Q", [1, 1, 1]), 1)


@given(PRINTS, st.integers(1, 20))
def test_a_split_keeps_repeats_together_and_never_takes_all(prints, wanted):
    if wanted >= len(prints) or len(set(prints)) < 2:
        return
    chosen = choose_validation(array("Q", prints), wanted)
    held = {value for value, flag in zip(prints, chosen, strict=True) if flag}
    kept = {value for value, flag in zip(prints, chosen, strict=True) if not flag}
    assert held
    assert kept
    assert not held & kept
    if len(set(prints)) == len(prints):
        assert held == set(sorted(prints)[:wanted])
    elif sum(chosen) > wanted:
        assert len(held) == 1


@given(PRINTS, st.data())
def test_repeats_are_all_rows_of_prompts_that_stand_twice(prints, data):
    answers = data.draw(st.lists(st.integers(-2, 2), min_size=len(prints), max_size=len(prints)))
    found = {group.rows: group.answers for group in repeats(array("Q", prints), array("q", answers))}
    groups = {}
    for index, value in enumerate(prints):
        groups.setdefault(value, []).append(index)
    expected = {tuple(rows) for rows in groups.values() if len(rows) > 1}
    assert set(found) == expected
    for rows, numbers in found.items():
        assert numbers[0] == 0
        for one in range(len(rows)):
            for other in range(len(rows)):
                assert (numbers[one] == numbers[other]) == (answers[rows[one]] == answers[rows[other]])


@given(PRINTS, PRINTS)
def test_shared_names_each_validation_row_whose_prompt_is_trained(train, validation):
    found = {held: first for first, held in shared(array("Q", train), array("Q", validation))}
    assert found == {index: train.index(value) for index, value in enumerate(validation) if value in train}


@given(PRINTS, PRINTS, st.integers(1, 3))
def test_rows_looked_at_a_few_at_a_time_are_the_same_rows(train, validation, rows_a_look):
    once = list(repeats(train, [0] * len(train))), list(shared(train, validation))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "_ROWS_A_LOOK", rows_a_look)
        assert (list(repeats(train, [0] * len(train))), list(shared(train, validation))) == once


@given(PRINTS, PRINTS, st.integers(1, 3))
def test_rounds_change_nothing_but_the_memory(train, validation, rows_a_round):
    once = list(repeats(array("Q", train), array("q", [0] * len(train)))), list(shared(train, validation))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "_ROWS_A_ROUND", rows_a_round)
        assert (list(repeats(array("Q", train), array("q", [0] * len(train)))), list(shared(train, validation))) == once


@pytest.mark.parametrize(("count", "rounds"), [(0, 1), (4 << 20, 1), ((4 << 20) + 1, 2), (13 << 20, 4), (1 << 40, 256)])
def test_the_rows_kept_at_once_do_not_grow_with_the_file(count, rounds):
    assert splitting._rounds(count) == rounds


@pytest.mark.parametrize("wanted", [1, 3, 40, 300, 900])
@pytest.mark.parametrize("top", [64, 60])
def test_few_are_chosen_as_out_of_all(wanted, top):
    # 60 bits: all fingerprints are in the first buckets, where more of them are than were to be expected.
    rng = random.Random(wanted)
    prints = [rng.getrandbits(top) for _ in range(1000)]
    prints[::7] = prints[1::7][: len(prints[::7])]
    chosen = choose_validation(array("Q", prints), wanted)
    groups, left = {}, wanted
    for row, value in enumerate(prints):
        groups.setdefault(value, []).append(row)
    expected = set()
    for value in sorted(groups):
        if len(groups[value]) <= left:
            expected.update(groups[value])
            left -= len(groups[value])
    assert {row for row, flag in enumerate(chosen) if flag} == expected or (not expected and sum(chosen))
