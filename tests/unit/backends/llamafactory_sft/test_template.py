from pathlib import Path

import pytest
from fakes.llamafactory_env import make_environment, versions_of

from loopai_trainer.backends.llamafactory_sft.template import template_problems
from loopai_trainer.rules import yaml_text

CASES = Path(__file__).parents[3] / "cases" / "config"
GOOD = {"finetuning_type": "lora", "template": "qwen"}


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    return versions_of(make_environment(tmp_path_factory.mktemp("template") / "env"))


def judge(versions, text):
    document = yaml_text.load(text, "t.yaml")
    return template_problems(document.values, document.lines, versions)


def judge_values(versions, **values):
    return template_problems({**GOOD, **values}, dict.fromkeys(values, 7), versions)


def test_a_good_template_has_no_problems(versions):
    assert (
        judge_values(versions, learning_rate=1.0e-4, num_train_epochs=3, save_steps=100, lora_target=["a", "b"]) == []
    )


def test_cfg_01b_booleans_and_counts_as_text_or_floats(versions):
    problems = judge(versions, (CASES / "CFG-01B" / "train.yaml").read_text())
    assert [(p.field, p.line, p.code) for p in problems] == [
        ("gradient_accumulation_steps", 14, "WRONG_TYPE"),
        ("bf16", 17, "WRONG_TYPE"),
        ("max_steps", 18, "WRONG_TYPE"),
        ("save_total_limit", 19, "WRONG_TYPE"),
    ]
    assert [p.hint for p in problems] == [
        "write gradient_accumulation_steps: 4",
        "write bf16: false (without quotes)",
        "write max_steps: 200 (without quotes)",
        "write save_total_limit: 3 (without quotes)",
    ]


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("learning_rate", "1e-4", "write learning_rate: 0.0001 (without quotes)"),
        ("learning_rate", "1e-5", "write learning_rate: 1.0e-05 (without quotes)"),
        ("learning_rate", "abc", "correct the value"),
        ("learning_rate", True, "correct the value"),
        ("max_steps", True, "correct the value"),
        ("max_steps", 2.5, "correct the value"),
        ("max_steps", "2.5", "correct the value"),
        ("bf16", 1, "correct the value"),
        ("eval_strategy", False, "write eval_strategy: 'no' (with quotes)"),
        ("template", True, "quote the text"),
        ("dataset", 2024, "quote the text"),
        ("cutoff_len", "4k", "correct the value"),
        ("cutoff_len", None, "give it a value, or remove it"),
        ("report_to", {"a": 1}, "quote the text"),
    ],
)
def test_wrong_types_are_refused_with_the_line_and_what_to_write(versions, key, value, hint):
    (problem,) = judge_values(versions, **{key: value})
    assert (problem.code, problem.field, problem.line, problem.hint) == ("WRONG_TYPE", key, 7, hint)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("learning_rate", 1),
        ("deepspeed", {"a": 1}),
        ("resume_from_checkpoint", None),
        ("report_to", ["wandb"]),
        ("packing", None),
    ],
)
def test_what_the_annotations_allow_is_accepted(versions, key, value):
    assert judge_values(versions, **{key: value}) == []


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("learning_rte", "did you mean learning_rate?"),
        ("evaluation_strategy", "it is called eval_strategy now"),
        ("lora_r", "it is called lora_rank now"),
        ("per_gpu_train_batch_size", "it is called per_device_train_batch_size now"),
        ("train_micro_batch_size_per_gpu", "it is called per_device_train_batch_size now"),
        ("save_safetensors", "remove it: checkpoints are always safetensors now"),
        ("zzzzzz", "remove it"),
    ],
)
def test_unknown_keys_get_their_right_name(versions, key, hint):
    (problem,) = judge_values(versions, **{key: 1})
    assert (problem.code, problem.hint, problem.line) == ("UNKNOWN_KEY", hint, 7)


def test_a_value_outside_its_choices_gets_the_nearest(versions):
    (problem,) = judge_values(versions, lr_scheduler_type="cosin")
    assert (problem.code, problem.hint) == ("WRONG_VALUE", "did you mean cosine?")
    (problem,) = judge_values(versions, flash_attn="zzz")
    assert problem.hint == "use one of the allowed values"


def test_missing_keys_that_would_change_the_training_are_named(versions):
    problems = template_problems({"stage": "sft"}, {}, versions)
    assert [(p.code, p.field) for p in problems] == [("KEY_MISSING", "finetuning_type"), ("KEY_MISSING", "template")]


def test_another_stage_is_refused(versions):
    (problem,) = judge_values(versions, stage="dpo")
    assert problem.code == "STAGE_MISMATCH"
    (problem,) = judge_values(versions, stage="sfT")
    assert (problem.code, problem.hint) == ("WRONG_VALUE", "did you mean sft?")


def test_the_reserved_blocks_of_a_final_yaml_are_not_keys(versions):
    assert judge_values(versions, loopai={"format": 1}, result={}) == []


def test_problems_come_by_line(versions):
    problems = judge(versions, "template: qwen\nbf16: 'no'\nfinetuning_type: lora\nxx: 1\n")
    assert [p.line for p in problems] == [2, 4]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("learning_rate", float("nan")), ("learning_rate", float("inf")), ("learning_rate", 0.0), ("learning_rate", -1.0e-4),
        ("learning_rate", 2.0), ("num_train_epochs", 0), ("num_train_epochs", -1.0), ("max_steps", 0), ("max_steps", -2),
        ("per_device_train_batch_size", 0), ("per_device_eval_batch_size", 0), ("gradient_accumulation_steps", -1),
        ("save_steps", 0), ("eval_steps", -5), ("logging_steps", 0), ("save_steps", 2.5), ("cutoff_len", 15),
        ("warmup_ratio", 1.5), ("warmup_ratio", -0.1), ("seed", -1), ("seed", 2**32), ("max_samples", 0), ("lora_rank", 0),
        ("lora_dropout", 1.0), ("deepspeed", {"a": {"b": [float("inf")]}}),
    ],
)  # fmt: skip
def test_numbers_that_cannot_train_are_refused_with_their_line(versions, key, value):
    (problem,) = judge_values(versions, **{key: value})
    assert (problem.severity, problem.code, problem.field, problem.line) == ("error", "VALUE_OUT_OF_RANGE", key, 7)
    assert "nan" not in problem.hint and "inf " not in problem.hint


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_steps", -1), ("save_steps", 0.25), ("logging_steps", 1), ("warmup_ratio", 0), ("warmup_ratio", 1.0),
        ("seed", 0), ("seed", 2**32 - 1), ("cutoff_len", 16), ("num_train_epochs", 0.5), ("warmup_steps", 100),
    ],
)  # fmt: skip
def test_numbers_at_the_edge_are_taken(versions, key, value):
    assert judge_values(versions, **{key: value}) == []


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", ".nan", ".inf"])
def test_no_hint_tells_to_write_what_is_no_number(versions, text):
    (problem,) = judge(versions, f"finetuning_type: lora\ntemplate: qwen\nlearning_rate: {text}\n")
    expected = ("learning_rate", 3, "write a finite number, such as 1.0e-05")
    assert (problem.field, problem.line, problem.hint) == expected


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"metric_for_best_model": "rouge-l"}, "metric_for_best_model"),
        ({"metric_for_best_model": "eval_loss", "greater_is_better": True}, "greater_is_better"),
    ],
)
def test_a_best_model_by_what_is_not_reported_is_refused(versions, values, field):
    (problem,) = judge_values(versions, **values)
    assert (problem.code, problem.field) == ("WRONG_VALUE", field)
    assert judge_values(versions, metric_for_best_model="eval_loss", greater_is_better=False) == []
