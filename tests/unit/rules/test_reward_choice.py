import json

import pytest

from loopai_trainer.errors import ConfigError
from loopai_trainer.records import PromptFacts, Settings
from loopai_trainer.rules import reward_choice
from loopai_trainer.rules.reward_choice import choose


def settings(**values):
    values.setdefault("verl_reward_mode", "auto")
    origins = dict.fromkeys(values, "environment variable X")
    if values["verl_reward_mode"] == "auto":
        origins["verl_reward_mode"] = "default"
    return Settings(values, origins)


def facts(sources=None, native=False, markers=None, metadata=()):
    return PromptFacts(sources or {"generated": 6}, {"str": 6}, markers or {}, native, metadata)


def refused(code, *arguments):
    with pytest.raises(ConfigError) as caught:
        choose(*arguments)
    assert caught.value.code == code
    assert caught.value.hint
    assert caught.value.problems
    return caught.value


NATIVE = facts({"openai/gsm8k": 4, "aime24": 2}, native=True)


class TestMode:
    def test_auto_routes_known_sources_and_says_why(self):
        choice = choose(settings(), NATIVE)
        assert (choice.mode, choice.preset, choice.function) == ("auto", "auto", None)
        assert "openai/gsm8k (4 rows)" in choice.origin
        assert choice.code_sources == ()

    @pytest.mark.parametrize("mode", ["auto", "preset"])
    def test_a_named_preset_wins_over_auto_whatever_the_data_say(self, mode):
        chosen = settings(verl_reward_mode=mode, verl_reward_preset="math_boxed")
        choice = choose(chosen, facts(metadata=("gsm8k",), markers={"####": 6}))
        assert (choice.mode, choice.preset) == ("preset", "math_boxed")
        assert choice.origin == "named by the user (environment variable X)"

    @pytest.mark.parametrize("mode", ["auto", "custom"])
    def test_a_named_function_wins_over_auto(self, mode):
        choice = choose(settings(verl_reward_mode=mode, verl_reward_function_path="r.py"), facts(metadata=("gsm8k",)))
        assert (choice.mode, choice.preset, choice.function, choice.name) == ("custom", None, "r.py", None)

    def test_the_functions_name_is_kept(self):
        chosen = settings(verl_reward_function_path="r.py", verl_reward_function_name="score")
        assert choose(chosen, NATIVE).name == "score"

    @pytest.mark.parametrize(
        "values",
        [
            {"verl_reward_preset": "math_boxed", "verl_reward_function_path": "r.py"},
            {"verl_reward_mode": "preset", "verl_reward_preset": "math_boxed", "verl_reward_function_path": "r.py"},
            {"verl_reward_mode": "preset"},
            {"verl_reward_mode": "preset", "verl_reward_function_path": "r.py"},
            {"verl_reward_mode": "custom"},
            {"verl_reward_mode": "custom", "verl_reward_preset": "math_boxed"},
        ],
    )
    def test_exactly_one_mode(self, values):
        error = refused("REWARD_MODE_INVALID", settings(**values), NATIVE)
        assert "exactly one reward" in error.message

    def test_verl_builtin_takes_sources_that_only_the_installed_verl_may_know(self):
        choice = choose(settings(verl_reward_preset="verl_builtin"), facts({"new/source": 3}, native=True))
        assert (choice.mode, choice.preset) == ("preset", "verl_builtin")

    @pytest.mark.parametrize("preset", [None, "auto", "verl_builtin"])
    def test_code_that_will_be_executed_is_told(self, preset):
        choice = choose(settings(verl_reward_preset=preset), facts({"taco": 2, "apps": 1, "aime": 1}, native=True))
        assert choice.code_sources == ("apps", "taco")


class TestUnknownSources:
    def test_case_grpo_04a_a_near_miss_is_named_and_never_rewritten(self):
        error = refused("REWARD_SOURCE_UNKNOWN", settings(), facts({"gsm8k": 6}, native=True))
        assert "data_source 'gsm8k' (6 rows)" in error.message
        assert "nearest that it knows is 'openai/gsm8k'" in error.message
        assert "--reward-preset" in error.hint

    def test_every_unknown_source_is_told(self):
        error = refused("REWARD_SOURCE_UNKNOWN", settings(), facts({"mine": 1, "math": 2, "DAPO": 3}, native=True))
        assert [problem.message.split("'")[1] for problem in error.problems] == ["DAPO", "mine"]

    def test_preset_auto_is_held_to_the_same(self):
        refused("REWARD_SOURCE_UNKNOWN", settings(verl_reward_preset="auto"), facts({"mine": 1}))

    @pytest.mark.parametrize(
        ("source", "near"),
        [
            ("gsm8k", "openai/gsm8k"),
            ("OPENAI/GSM8K", "openai/gsm8k"),
            ("MATH-500", "HuggingFaceH4/MATH-500"),
            ("geometry3k", "hiyouga/geometry3k"),
            ("someone/math_dapo", "math_dapo"),
            ("numina_olympiad", "numina_olympiads"),
            ("searchr1_hotpotqa ", "searchR1_hotpotqa"),
            ("poems", None),
        ],
    )
    def test_nearest(self, source, near):
        assert reward_choice.nearest(source) == near

    @pytest.mark.parametrize(
        ("rows", "said", "where"),
        [
            ({"train": 4, "validation": 2}, "(4 train + 2 validation rows)", "train"),
            ({"validation": 2}, "(2 validation rows)", "validation"),
            ({"": 2}, "(2 rows)", "train"),
        ],
    )
    def test_rows_of_each_split(self, rows, said, where):
        problem = reward_choice.source_problem("poems", rows)
        assert said in problem.message
        assert problem.where == where
        assert "write data_source" not in problem.hint


class TestRecommendation:
    @pytest.mark.parametrize(
        ("names", "preset"),
        [
            (("gsm8k",), "gsm8k_exact"),
            (("openai/gsm8k-socratic", "math"), "gsm8k_exact"),
            (("huggingfaceh4/math-500",), "math_boxed"),
            (("dapo-math-17k",), "math_dapo"),
            (("aime_2024",), "math_dapo"),
            (("ai-mo/numinamath-cot",), "prime_math"),
            (("geometry3k",), "geometry"),
            (("search-r1", "hotpotqa"), "qa_exact_match"),
        ],
    )
    def test_by_the_names_that_data_give_themselves(self, names, preset):
        choice = choose(settings(), facts(metadata=names))
        assert (choice.mode, choice.preset) == ("preset", preset)
        assert choice.origin.startswith("recommended: the data name themselves")

    def test_by_data_sources_that_all_mean_it(self):
        assert choose(settings(), facts({"gsm8k": 5, "my-gsm8k": 1})).preset == "gsm8k_exact"

    @pytest.mark.parametrize(
        ("marker", "preset"),
        [("####", "gsm8k_exact"), ("boxed", "math_boxed")],
    )
    def test_by_a_marker_in_every_row(self, marker, preset):
        choice = choose(settings(), facts(markers={marker: 6, "something": 2}))
        assert (choice.mode, choice.preset) == ("preset", preset)
        assert f"'{marker}' (6 rows)" in choice.origin

    def test_known_sources_of_generated_data_are_routed(self):
        assert choose(settings(), facts({"openai/gsm8k": 6})).mode == "auto"

    @pytest.mark.parametrize(
        "given",
        [
            facts(),
            facts(metadata=("math",)),
            facts(metadata=("dataset-of-magsm8kic",)),
            facts(markers={"####": 5}),
            facts(markers={"answer_tag": 6}),
            facts(markers={"final_answer": 6}),
            facts(metadata=("gsm8k",), markers={"answer_tag": 6}),
            facts(markers={"####": 6, "boxed": 6}),
            facts(metadata=("gsm8k", "aime24")),
            facts(metadata=("gsm8k", "orca")),
            facts(metadata=("gsm8k",), markers={"boxed": 1}),
            facts({"gsm8k": 3, "orca": 3}),
            facts({"openai/gsm8k": 3, "orca": 3}),
        ],
    )
    def test_what_is_not_certain_is_asked(self, given):
        error = refused("REWARD_AMBIGUOUS", settings(), given)
        assert error.details["choices"] == [
            "gsm8k_exact", "math_boxed", "math_dapo", "prime_math", "geometry", "qa_exact_match",
        ]  # fmt: skip
        assert "gsm8k_exact" in error.hint
        assert "--reward-function" in error.hint

    def test_the_evidence_is_told(self):
        error = refused("REWARD_AMBIGUOUS", settings(), facts(metadata=("gsm8k",), markers={"boxed": 2}))
        assert "'gsm8k' would be gsm8k_exact; 'boxed' in 2 of 6 rows would be math_boxed" in error.message

    def test_native_data_are_never_guessed_at(self):
        refused("REWARD_SOURCE_UNKNOWN", settings(), facts({"x": 6}, native=True, markers={"####": 6}))


class TestKwargs:
    @pytest.mark.parametrize("given", [None, "", "{}", {}])
    def test_none(self, given):
        assert choose(settings(verl_reward_kwargs=given), NATIVE).kwargs == {}

    @pytest.mark.parametrize("as_text", [True, False])
    def test_plain_values(self, as_text):
        wanted = {"format_score": 0.5, "strict": True, "names": ["a", None], "deep": {"x": 1}}
        given = json.dumps(wanted) if as_text else wanted
        assert choose(settings(verl_reward_kwargs=given), NATIVE).kwargs == wanted

    @pytest.mark.parametrize(
        "given",
        [
            "{", "[1]", "3", '"a"', '{"a-b": 1}', '{"class": 1}', '{"preset": "x"}', '{"solution_str": ""}',
            '{"a": NaN}', '{"a": [Infinity]}', {1: 2}, {"a": {1: 2}}, {"a": {"b": object()}}, 7,
        ],
    )  # fmt: skip
    def test_refused(self, given):
        error = refused("REWARD_KWARGS_INVALID", settings(verl_reward_kwargs=given), NATIVE)
        assert "environment variable X" in error.message


@pytest.mark.parametrize("together", [(("gsm8k",), ()), (("gsm8k",), ("math",))])
def test_rows_that_name_no_data_set_keep_names_from_deciding(together):
    named = PromptFacts({"generated": 6}, {"str": 6}, {}, False, ("gsm8k", "math"), together)
    refused("REWARD_AMBIGUOUS", settings(), named)
    agreed = PromptFacts({"generated": 6}, {"str": 6}, {}, False, ("gsm8k", "math"), (("gsm8k",), ("gsm8k", "math")))
    assert choose(settings(), agreed).preset == "gsm8k_exact"
