import pytest
from fakes.sft_plans import make_plan

from loopai_trainer.backends.llamafactory_sft.view import red_flags, summary


def test_the_summary_holds_what_an_approver_has_to_see(tmp_path):
    template = {"finetuning_type": "lora", "lora_rank": 16, "use_rslora": True, "bf16": True, "learning_rate": 1.0e-4}
    shown = summary(make_plan(tmp_path / "run", template, launch={"devices": "0,1", "nproc_per_node": 2}))
    assert shown["train_data"].endswith("train.parquet") and shown["validation_data"].endswith("validation.parquet")
    assert (shown["train_rows"], shown["validation_rows"]) == (90, 10)
    assert shown["learning_rate"] == 1.0e-4
    assert (shown["per_device_batch"], shown["gradient_accumulation"], shown["world_size"]) == (2, 4, 2)
    assert shown["effective_batch"] == 16
    assert (shown["steps_per_epoch"], shown["total_steps"], shown["epochs"]) == (6, 40, 6.667)
    lora = [(key, shown[key]) for key in ("lora_rank", "lora_alpha", "lora_dropout", "lora_target", "use_rslora")]
    assert lora == [
        ("lora_rank", 16), ("lora_alpha", 32), ("lora_dropout", 0.0), ("lora_target", "all"), ("use_rslora", True),
    ]  # fmt: skip
    assert (shown["precision"], shown["devices"], shown["save_total_limit"]) == ("bf16", "0,1", 2)
    assert shown["output_dir"] == str(tmp_path / "run" / "checkpoints")
    assert shown["environment"] == "llamafactory 0.9.5 (/env/bin/python)"


def test_full_training_on_a_cpu_without_validation(tmp_path):
    shown = summary(make_plan(tmp_path / "run", {"use_cpu": True}, validation_rows=0))
    assert "lora_rank" not in shown and "validation_data" not in shown
    assert (shown["devices"], shown["precision"], shown["evaluation"]) == ("cpu", "float32", "no")


def test_max_samples_shows_the_rows_that_are_used(tmp_path):
    assert summary(make_plan(tmp_path / "run", {"max_samples": 5}))["train_rows"] == 5


def test_a_sound_plan_raises_no_flag(tmp_path):
    assert red_flags(make_plan(tmp_path / "run")) == []


@pytest.mark.parametrize(
    "key",
    ["trust_remote_code", "overwrite_output_dir", "push_to_hub", "max_samples", "tokenized_path", "streaming",
     "resume_from_checkpoint", "report_to", "packing", "neat_packing"],
)  # fmt: skip
def test_red_flags(tmp_path, key):
    value = {"max_samples": 10, "tokenized_path": "/t", "resume_from_checkpoint": "/c", "report_to": "wandb"}.get(
        key, True
    )
    (flag,) = red_flags(make_plan(tmp_path / "run", {key: value}))
    assert (flag.severity, flag.code, flag.field) == ("warning", "RED_FLAG", key)


@pytest.mark.parametrize(
    ("native", "env", "flags"),
    [
        ({"report_to": ["wandb"]}, {"WANDB_MODE": "offline"}, ["loopai.launch.env"]),
        ({"report_to": ["tensorboard", "trackio"]}, {}, []),
        ({"use_swanlab": True}, {}, ["report_to"]),
        ({"use_swanlab": True, "swanlab_mode": "local"}, {}, []),
    ],
)
def test_only_what_leaves_this_machine_is_a_flag(tmp_path, native, env, flags):
    plan = make_plan(tmp_path / "run", native=native, launch={"env": env})
    assert [flag.field for flag in red_flags(plan)] == flags
    assert summary(plan)["report_to"]


def test_variables_for_training_are_flags(tmp_path):
    flags = red_flags(make_plan(tmp_path / "run", launch={"env": {"NCCL_DEBUG": "INFO"}, "pass_env": ["HF_TOKEN"]}))
    assert [flag.field for flag in flags] == ["loopai.launch.env", "loopai.launch.pass_env"]
