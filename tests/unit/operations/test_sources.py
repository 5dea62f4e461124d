import json

import pytest

from loopai_trainer.errors import ConfigError, SettingsError, UsageError
from loopai_trainer.operations.guide import guide
from loopai_trainer.operations.sources import Request, named_options, resolve

STARTER = """
system:
  llamafactory_env_path: /env/from/system
  CUDA_VISIBLE_DEVICES: "3"
default_states:
  task_id: starter-task
  output_dir: ./from-starter
  trainer:
    train_input_dataset_path: /data/starter.jsonl
    CUDA_VISIBLE_DEVICES: "2"
"""


@pytest.fixture
def starter(tmp_path):
    path = tmp_path / "starter.yaml"
    path.write_text(STARTER)
    return str(path)


def test_starter_yaml_ranks_below_an_explicit_state(starter):
    state = {"task_id": "state-task", "trainer": {"CUDA_VISIBLE_DEVICES": "1"}, "system": {"output_dir": "sys"}}
    settings = resolve(Request({}, {}, config_path=starter, state=state)).settings
    assert settings.text("CUDA_VISIBLE_DEVICES") == "1"
    assert settings.text("task_id") == "state-task"
    assert settings.text("output_dir") == "sys"
    assert settings.text("llamafactory_env_path") == "/env/from/system"
    assert settings.text("train_input_dataset_path") == "/data/starter.jsonl"
    assert settings.origin("train_input_dataset_path").startswith(starter)
    assert resolve(Request({}, {}, config_path=starter)).settings.text("CUDA_VISIBLE_DEVICES") == "2"


def test_thread_id_names_the_task_unless_call_variable_or_state_does(starter):
    def task(keyword=(), environ=(), **sources):
        return resolve(Request(dict(keyword), dict(environ), thread_id="thread", **sources)).settings.text("task_id")

    assert task() == task(config_path=starter) == "thread"
    assert task(config_path=starter, state={"trainer": {"train_stage": "sft"}}) == "thread"
    assert task(config_path=starter, state={"task_id": "state-task"}) == "state-task"
    assert task(environ={"TASK_ID": "env"}) == "env"
    assert task(keyword={"task_id": "call"}, environ={"TASK_ID": "env"}) == "call"


@pytest.mark.parametrize("dump", [json.dumps, lambda value: f"trainer:\n  task_id: {value['trainer']['task_id']}\n"])
def test_a_state_file_is_json_or_yaml(tmp_path, dump):
    path = tmp_path / "state"
    path.write_text(dump({"trainer": {"task_id": "from-file"}}))
    assert resolve(Request({}, {}, state_path=str(path))).settings.text("task_id") == "from-file"


def test_an_invalid_starter_yaml_names_file_and_line(tmp_path):
    path = tmp_path / "starter.yaml"
    path.write_text('system:\n  a: 1\ndefault_states:\n  trainer:\n    llamafactory_dir: "/repos/LLaMA-Factory/\n')
    with pytest.raises(ConfigError) as caught:
        resolve(Request({}, {}, config_path=str(path)))
    assert f"{path}:" in caught.value.message
    assert caught.value.problems[0].line is not None


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\xff", "UTF-8"), (b'{"a": }', "JSON"), (b"trainer: 3\n", "not a mapping"), (b"- 1\n", "not a mapping")],
)
def test_bad_state_files_are_refused(tmp_path, content, said):
    path = tmp_path / "state"
    path.write_bytes(content)
    with pytest.raises((SettingsError, ConfigError), match=said):
        resolve(Request({}, {}, state_path=str(path)))
    with pytest.raises(SettingsError, match="no file"):
        resolve(Request({}, {}, state_path=str(tmp_path / "none")))


def test_the_stage_follows_the_framework_and_flags_reach_the_backends_own_names():
    found = resolve(Request({}, {}, backend_flags={"--env": "/env", "--backend-dir": "/repo"}))
    assert (found.settings.text("train_stage"), found.backend.name) == ("sft", "llamafactory")
    assert found.settings.text("llamafactory_env_path") == "/env"
    assert found.settings.origin("llamafactory_env_path") == "--env"
    assert found.settings.text("llamafactory_dir") == "/repo"


def test_options():
    assert named_options(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    for bad in ("a", "=1", ""):
        with pytest.raises(UsageError):
            named_options([bad])


def test_the_guide_says_what_is_missing_and_what_was_filled(starter):
    data = guide(Request({}, {}, config_path=starter)).data
    assert data["ready"] is False
    # What is set and cannot be used here is asked for, too.
    assert set(data["user_required_fields"]) - set(data["missing_fields"]) == {
        "train_input_dataset_path", "llamafactory_env_path",
    }  # fmt: skip
    assert "train_input_model_name" in data["missing_fields"]
    assert "train_input_dataset_path" not in data["missing_fields"]
    assert {"train_framework", "CUDA_VISIBLE_DEVICES"} & set(data["auto_filled_fields"])
    full = dict.fromkeys(data["missing_fields"], "x")
    assert guide(Request(full, {}, config_path=starter)).data["missing_fields"] == []


def warned(trainer, **more):
    return [(problem.field, problem.hint) for problem in resolve(Request({}, {}, state={"trainer": trainer})).warnings]


def test_a_key_that_nobody_reads_is_warned_of_with_what_may_be_meant():
    found = resolve(Request({}, {}, state={"trainer": {"bad_row": "skip", 7: 1, "task_id": "t"}})).warnings
    assert [(p.severity, p.code, p.field, p.origin) for p in found] == [
        ("warning", "SETTING_UNKNOWN", "bad_row", "state.trainer.bad_row"),
        ("warning", "SETTING_UNKNOWN", "7", "state.trainer.7"),
    ]
    assert found[0].hint == "did you mean bad_rows?"
    assert warned({"trainer_output_dri": "x"}) == [("trainer_output_dri", "did you mean trainer_output_dir?")]


def test_what_loopai_keeps_in_its_trainer_section_is_no_mistake():
    names = (
        "update_model_path", "trainer_task_id", "trainer_training_task_id", "trainer_version_uuid", "trainer_result",
        "trainer_last_error", "trainer_training_success", "trainer_best_checkpoint_path", "trainer_event_log_path",
        "trainer_data_check_passed", "trainer_config_generation_success", "trainer_training_final_status",
        "train_output_config_path", "train_output_swanlab_log_path", "training_checkpoints", "verl_reward_mode",
        "train_input_swanlab_project", "swanlab_api_key", "version_id", "model_path",
    )  # fmt: skip
    assert warned(dict.fromkeys(names, "x")) == []
    assert warned({"train_input_use_swanlab": True, "use_swanlab": True}) == []


def test_the_warning_names_the_starter_file(tmp_path):
    path = tmp_path / "starter.yaml"
    path.write_text("default_states:\n  trainer:\n    bad_row: skip\n")
    (found,) = resolve(Request({}, {}, config_path=str(path))).warnings
    assert str(path) in found.origin


@pytest.mark.parametrize("state", [{"trainer": ["x"]}, {"system": 3}, ["trainer"], {"task_id": {"a": 1}}])
def test_sections_and_settings_of_the_wrong_kind_are_refused(state):
    with pytest.raises(SettingsError):
        resolve(Request({}, {}, state=state))


def test_a_quote_that_is_not_closed_is_named_where_it_opens(tmp_path):
    """The starter.yaml that LoopAI ships: the parser stumbles over the next line only."""
    path = tmp_path / "starter.yaml"
    lines = [
        'system: {}  # "a comment',
        "default_states:",
        "  trainer:",
        '    train_framework: "llamafactory"',
        '    llamafactory_dir: "/repos/LLaMA-Factory/',
        '    train_input_dataset_path: ""',
    ]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ConfigError) as caught:
        resolve(Request({}, {}, config_path=str(path)))
    assert f"{path}:7" in caught.value.message
    assert "line 5" in caught.value.hint


def test_an_origin_is_where_the_value_stands(starter):
    settings = resolve(Request({}, {}, config_path=starter)).settings
    assert settings.origin("task_id") == f"{starter} default_states.task_id"
    assert settings.origin("llamafactory_env_path") == f"{starter} system.llamafactory_env_path"
    state = {"output_dir": "/top", "task_id": "top", "system": {"task_id": "inner"}}
    settings = resolve(Request({}, {}, state=state)).settings
    assert (settings.text("output_dir"), settings.origin("output_dir")) == ("/top", "state.output_dir")
    assert (settings.text("task_id"), settings.origin("task_id")) == ("inner", "state.system.task_id")
