"""A short, seeded form of scripts/chaos: harm at random instants, after which nothing is lost, doubled or left."""

import pytest
from chaos.rounds import stand_in_round

pytestmark = pytest.mark.flow


@pytest.mark.parametrize("seed", range(30))
def test_harm_at_a_random_instant(seed):
    done = stand_in_round(seed)
    assert done.faults == [], done.acts
