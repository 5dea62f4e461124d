"""ConfigGenerator by itself, as spec/000 uses it."""

import json

import pytest
import yaml
from fakes.chat_endpoint import says, serving

from loopai_trainer import ConfigGenerator
from loopai_trainer.errors import ConfigError, NotFound, SettingsError, UsageError

KEY = "test-key-0123456789abcdef"
LOOPAIS = "loopai/agents/Trainer/templates/qwen2_5_coder_bird_full_sft.yaml"


def test_the_example_of_the_specification(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gen = ConfigGenerator()
    config = gen.generate_config(
        task_description="训练一个 SQL 代码生成模型，难度较高",
        dataset_path="/path/to/sql_train.json",
        model_name="/path/to/Qwen2.5-Coder-7B",
        output_dir="./output/sql_sft",
        template_path=LOOPAIS,
        use_swanlab=True,
        swanlab_project="sql_sft",
    )
    gen.save_config_as_yaml(config, "./output/sql_sft/training_config.yaml")
    folder = tmp_path / "output" / "sql_sft"
    written = yaml.safe_load((folder / "training_config.yaml").read_text())
    assert written == config
    assert (config["stage"], config["do_train"], config["finetuning_type"]) == ("sft", True, "full")
    assert (config["model_name_or_path"], config["output_dir"]) == ("/path/to/Qwen2.5-Coder-7B", "./output/sql_sft")
    assert (config["use_swanlab"], config["swanlab_project"]) == (True, "sql_sft")
    assert (config["dataset"], config["dataset_dir"]) == ("sql_train", str(folder))
    registry = json.loads((folder / "dataset_info.json").read_text())
    assert registry == {"sql_train": {"file_name": "/path/to/sql_train.json"}}
    assert "Changed on the way from the template:\n  nothing" in gen.explanation


def make(gen, tmp_path, data, **changed):
    arguments = {
        "task_description": "一个聊天助手",
        "dataset_path": str(data),
        "model_name": "m",
        "output_dir": str(tmp_path / "out"),
        "template_path": "qwen_lora_sft",
    }
    return gen.generate_config(**{**arguments, **changed})


def test_rules_by_default_and_what_they_changed(tmp_path):
    gen = ConfigGenerator()
    config = make(gen, tmp_path, tmp_path / "d.json")
    assert (config["learning_rate"], config["lora_rank"], config["lora_target"]) == (5e-5, 8, "q_proj,v_proj")
    assert "lora_r" not in config
    assert "use_swanlab" not in config
    assert "learning_rate: 0.0001 -> 5e-05 (the task description says '聊天')" in gen.explanation


def test_a_language_model_if_one_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    with serving(says('{"learning_rate": 2e-5}')) as served:
        by_name = ConfigGenerator("some-model", served.base_url, api_key_env="MY_KEY")
        assert make(by_name, tmp_path, tmp_path / "d.json")["learning_rate"] == 2e-5
        itself = ConfigGenerator(model_path="some-model", base_url=served.base_url, api_key=KEY)
        assert make(itself, tmp_path, tmp_path / "d.json")["learning_rate"] == 2e-5
        assert {asked.headers["authorization"] for asked in served.asked} == {f"Bearer {KEY}"}
    assert "some-model" in by_name.explanation
    assert KEY not in by_name.explanation + itself.explanation


def test_an_answer_that_does_not_count_falls_to_the_rules(tmp_path):
    with serving(says('{"learning_rate": 2}')) as served:
        gen = ConfigGenerator("some-model", served.base_url)
        assert make(gen, tmp_path, tmp_path / "d.json")["learning_rate"] == 5e-5
    assert "the keyword rules apply instead" in gen.explanation


def test_a_secret_in_the_description_goes_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", "value-of-a-secret-1")
    token = "hf_" + "a1" * 17
    with serving(says("{}")) as served:
        gen = ConfigGenerator("some-model", served.base_url)
        make(gen, tmp_path, tmp_path / "d.json", task_description=f"聊天 {token} value-of-a-secret-1")
        (asked,) = served.asked
    assert "聊天" in asked.body["messages"][1]["content"]
    assert token not in asked.text
    assert "value-of-a-secret-1" not in asked.text


def test_the_endpoints_own_key_is_a_secret_whatever_its_variable_is_called(tmp_path, monkeypatch):
    monkeypatch.setenv("MYVAR", "value-of-a-secret-2")
    with serving(says("{}")) as served:
        gen = ConfigGenerator("some-model", served.base_url, api_key_env="MYVAR")
        make(gen, tmp_path, tmp_path / "d.json", task_description="聊天 value-of-a-secret-2")
        (asked,) = served.asked
    assert "value-of-a-secret-2" not in json.dumps(asked.body)


def test_half_an_endpoint_is_refused():
    for arguments in ({"model_path": "m"}, {"base_url": "http://127.0.0.1/v1"}):
        with pytest.raises(SettingsError, match="together"):
            ConfigGenerator(**arguments)


def test_a_template_that_is_not_there(tmp_path):
    with pytest.raises(NotFound, match="no template"):
        make(ConfigGenerator(), tmp_path, tmp_path / "d.json", template_path="no/such.yaml")


def test_the_registry_says_what_the_rows_are_and_keeps_other_entries(tmp_path):
    data = tmp_path / "my data.jsonl"
    data.write_text('{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}\n')
    registry = tmp_path / "out" / "dataset_info.json"
    registry.parent.mkdir()
    registry.write_text('{"other": {"file_name": "x"}}')
    gen = ConfigGenerator()
    config = make(gen, tmp_path, data)
    gen.save_config_as_yaml(config, str(tmp_path / "c.yaml"))
    entry = {"file_name": str(data), "formatting": "sharegpt", "columns": {"messages": "conversations"}}
    assert json.loads(registry.read_text()) == {"other": {"file_name": "x"}, "my_data": entry}


def test_a_broken_registry_is_not_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "dataset_info.json").write_text("{")
    gen = ConfigGenerator()
    config = make(gen, tmp_path, tmp_path / "d.json")
    with pytest.raises(ConfigError, match="registry"):
        gen.save_config_as_yaml(config, str(tmp_path / "c.yaml"))
    assert (tmp_path / "out" / "dataset_info.json").read_text() == "{"
    assert not (tmp_path / "c.yaml").exists()


def test_a_configuration_of_ones_own_is_just_written(tmp_path):
    path = ConfigGenerator().save_config_as_yaml({"learning_rate": 1e-5}, str(tmp_path / "new" / "c.yaml"))
    assert yaml.safe_load((tmp_path / "new" / "c.yaml").read_text()) == {"learning_rate": 1e-5}
    assert path == str(tmp_path / "new" / "c.yaml")


def test_paths_may_be_path_objects(tmp_path):
    gen = ConfigGenerator()
    template = tmp_path / "t.yaml"
    template.write_text("template: qwen\n")
    config = make(gen, tmp_path, tmp_path / "d.json", model_name=tmp_path, output_dir=tmp_path, template_path=template)
    gen.save_config_as_yaml(config, tmp_path / "c.yaml")
    written = yaml.safe_load((tmp_path / "c.yaml").read_text())
    assert (written["model_name_or_path"], written["output_dir"]) == (str(tmp_path), str(tmp_path))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("use_swanlab", "no"),
        ("dataset_path", None),
        ("output_dir", None),
        ("task_description", 5),
        ("model_name", b"m"),
    ],
)
def test_an_argument_of_another_type_is_named(tmp_path, name, value):
    with pytest.raises(UsageError, match=f"^{name} is ") as refused:
        make(ConfigGenerator(), tmp_path, tmp_path / "d.jsonl", **{name: value})
    assert refused.value.code == "ARGUMENT_INVALID"
    assert not (tmp_path / "out").exists()


def test_so_is_one_of_the_other_calls(tmp_path):
    with pytest.raises(UsageError, match=r"^timeout_s is 'soon'"):
        ConfigGenerator(timeout_s="soon")
    with pytest.raises(UsageError, match=r"^config is \['x'\]"):
        ConfigGenerator().save_config_as_yaml(["x"], tmp_path / "c.yaml")
    assert list(tmp_path.iterdir()) == []
