"""Three rounds of scripts/chaos with the real LLaMA-Factory: kills of whoever is there, at seeded instants."""

import pytest
from chaos.rounds import real_round, real_shop

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def shop(tmp_path_factory, lf_env):
    return real_shop(tmp_path_factory.mktemp("chaos"))


@pytest.mark.parametrize("seed", [13, 14, 16])
def test_harm_at_a_random_instant(shop, seed):
    done = real_round(seed, shop)
    assert done.faults == [], done.acts
