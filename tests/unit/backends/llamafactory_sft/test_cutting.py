import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.backends.llamafactory_sft.cutting import Cut, cut, share_room

LENGTHS = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("question", "answer", "room", "kept"),
    [
        (40, 20, 64, (40, 20)),
        (100, 20, 64, (44, 20)),  # the answer is short: the question loses its end
        (20, 100, 64, (20, 44)),  # the question is short: the answer loses its end
        (100, 100, 64, (32, 32)),
        (300, 100, 64, (48, 16)),
        (10, 10, 1, (1, 0)),
    ],
)
def test_who_gives_way(question, answer, room, kept):
    assert share_room(question, answer, room) == kept


def test_turns_for_which_no_room_is_left_go_whole():
    pairs = [(20, 10), (20, 10), (30, 30), (5, 5)]
    assert cut(pairs, 64) == Cut(64, 28, 28, 1)
    assert cut(pairs, 60) == Cut(60, 0, 0, 2)
    assert cut(pairs, 500) == Cut(130, 0, 0, 0)


def test_the_last_turn_first():
    assert cut([(50, 50), (20, 10)], 30, last_first=True) == Cut(30, 0, 0, 1)
    assert cut([(50, 50), (20, 10)], 30) == Cut(30, 35, 35, 1)


def test_an_end_token_takes_its_room():
    assert cut([(6, 4)], 10, end_tokens=1) == Cut(10, 1, 0, 0)
    assert cut([(6, 4)], 1, end_tokens=1) == Cut(1, 0, 0, 1)


@given(LENGTHS, st.integers(1, 900), st.booleans())
def test_nothing_is_invented_and_nothing_kept_beyond_the_limit(pairs, cutoff, last_first):
    found = cut(pairs, cutoff, last_first=last_first)
    dropped = pairs[: found.turns_lost] if last_first else pairs[len(pairs) - found.turns_lost :]
    assert found.kept <= cutoff
    assert found.kept + found.prompt_lost + found.answer_lost + sum(map(sum, dropped)) == sum(map(sum, pairs))
    if sum(map(sum, pairs)) < cutoff:
        assert found == Cut(sum(map(sum, pairs)), 0, 0, 0)
