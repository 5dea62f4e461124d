"""The first gate: what a person is asked for, told truly for this host, in two languages."""

import json
import shlex

import pytest
import typer
from fakes.loopai import LoopAI

from loopai_trainer.errors import SettingsError
from loopai_trainer.operations import sources
from loopai_trainer.operations.guide import guide, prefill, refused
from loopai_trainer.operations.sources import Request


@pytest.fixture
def given(place):
    """All that SFT needs, as settings."""
    return dict(place.request().keyword)


def data_of(place, task_type=None, **settings):
    return guide(Request(settings, place.environ), task_type).data


def test_what_is_complete_is_ready_and_says_what_to_type(place, given):
    answer = guide(Request(given, place.environ))
    assert (answer.status, answer.ok, answer.data["ready"]) == ("ready", True, True)
    assert answer.data["missing_fields"] == answer.data["user_required_fields"] == answer.data["problems"] == []
    assert answer.data["settings"]["train_input_dataset_path"] == {"value": str(place.data), "origin": "--dataset"}
    assert shlex.split(answer.data["next_command"])[:2] == ["trainer", "prepare"]


def test_the_next_command_means_the_same_settings(place, given):
    from loopai_trainer.cli.app import app

    given = {**given, "max_cut_share": 0.25, "language": "zh"}
    words = shlex.split(data_of(place, **given)["next_command"])[2:]
    command = typer.main.get_command(app).commands["prepare"]
    told = command.make_context("prepare", words).params
    options = sources.named_options(told["option"])
    assert (told["dataset"], told["model"], told["env"]) == (str(place.data), str(place.model), str(place.env))
    assert (options["max_cut_share"], str(told["language"])) == ("0.25", "zh")


def test_what_is_missing_is_asked_for_with_all_ways_to_give_it(place):
    data = data_of(place, llamafactory_env_path=str(place.env))
    names = ["train_input_dataset_path", "train_input_model_name", "train_input_task_description"]
    assert data["missing_fields"] == data["user_required_fields"] == names
    assert (data["ready"], data["next_command"]) == (False, "")
    hint = data["field_hints"]["train_input_model_name"]
    assert (hint["flag"], hint["environment"]) == ("--model", ["TRAIN_MODEL_PATH"])
    assert hint["state"] == 'state["trainer"]["train_input_model_name"]'
    assert {"train_framework", "train_stage", "CUDA_VISIBLE_DEVICES"} <= set(data["auto_filled_fields"])
    assert data["defaults"]["train_input_config_template_path"] == "qwen_full_sft"


@pytest.mark.parametrize(
    ("name", "value", "code", "said"),
    [
        ("train_input_dataset_path", "none.jsonl", "FILE_NOT_FOUND", "none.jsonl"),
        ("train_input_eval_dataset_path", "none.jsonl", "FILE_NOT_FOUND", "none.jsonl"),
        ("train_input_model_name", "none", "MODEL_NOT_FOUND", "none"),
        ("train_input_model_name", "Qwen/Qwen2.5-7B", "MODEL_IS_HUB_ID", "download"),
        ("train_input_config_template_path", "none", "NOT_FOUND", "none"),
        ("llamafactory_env_path", "/nowhere", "BACKEND_MISSING", "/nowhere"),
    ],
)
def test_what_cannot_be_used_here_is_asked_for_too(place, given, name, value, code, said):
    data = data_of(place, **{**given, name: value})
    assert (data["ready"], data["missing_fields"], data["user_required_fields"]) == (False, [], [name])
    (problem,) = data["problems"]
    assert (problem["field"], problem["code"]) == (name, code)
    assert said in problem["message"]
    assert problem["hint"]


def test_an_environment_that_nobody_named_and_nobody_made_is_asked_for(place, given):
    del given["llamafactory_env_path"]
    data = data_of(place, **given)
    assert data["user_required_fields"] == ["llamafactory_env_path"]
    assert "trainer setup llamafactory" in data["problems"][0]["hint"]


def test_the_task_type_chooses_the_backend_unless_a_stage_is_named(place):
    assert data_of(place)["train_stage"] == "sft"
    grpo = data_of(place, "grpo")
    assert (grpo["task_type"], grpo["train_framework"], grpo["train_stage"]) == ("grpo", "verl", "grpo")
    filled = {
        "verl_reward_mode",
        "verl_data_adapter",
        "verl_validation_ratio",
        "verl_split_seed",
        "verl_multi_round_enabled",
    }
    assert filled <= set(grpo["auto_filled_fields"])
    assert "--stage grpo" in grpo["examples"][0]
    assert data_of(place, "grpo", train_stage="sft")["train_stage"] == "sft"


def test_two_languages_of_flag_variable_and_state(place):
    english, chinese = data_of(place), data_of(place, language="zh")
    name = "train_input_model_name"
    assert (english["language"], chinese["language"]) == ("en", "zh")
    assert english["message"].startswith("Still needed: train_input_dataset_path")
    assert chinese["message"].startswith("还需要：train_input_dataset_path")
    assert english["field_hints"][name]["help"] != chinese["field_hints"][name]["help"]
    assert english["user_required_fields"] == chinese["user_required_fields"]
    assert prefill(Request({}, {**place.environ, "LOOPAI_TRAINER_LANGUAGE": "zh"}))["language"] == "zh"
    assert prefill(Request({}, place.environ, state={"language": "zh"}))["language"] == "zh"


def test_a_state_cannot_be_typed_again(place, given):
    data = prefill(Request({}, place.environ, state={"trainer": given}))
    assert (data["ready"], data["next_command"]) == (True, "")
    assert data["settings"]["train_input_model_name"]["origin"] == "state.trainer.train_input_model_name"


def test_placeholders_count_as_missing_and_unknown_keys_are_warned_of(place):
    state = {"trainer": {"train_input_model_name": "/path/to/model", "bad_row": "skip"}}
    data = prefill(Request({}, place.environ, state=state))
    assert "train_input_model_name" in data["missing_fields"]
    assert [warning["field"] for warning in data["warnings"]] == ["bad_row"]


def test_settings_that_cannot_be_resolved_keep_the_shape(place):
    with pytest.raises(SettingsError) as caught:
        prefill(Request({}, place.environ, state=["x"]))
    told, whole = refused(caught.value, "sft"), data_of(place)
    assert (told["ready"], told["error"]["code"], told["task_type"]) == (False, "SETTINGS_INVALID", "sft")
    assert whole.keys() - {"task_id", "train_framework", "train_stage", "language"} <= told.keys()
    json.dumps(told)


def test_a_pair_without_an_example_of_its_own_gets_one_of_what_is_required(place):
    (example,) = data_of(place, train_framework="agentlightning", train_stage="dev")["examples"]
    words = shlex.split(example)
    assert words[:6] == ["trainer", "prepare", "--framework", "agentlightning", "--stage", "dev"]
    assert words[6:8] == ["--dataset", "VALUE"]


def test_a_task_of_loopais_store_is_shown_with_its_origins(place, given):
    store = LoopAI(place.root / "loopai.sqlite")
    store.add_task(
        "demo", {"trainer": {"train_input_model_name": str(place.model), "train_input_dataset_path": "/path/to/x"}}
    )
    named = {"task_id": "demo", "db_path": str(store.path), "llamafactory_env_path": str(place.env)}
    data = data_of(place, **named)
    origin = "task store trainer.train_input_model_name"
    assert data["settings"]["train_input_model_name"] == {"value": str(place.model), "origin": origin}
    assert data["missing_fields"] == ["train_input_dataset_path", "train_input_task_description"]
    rest = {name: given[name] for name in data["missing_fields"]}
    told = shlex.split(data_of(place, **named, **rest)["next_command"])
    assert told[told.index("--task-id") + 1] == "demo"
    assert told[told.index("--db-path") + 1] == str(store.path)
    assert "--model" not in told
