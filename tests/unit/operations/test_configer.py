"""The functions of LoopAI's Configer that spec/001 names, with its wrappers and its envelope."""

import pytest
from fakes.loopai import LoopAI

import loopai_trainer
from loopai_trainer.rules.wrapped import wrap


@pytest.fixture
def database(tmp_path, monkeypatch):
    made = LoopAI(tmp_path / "loopai.sqlite")
    made.add_task("demo", {"task_id": "demo", "trainer": {"train_stage": "sft", "verl_reward_kwargs": {"value": 3}}})
    monkeypatch.setenv("DB_PATH", str(made.path))
    monkeypatch.delenv("TASK_ID", raising=False)
    monkeypatch.delenv("task_id", raising=False)
    return made


def get(*words, **more):
    return loopai_trainer.get_configer_task_state_config(*words, **more)


def update(*words, **more):
    return loopai_trainer.update_configer_task_state_config(*words, **more)


def test_a_section_is_read_in_wrappers(database):
    answer = get("trainer", task_id="demo")
    assert {"ok", "status", "message", "data", "error"} <= set(answer)
    assert (answer["ok"], answer["error"]) == (True, None)
    data = answer["data"]
    assert (data["scope"], data["task_id"], data["section_name"], data["field_name"]) == (
        "task",
        "demo",
        "trainer",
        None,
    )
    assert data["config"] == {"train_stage": wrap("sft"), "verl_reward_kwargs": wrap({"value": 3})}
    assert get("trainer", "train_stage", "demo")["data"]["config"] == wrap("sft")
    assert get("analyzer", task_id="demo")["data"]["config"] == {}


@pytest.mark.parametrize("name", ["TASK_ID", "task_id"])
def test_the_task_is_that_of_the_environment_if_none_is_named(database, monkeypatch, name):
    monkeypatch.setenv(name, "demo")
    assert get("trainer")["data"]["task_id"] == "demo"
    assert update("trainer", {"a": 1})["data"]["task_id"] == "demo"


def test_an_update_takes_values_wrappers_and_json(database):
    answer = update("trainer", {"update_model_path": {"value": "/best", "type": "str"}, "unknown_to_all": [1]}, "demo")
    assert answer["ok"] is True
    assert answer["data"]["left_out"] == []
    assert answer["data"]["config"]["update_model_path"] == wrap("/best")
    assert database.trainer("demo") == {
        "train_stage": "sft", "verl_reward_kwargs": {"value": 3}, "update_model_path": "/best", "unknown_to_all": [1],
    }  # fmt: skip
    assert update("trainer", '{"train_stage": "grpo"}', "demo")["ok"] is True
    assert database.trainer("demo")["train_stage"] == "grpo"
    assert update("trainer", {"bad": object(), "good": 1}, "demo")["data"]["left_out"][0].startswith("bad:")
    assert database.trainer("demo")["good"] == 1
    assert update("default", {"language": "en"}, "demo")["ok"] is True
    assert database.state("demo")["language"] == "en"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: get("trainer"), "TASK_NOT_NAMED"),
        (lambda: get("trainer", task_id="nobody"), "TASK_UNKNOWN"),
        (lambda: get("trainer", "no_such_field", "demo"), "NOT_FOUND"),
        (lambda: update("system", {"api_key": "x"}, "demo"), "USAGE"),
        (lambda: update("default", {"task_id": "x"}, "demo"), "USAGE"),
        (lambda: update("trainer", "{", "demo"), "USAGE"),
        (lambda: update("trainer", "[1]", "demo"), "USAGE"),
        (lambda: update("trainer", {"a": 1}), "TASK_NOT_NAMED"),
    ],
)
def test_what_cannot_be_done_comes_back_in_the_common_shape(database, call, code):
    before = database.state("demo")
    answer = call()
    assert (answer["ok"], answer["status"], answer["data"]) == (False, "failed", None)
    assert answer["error"]["code"] == code
    assert database.state("demo") == before


def test_without_a_database_it_says_what_to_set(database, monkeypatch, tmp_path):
    monkeypatch.delenv("DB_PATH")
    assert get("trainer", task_id="demo")["error"]["code"] == "TASK_STORE_NOT_NAMED"
    monkeypatch.setenv("DB_PATH", str(tmp_path / "none"))
    assert update("trainer", {"a": 1}, "demo")["error"]["code"] == "TASK_STORE_MISSING"
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("section", "said"), [("", "is no name"), (5, "has to be text"), ("task_id", "is no section")])
def test_no_value_of_the_state_gives_way_to_a_section(database, section, said):
    before = database.state("demo")
    answer = update(section, {"a": 1}, "demo")
    assert (answer["ok"], said in answer["message"]) == (False, True)
    assert database.state("demo") == before
