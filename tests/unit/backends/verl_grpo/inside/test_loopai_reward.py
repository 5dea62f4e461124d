import sys
from types import ModuleType, SimpleNamespace

import pytest
from fakes import verl_inside

from loopai_trainer.rules.reward_presets import PRESETS, SCORERS

router = verl_inside.load("loopai_reward")


@pytest.fixture
def verl(monkeypatch):
    """A verl whose scorers say what they were called with; `verl.answer[module]` is what they answer."""

    made = SimpleNamespace(calls=[], answer={}, missing={})
    for name in ("verl", "verl.utils", "verl.utils.reward_score"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    package = sys.modules["verl.utils.reward_score"]
    package.__path__ = []

    def default(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
        if made.missing.get(data_source):
            raise ModuleNotFoundError("no", name=made.missing[data_source])
        if data_source not in made.answer:
            raise NotImplementedError(data_source)
        made.calls.append((data_source, solution_str, ground_truth, extra_info, kwargs))
        return made.answer[data_source]

    package.default_compute_score = default
    for name in router.SCORERS.values():
        module = ModuleType(name)

        def compute_score(reply, truth, name=name, **kwargs):
            made.calls.append((name, reply, truth, kwargs))
            return made.answer.get(name, 1)

        module.compute_score = compute_score
        monkeypatch.setitem(sys.modules, f"verl.utils.reward_score.{name}", module)
    return made


def test_the_router_has_exactly_the_presets_of_the_table():
    fixed = {name: preset.scorer for name, preset in PRESETS.items() if preset.scorer}
    assert fixed == router.SCORERS
    assert set(router.ROUTED) | set(fixed) == set(PRESETS)
    for name, scorer in fixed.items():
        assert PRESETS[name].calls == f"verl.utils.reward_score.{scorer}.compute_score"
        assert set(SCORERS[scorer].needs) <= set(router._PIP_NAMES)


@pytest.mark.parametrize("preset", list(router.SCORERS))
def test_a_preset_calls_its_scorer_and_gives_a_number(verl, preset):
    assert router.compute_score("any", "reply", "42", preset=preset, extra_info={"a": 1}) == 1.0
    truth = {"target": "42"} if preset == "qa_exact_match" else "42"
    assert verl.calls == [(router.SCORERS[preset], "reply", truth, {})]


@pytest.mark.parametrize("preset", list(router.SCORERS))
def test_none_scores_as_an_empty_reply(verl, preset):
    router.compute_score("any", None, "42", preset=preset)
    assert verl.calls[0][1] == ""


def test_keyword_arguments_reach_the_scorer_but_not_those_for_a_reward_model(verl):
    router.compute_score("any", "r", "1", preset="gsm8k_exact", format_score=0.1, reward_router_address="x")
    assert verl.calls[0][3] == {"format_score": 0.1}


def test_qa_takes_a_mapping_as_it_is_and_wraps_lists(verl):
    router.compute_score("any", "r", {"target": ["a"]}, preset="qa_exact_match")
    router.compute_score("any", "r", ["a", "b"], preset="qa_exact_match")
    assert [call[2] for call in verl.calls] == [{"target": ["a"]}, {"target": ["a", "b"]}]


def test_a_dict_stays_one_and_a_tuple_gives_its_first(verl):
    verl.answer = {"math_dapo": {"score": -1, "acc": False, "pred": "x"}, "prime_math": (True, False, "y")}
    assert router.compute_score("any", "r", "1", preset="math_dapo") == {"score": -1.0, "acc": False, "pred": "x"}
    assert router.compute_score("any", "r", "1", preset="prime_math") == 1.0


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused(verl, number):
    verl.answer = {"gsm8k": number}
    with pytest.raises(ValueError, match="gsm8k_exact"):
        router.compute_score("any", "r", "1", preset="gsm8k_exact")


def test_auto_has_the_same_keys_whatever_scorer_answers(verl):
    verl.answer = {"openai/gsm8k": 1, "aime": {"score": -1.0, "acc": False, "pred": "x"}, "no acc": {"score": 0.5}}
    found = [router.compute_score(source, "r", "1", preset="auto", extra_info=2, k=3) for source in verl.answer]
    assert found == [{"score": 1.0, "acc": 1.0}, {"score": -1.0, "acc": 0.0}, {"score": 0.5, "acc": 0.5}]
    assert verl.calls[0] == ("openai/gsm8k", "r", "1", 2, {"k": 3})


def test_verl_builtin_gives_what_verl_gives(verl):
    verl.answer = {"aime": {"score": -1.0, "acc": False, "pred": "x"}}
    assert router.compute_score("aime", None, "1", preset="verl_builtin") is verl.answer["aime"]
    assert verl.calls[0][1] == ""


@pytest.mark.parametrize("preset", ["auto", "verl_builtin"])
def test_an_unknown_source_raises_and_never_falls_back(verl, preset):
    with pytest.raises(NotImplementedError, match="data_source 'gsm8k'"):
        router.compute_score("gsm8k", "r", "1", preset=preset)


@pytest.mark.parametrize("preset", [None, "", "gsm8k", "AUTO"])
def test_an_unknown_preset_raises(verl, preset):
    with pytest.raises(ValueError, match="the presets are auto, verl_builtin, gsm8k_exact"):
        router.compute_score("openai/gsm8k", "r", "1", preset=preset)


def test_a_missing_package_is_named_for_pip(verl, monkeypatch):
    verl.missing = {"hiyouga/geometry3k": "mathruler.grader"}
    with pytest.raises(ModuleNotFoundError, match=r"pip install mathruler$") as caught:
        router.compute_score("hiyouga/geometry3k", "r", "1", preset="auto")
    assert caught.value.name == "mathruler"
    monkeypatch.delitem(sys.modules, "verl.utils.reward_score.geo3k")
    with pytest.raises(ModuleNotFoundError, match=r"reward \(geo3k\) needs"):
        router.compute_score("any", "r", "1", preset="geometry")
