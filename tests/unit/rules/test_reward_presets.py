import pytest

from loopai_trainer.backends.verl_grpo.fields import PRESETS as FIELD_PRESETS
from loopai_trainer.rules.reward_presets import ANSWER, PRESETS, ROUTES, SCORERS, scorer_of, scorers


def test_the_presets_are_those_of_the_specification_in_its_order():
    assert tuple(PRESETS) == FIELD_PRESETS


def test_every_preset_and_route_ends_at_a_scorer_of_the_table():
    assert {preset.scorer for preset in PRESETS.values() if preset.scorer} <= set(SCORERS)
    assert set(ROUTES.values()) <= set(SCORERS)
    for preset in PRESETS.values():
        assert preset.calls == (SCORERS[preset.scorer].calls if preset.scorer else PRESETS["auto"].calls)


def test_every_form_has_a_place_for_the_answer_and_only_code_has_none():
    for name, scorer in SCORERS.items():
        assert bool(scorer.forms) is not scorer.runs_code, name
        assert all(form.count(ANSWER) == 1 for form in scorer.forms)


@pytest.mark.parametrize(
    ("data_source", "scorer"),
    [
        ("openai/gsm8k", "gsm8k"),
        ("aime2026_anything", "math_dapo"),
        ("math", "math_dapo"),
        ("codecontests", "prime_code"),
        ("gsm8k", None),
        ("OpenAI/gsm8k", None),
        (" aime", None),
        ("", None),
    ],
)
def test_routes_are_exact_but_for_the_prefix(data_source, scorer):
    assert scorer_of(data_source) == scorer


def test_scorers_of_rows():
    rows = {"openai/gsm8k": 3, "mine": 2}
    assert scorers("auto", rows) == {"openai/gsm8k": "gsm8k"}
    assert scorers("math_boxed", rows) == {"openai/gsm8k": "math_reward", "mine": "math_reward"}
