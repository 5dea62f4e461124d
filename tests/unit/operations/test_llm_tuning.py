"""`--config-mode llm`: what goes out, what comes into the plan, and what happens when the answer is no good."""

import json

import pytest
import yaml
from fakes.chat_endpoint import drips, hangs_up, never, says, sends, serving

from loopai_trainer.errors import SettingsError
from loopai_trainer.host import chat_endpoint

KEY = "test-key-0123456789abcdef"
MATHS = "训练一个数学模型"
GOOD = '{"learning_rate": 3e-5, "batch_size": 4}'


@pytest.fixture
def asking(place):
    """`asking(reply, ...)` prepares with that endpoint; returns (answer, what was asked)."""

    def call(reply, overrides=(), **settings):
        place.environ["OPENAI_API_KEY"] = KEY
        named = {"config_mode": "llm", "config_llm_model": "some-model", "train_input_task_description": MATHS}
        with serving(reply) as served:
            answer = place.prepare(overrides, config_llm_base_url=served.base_url, **{**named, **settings})
            return answer, served.asked

    return call


def written(place):
    return json.loads((place.run / "plan.json").read_text())


def test_a_good_answer_stands_in_the_yaml_and_everywhere_it_is_said_whose_it_is(place, asking):
    answer, (asked,) = asking(says(GOOD))
    plan = yaml.safe_load(answer.data["config_yaml"])
    assert float(plan["learning_rate"]) == 3e-5
    assert plan["per_device_train_batch_size"] == 4
    base_url = f"http://{asked.headers['host']}/v1"
    assert plan["loopai"]["tuning"] == {
        "by": "llm",
        "model": "some-model",
        "base_url": base_url,
        "changed": {
            "learning_rate": {"from": 1e-4, "to": 3e-5},
            "per_device_train_batch_size": {"from": 2, "to": 4},
        },
    }
    (warning,) = [one for one in answer.data["warnings"] if one["code"] == "TUNED_BY_LLM"]
    assert "learning_rate 0.0001 -> 3e-05" in warning["message"]
    explanation = (place.run / "config_explanation.txt").read_text()
    assert f"learning_rate: 0.0001 -> 3e-05 (the language model some-model at {base_url} proposes it)" in explanation
    assert '"per_device_train_batch_size": 4' in explanation
    noted = written(place)
    assert noted["language_model"] == {"model": "some-model", "base_url": base_url, "answer": GOOD, "not_used": None}
    assert noted["settings"]["config_llm_base_url"] == {"value": base_url, "origin": "--option config_llm_base_url"}


def test_inspect_takes_the_block_and_refuses_an_edit_of_it(place, asking):
    from loopai_trainer.errors import ConfigError
    from loopai_trainer.operations.inspect import inspect

    answer, _ = asking(says(GOOD))
    assert inspect(answer.data["config_path"], place.environ).ok
    path = place.run / "training_config.yaml"
    path.write_text(path.read_text().replace("model: some-model", "model: another"))
    with pytest.raises(ConfigError) as error:
        inspect(str(path), place.environ)
    assert [problem.code for problem in error.value.problems] == ["RESERVED_BLOCK"]


def test_the_request_holds_no_row_no_path_and_no_secret_but_the_key(place, asking):
    place.environ["HF_TOKEN"] = "secret-value-0123456789"
    _, (asked,) = asking(says("{}"))
    assert set(asked.body) == {"model", "messages"}
    content = json.loads(asked.body["messages"][1]["content"])
    assert content["task"] == MATHS
    assert set(content["present"]) == {
        "learning_rate", "num_train_epochs", "per_device_train_batch_size", "gradient_accumulation_steps",
    }  # fmt: skip
    rest = asked.text.replace(KEY, "", 1)
    assert not any(one in rest for one in ("question 1", "answer 1", str(place.root), "secret-value", KEY))


def test_the_key_is_written_nowhere(place, asking):
    for reply in (says(GOOD), says(f"the key is {KEY}"), sends(KEY.encode(), 401)):
        answer, _ = asking(reply)
        assert KEY not in json.dumps(answer.envelope())
        for path in place.run.rglob("*"):
            assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (says("I would choose a low learning rate."), "it is not JSON"),
        (says('{"learning_rate": 0.5}'), "its learning_rate is 0.5, and has to be"),
        (says('{"learning_rate": 3e-5, "lora_r": 8}'), "'lora_r', which was not on offer"),
        (sends(b"garbage"), "its answer is no chat completion"),
        (sends(b"", 503), "HTTP status 503"),
        (hangs_up, "could not be reached"),
        (never, "did not answer within 0.4 s"),
        (drips, "did not answer within 0.4 s"),
    ],
)
def test_anything_else_falls_to_the_rules_and_says_so(place, asking, reply, said):
    answer, _ = asking(reply, config_llm_timeout_s=0.4 if reply in (never, drips) else 60)
    plan = yaml.safe_load(answer.data["config_yaml"])
    assert float(plan["learning_rate"]) == 1e-5  # what the rules make of 数学
    assert "tuning" not in plan["loopai"]
    (warning,) = [one for one in answer.data["warnings"] if one["code"] == "LLM_NOT_USED"]
    assert said in warning["message"]
    assert "the keyword rules apply instead" in warning["message"]
    explanation = (place.run / "config_explanation.txt").read_text()
    assert said in explanation
    assert "learning_rate: 0.0001 -> 1e-05 (the task description says '数学')" in explanation
    assert said in written(place)["language_model"]["not_used"]


def test_what_set_says_is_neither_asked_nor_changed(asking):
    answer, (asked,) = asking(says('{"batch_size": 8}'), ["learning_rate=2e-4"])
    plan = yaml.safe_load(answer.data["config_yaml"])
    assert (float(plan["learning_rate"]), plan["per_device_train_batch_size"]) == (2e-4, 8)
    assert list(plan["loopai"]["tuning"]["changed"]) == ["per_device_train_batch_size"]
    assert "learning_rate" not in asked.text


def test_an_answer_that_changes_nothing_warns_of_nothing(place, asking):
    answer, _ = asking(says('{"learning_rate": 1e-4}'))
    assert [one for one in answer.data["warnings"] if "LLM" in one["code"]] == []
    assert "has changed: nothing" in (place.run / "config_explanation.txt").read_text()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"config_llm_model": None}, "needs config_llm_model"),
        ({"config_llm_base_url": None}, "needs config_llm_base_url"),
        ({"config_llm_base_url": "127.0.0.1:8000"}, "no address of an endpoint"),
        ({"config_llm_base_url": "file:///etc/passwd"}, "no address of an endpoint"),
        ({"config_llm_base_url": "http://user@host/v1"}, "no address of an endpoint"),
        ({"config_llm_base_url": "http://host:port/v1"}, "no address of an endpoint"),
        ({"config_llm_key_env": "NOT_SET_ANYWHERE"}, "names the variable NOT_SET_ANYWHERE, which is not set"),
        ({"config_llm_timeout_s": 0}, "has to be above 0"),
        ({"config_llm_timeout_s": float("nan")}, "has to be above 0"),
    ],
)
def test_an_endpoint_that_is_none_is_refused(place, settings, said):
    named = {"config_mode": "llm", "config_llm_model": "m", "config_llm_base_url": "http://127.0.0.1:9/v1"}
    with pytest.raises(SettingsError, match=said):
        place.prepare(**{**named, **settings})


def test_a_key_that_is_none_is_refused(place):
    place.environ["OPENAI_API_KEY"] = "two\nlines"
    with pytest.raises(SettingsError, match="holds no key"):
        place.prepare(config_mode="llm", config_llm_model="m", config_llm_base_url="http://127.0.0.1:9/v1")


def test_all_that_is_missing_is_told_at_once(place):
    with pytest.raises(SettingsError, match="needs config_llm_model and config_llm_base_url, which are missing"):
        place.prepare(config_mode="llm")


@pytest.mark.parametrize(
    ("base_url", "key", "warned"),
    [
        ("http://10.0.0.5:8000/v1", KEY, True),
        ("http://10.0.0.5:8000/v1", "", False),
        ("https://10.0.0.5:8000/v1", KEY, False),
        ("http://127.0.0.1:8000/v1", KEY, False),
        ("http://localhost:8000/v1", KEY, False),
        ("http://[::1]:8000/v1", KEY, False),
    ],
)
def test_a_key_in_clear_is_told(place, monkeypatch, base_url, key, warned):
    monkeypatch.setattr(chat_endpoint, "ask", lambda endpoint, messages: "{}")
    place.environ["OPENAI_API_KEY"] = key
    answer = place.prepare(config_mode="llm", config_llm_model="m", config_llm_base_url=base_url)
    assert ("LLM_KEY_IN_CLEAR" in [one["code"] for one in answer.data["warnings"]]) is warned


def test_no_key_at_all_is_fine(place, asking, monkeypatch):
    monkeypatch.setattr(place, "environ", {**place.environ})
    with serving(says("{}")) as served:
        place.prepare(config_mode="llm", config_llm_model="m", config_llm_base_url=served.base_url)
        assert served.asked[0].headers["authorization"] == "Bearer none"


def test_rules_that_disagree_are_an_approvers_business(place):
    answer = place.prepare(train_input_task_description="简单的数学")
    (warning,) = [one for one in answer.data["warnings"] if one["code"] == "KEYWORDS_DISAGREE"]
    assert "'数学' ranks before that of '简单': learning_rate 1e-05 (not 5e-05)" in warning["message"]
