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


def test_thread_id_names_the_task_only_if_nothing_else_does(starter):
    assert resolve(Request({}, {}, thread_id="thread")).settings.text("task_id") == "thread"
    assert resolve(Request({}, {}, config_path=starter, thread_id="thread")).settings.text("task_id") == "starter-task"
    assert resolve(Request({}, {"TASK_ID": "env"}, thread_id="thread")).settings.text("task_id") == "env"


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
    assert data["user_required_fields"] == data["missing_fields"]
    assert "train_input_model_name" in data["missing_fields"]
    assert "train_input_dataset_path" not in data["missing_fields"]
    assert {"train_framework", "CUDA_VISIBLE_DEVICES"} & set(data["auto_filled_fields"])
    full = dict.fromkeys(data["missing_fields"], "x")
    assert guide(Request(full, {}, config_path=starter)).data["ready"] is True
