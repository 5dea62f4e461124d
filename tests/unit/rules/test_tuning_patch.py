"""What a language model is asked, and which of its answers count."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.rules.tuning_patch import AnswerRefused, offered, question, read_answer

FULL = {"finetuning_type": "full", "learning_rate": 1e-4, "num_train_epochs": 3.0, "per_device_train_batch_size": 2}
LORA = {"finetuning_type": "lora", "learning_rate": 1e-4, "lora_rank": 8, "max_steps": 10}
GENERAL = ["learning_rate", "num_train_epochs", "per_device_train_batch_size", "gradient_accumulation_steps"]
OF_LORA = ["lora_rank", "lora_alpha", "lora_dropout", "lora_target"]


def test_what_is_on_offer():
    assert offered(FULL) == GENERAL
    assert offered({}) == GENERAL + OF_LORA  # LLaMA-Factory trains LoRA where nothing is said
    assert offered(LORA) == ["learning_rate", *GENERAL[2:], *OF_LORA]
    assert offered(FULL, {"learning_rate"}) == GENERAL[1:]


def test_the_question_holds_nothing_but_the_task_and_values_on_offer():
    template = {**FULL, "dataset_dir": "/secret/place", "hub_token": "hf_x", "learning_rate": "${oc.env:HOME}"}
    system, user = question(template, "训练一个数学模型", {"num_train_epochs"})
    assert json.loads(user["content"]) == {"task": "训练一个数学模型", "present": {"per_device_train_batch_size": 2}}
    assert "learning_rate: a number from 1e-06 to 0.001" in system["content"]
    assert "num_train_epochs" not in system["content"]
    sent = system["content"] + user["content"]
    assert not any(one in sent for one in ("/secret", "hf_x", "oc.env", "lora"))
    assert (system["role"], user["role"]) == ("system", "user")


def test_a_novel_is_not_sent():
    assert len(question(FULL, "x" * 100_000)[1]["content"]) < 5_000


@pytest.mark.parametrize(
    ("text", "template", "expected"),
    [
        ("{}", FULL, {}),
        ('{"learning_rate": 1e-5}', FULL, {"learning_rate": 1e-5}),
        ('```json\n{"learning_rate": 1e-5}\n```', FULL, {"learning_rate": 1e-5}),
        ('```\n{"learning_rate": 1e-5}```', FULL, {"learning_rate": 1e-5}),
        ('<think>\n{"learning_rate": 1}\n</think>\n\n{"learning_rate": 2e-5}', FULL, {"learning_rate": 2e-5}),
        (
            '{"batch_size": 16, "num_train_epochs": 0.5}',
            FULL,
            {"per_device_train_batch_size": 16, "num_train_epochs": 0.5},
        ),
        ('{"lora_r": 64, "lora_alpha": 128}', LORA, {"lora_rank": 64, "lora_alpha": 128}),
        ('{"lora_target": "all", "lora_dropout": 0}', LORA, {"lora_target": "all", "lora_dropout": 0}),
        ('{"lora_target": "q_proj,v_proj"}', LORA, {"lora_target": "q_proj,v_proj"}),
    ],
)
def test_answers_that_count(text, template, expected):
    assert read_answer(text, template) == expected


@pytest.mark.parametrize(
    ("text", "template", "said"),
    [
        ("", FULL, "not JSON"),
        ("I would use 1e-5.", FULL, "not JSON"),
        ('Sure! {"learning_rate": 1e-5}', FULL, "not JSON"),
        ('{"learning_rate": 1e-5} {"learning_rate": 1e-4}', FULL, "not JSON"),
        ("[" * 100_000, FULL, "not JSON"),
        ("[1]", FULL, "no JSON object"),
        ('"x"', FULL, "no JSON object"),
        ('{"learning_rate": 0.01}', FULL, "learning_rate is 0.01, and has to be a number from 1e-06 to 0.001"),
        ('{"learning_rate": 9e-7}', FULL, "learning_rate is 9e-07"),
        ('{"learning_rate": 1e999}', FULL, "learning_rate is inf"),
        ('{"learning_rate": NaN}', FULL, "NaN"),
        ('{"learning_rate": "1e-5"}', FULL, "learning_rate is not a number"),
        ('{"learning_rate": true}', FULL, "learning_rate is not a number"),
        ('{"learning_rate": null}', FULL, "learning_rate is not a number"),
        ('{"batch_size": 17}', FULL, "per_device_train_batch_size is 17"),
        ('{"batch_size": 0}', FULL, "per_device_train_batch_size is 0"),
        ('{"batch_size": 4.0}', FULL, "per_device_train_batch_size is not a whole number from 1 to 16"),
        ('{"batch_size": true}', FULL, "not a whole number"),
        ('{"lora_r": 65}', LORA, "lora_rank is 65"),
        ('{"lora_target": "q_proj,q_proj"}', LORA, "lora_target is not"),
        ('{"lora_target": "q_proj,embed_tokens"}', LORA, "lora_target is not"),
        ('{"lora_target": ["q_proj"]}', LORA, "lora_target is not"),
        ('{"lora_target": ""}', LORA, "lora_target is not"),
        ('{"lora_rank": 8}', FULL, "'lora_rank', which was not on offer"),
        ('{"num_train_epochs": 1}', LORA, "'num_train_epochs', which was not on offer"),
        ('{"trust_remote_code": true}', FULL, "'trust_remote_code', which was not on offer"),
        ('{"loopai": {}}', FULL, "'loopai', which was not on offer"),
        ('{"' + "x" * 1000 + '": 1}', FULL, "xxx...', which was not on offer"),
        ('{"learning_rate": 1e-5, "learning_rate": 2e-5}', FULL, "sets a key twice"),
        ('{"batch_size": 1, "per_device_train_batch_size": 2}', FULL, "sets per_device_train_batch_size twice"),
    ],
)
def test_answers_that_do_not_count(text, template, said):
    with pytest.raises(AnswerRefused, match=r"^it") as refused:
        read_answer(text, template)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 250


def test_a_key_that_a_person_has_set_is_not_the_models_to_change():
    with pytest.raises(AnswerRefused, match="not on offer"):
        read_answer('{"learning_rate": 1e-5}', FULL, {"learning_rate"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*GENERAL, *OF_LORA, "batch_size", "lora_r", "other"]), JSON, max_size=4))
def test_whatever_comes_is_in_range_or_refused(patch):
    try:
        found = read_answer(json.dumps(patch), {})
    except AnswerRefused:
        return
    assert 1e-6 <= found.get("learning_rate", 1e-5) <= 1e-3
    assert 1 <= found.get("per_device_train_batch_size", 1) <= 16
    assert 1 <= found.get("lora_rank", 1) <= 64
    assert set(found) <= {*GENERAL, *OF_LORA}
    assert not any(isinstance(value, bool) for value in found.values())


@given(st.text(max_size=60))
def test_any_text_is_an_answer_or_refused(text):
    try:
        assert read_answer(text, FULL) == {}
    except AnswerRefused:
        pass
