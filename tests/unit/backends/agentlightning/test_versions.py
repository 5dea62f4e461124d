import pytest

from loopai_trainer.backends.agentlightning.versions import number, require_known
from loopai_trainer.errors import BackendMissing
from loopai_trainer.records import Versions

GOOD = {"opentelemetry-sdk": "1.44.0", "poml": "0.0.8"}


def held(version, python="3.12.1", **changed):
    return Versions("agentlightning", version, python, "/x", {**GOOD, **changed}, "0" * 64)


@pytest.mark.parametrize("stage", ["dev", "apo"])
def test_the_pinned_set_is_accepted(stage):
    require_known(held("0.3.0"), stage)


@pytest.mark.parametrize(
    ("versions", "stage", "said"),
    [
        (held("0.3.0", **{"opentelemetry-sdk": "1.45.2"}), "dev", "loses spans with opentelemetry-sdk 1.45.2"),
        (held("0.3.0", poml=""), "grpo", "grpo needs verl"),
        (held("0.3.0", verl="0.9.1"), "grpo", "does not work with verl 0.9.1"),
        (held("1.0.2", verl="0.9.1"), "grpo", "does not work with verl 0.9.1"),
        (held("1.0.2"), "dev", "has no Trainer"),
        (held("1.0.2"), "apo", "has no Trainer"),
        (held("1.0.2", python="3.11.7", verl="0.8.0"), "grpo", "needs Python 3.12"),
        (held("0.2.2"), "dev", "never tried"),
    ],
)
def test_a_pair_that_does_not_work_is_refused_with_what_would(versions, stage, said):
    with pytest.raises(BackendMissing, match=said) as caught:
        require_known(versions, stage)
    assert (caught.value.code, caught.value.exit_code) == ("BACKEND_PAIR_BROKEN", 69)
    assert "setup agentlightning" in caught.value.hint or "verl 0.7.1 or 0.8.0" in caught.value.hint


def test_prompt_optimisation_needs_poml():
    versions = Versions("agentlightning", "0.3.0", "3.11.7", "/x", {"opentelemetry-sdk": "1.44.0"}, "0" * 64)
    with pytest.raises(BackendMissing, match="needs poml"):
        require_known(versions, "apo")
    require_known(versions, "dev")


@pytest.mark.parametrize("verl", ["0.7.1", "0.8.0"])
def test_the_pairs_of_1_x_are_accepted(verl):
    require_known(held("1.0.2", verl=verl), "grpo")


def test_the_pairs_of_0_3_are_accepted():
    require_known(held("0.3.0", verl="0.6.1"), "grpo")


def test_a_version_without_numbers_is_none():
    assert number("unknown") == (0, 0)
