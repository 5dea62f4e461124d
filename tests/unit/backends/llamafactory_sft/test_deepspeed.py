"""Values that stand in the DeepSpeed JSON and in the YAML have to agree."""

import json

import pytest
from fakes.sft_plans import input_file, make_plan

from loopai_trainer.backends.llamafactory_sft import schedule
from loopai_trainer.backends.llamafactory_sft.deepspeed import deepspeed_config, deepspeed_problems, zero_stage

ZERO3 = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
BATCHES = ("train_micro_batch_size_per_gpu", "train_batch_size", "gradient_accumulation_steps")


def found(run, config, launch=None, **native):
    plan = make_plan(run, template={"deepspeed": {"zero_optimization": ZERO3, **config}, **native}, launch=launch)
    return list(deepspeed_problems(plan.native, schedule.of_plan(plan)))


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def test_auto_and_what_agrees_is_accepted(run):
    assert found(run, {}) == []
    assert found(run, dict.fromkeys(BATCHES, "auto")) == []
    same = {"train_micro_batch_size_per_gpu": 2, "train_batch_size": 8, "gradient_accumulation_steps": 4}
    assert found(run, {**same, "gradient_clipping": 1.0, "bf16": {"enabled": False}}) == []
    assert found(run, {"train_batch_size": 16}, launch={"devices": "0,1", "nproc_per_node": 2}) == []


@pytest.mark.parametrize(
    ("config", "field", "said"),
    [
        ({"train_micro_batch_size_per_gpu": 8}, "per_device_train_batch_size", "per_device_train_batch_size 2"),
        ({"gradient_accumulation_steps": 1}, "gradient_accumulation_steps", "gradient_accumulation_steps 4"),
        ({"train_batch_size": 64}, "per_device_train_batch_size", "x the number of processes 8"),
        ({"gradient_clipping": 0.5}, "max_grad_norm", "max_grad_norm 1.0"),
        ({"optimizer": {"params": {"lr": 1e-3}}}, "learning_rate", "learning_rate 5e-05"),
        ({"optimizer": {"params": {"betas": [0.8, 0.999]}}}, "adam_beta1", "adam_beta1 and adam_beta2 [0.9, 0.999]"),
        ({"optimizer": {"params": {"eps": 1e-6}}}, "adam_epsilon", "adam_epsilon 1e-08"),
        ({"optimizer": {"params": {"weight_decay": 0.1}}}, "weight_decay", "weight_decay 0.0"),
        ({"scheduler": {"params": {"warmup_max_lr": 1.0}}}, "learning_rate", "learning_rate 5e-05"),
        ({"bf16": {"enabled": True}}, "bf16", "bf16 false"),
        ({"fp16": {"enabled": True}}, "fp16", "fp16 false"),
    ],
)
def test_a_value_that_differs_is_refused(run, config, field, said):
    (problem,) = found(run, config)
    assert (problem.severity, problem.code, problem.field) == ("error", "DEEPSPEED_MISMATCH", field)
    assert problem.message.endswith(said)
    assert '"auto"' in problem.hint


def test_batches_that_are_found_by_trying_are_not_compared(run):
    assert found(run, {"train_batch_size": 64}, auto_find_batch_size=True) == []


def test_zero3_has_to_save_weights(run):
    (problem,) = found(run, {"zero_optimization": {"stage": 3}})
    assert problem.code == "ZERO3_NO_WEIGHTS"
    assert found(run, {"zero_optimization": {"stage": 2}}) == []


def test_the_configuration_is_read_from_the_yaml_or_its_file(tmp_path):
    file = input_file(tmp_path / "ds.json", json.dumps({"zero_optimization": ZERO3}).encode())
    assert zero_stage(deepspeed_config({"deepspeed": file.path})) == 3
    assert zero_stage(deepspeed_config({"deepspeed": {"zero_optimization": "no"}})) is None
    assert deepspeed_config({}) == deepspeed_config({"deepspeed": str(tmp_path / "gone.json")}) == {}
    broken = input_file(tmp_path / "broken.json", b"[1")
    assert deepspeed_config({"deepspeed": broken.path}) == {}
