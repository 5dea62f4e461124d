import pytest
from fakes.grpo_plans import make_data, make_plan, make_settings
from fakes.sft_plans import input_file

from loopai_trainer import backends

MODEL, ROLLOUT = "actor_rollout_ref.model", "actor_rollout_ref.rollout"


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def shown(run, **plan):
    return backends.get("verl", "grpo").summary(make_plan(run, **plan))


def flags(run, **plan):
    return [problem.field for problem in backends.get("verl", "grpo").red_flags(make_plan(run, **plan))]


def test_everything_that_the_specification_lists_is_shown(run):
    seen = shown(run)
    assert {
        "train_data": f"{run}/prepared_data/train.parquet", "train_rows": 64,
        "validation_data": f"{run}/prepared_data/validation.parquet", "validation_rows": 30,
        "model": f"{run.parent}/model", "reward_mode": "preset", "reward_preset": "gsm8k_exact",
        "rollout_backend": "vllm", "gpus": "2 (0,1)", "train_batch_size": 8, "replies_per_prompt": 2,
        "replies_per_step": 16, "mini_batch_size": 4, "micro_batch": "1 replies a GPU", "max_prompt_length": 512,
        "max_response_length": 256, "max_model_len": 768, "learning_rate": 1.0e-6, "kl": "in the loss: 0.001 low_var_kl",
        "epochs": 10, "steps_per_epoch": 8, "total_steps": 10, "save_freq": 3, "test_freq": 3, "checkpoints_kept": 5,
        "checkpoint_dir": f"{run}/checkpoints", "selection_metric": "val-core/*/acc/mean@* (max)", "export_huggingface": True,
    }.items() <= seen.items()  # fmt: skip
    assert "gsm8k" in seen["reward_calls"]
    assert seen["environment"] == "verl 0.9.1 (/env/bin/python)"
    assert "reward_function" not in seen


def test_batches_by_tokens_and_other_distances(run):
    seen = shown(run, template="verl_grpo_vllm", data=make_data(run, 512))
    assert seen["micro_batch"] == "by tokens: at most 24576 a GPU"
    changes = {"actor_rollout_ref.actor.use_kl_loss": False}
    assert shown(run, changes=changes)["kl"] == "none"
    assert shown(run, changes={**changes, "algorithm.use_kl_in_reward": True})["kl"] == "in the reward"


def test_a_custom_reward_is_shown_and_stands_out(run, tmp_path):
    function = tmp_path / "reward.py"
    function.write_text("def f(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n")
    settings = make_settings(
        verl_reward_mode="custom",
        verl_reward_preset=None,
        verl_reward_function_path=str(function),
        verl_reward_function_name="f",
    )
    seen = shown(run, settings=settings)
    assert (seen["reward_mode"], seen["reward_function"]) == ("custom", f"{function}:f")
    assert "loopai.reward" in flags(run, settings=settings)


def test_an_ordinary_plan_has_no_red_flag(run):
    assert flags(run) == []
    assert flags(run, template="verl_grpo_vllm", data=make_data(run, 512)) == []


def test_metrics_that_leave_this_machine_stand_out(run):
    logger = {"trainer.logger": ["console", "file", "wandb"]}
    assert flags(run, native=logger) == ["trainer.logger"]
    assert flags(run, native={"trainer.logger": ["console", "file", "tensorboard"]}) == []
    assert shown(run, native=logger)["report_to"] == "wandb"


def test_a_cpu_smoke_plan_stands_out(run):
    assert flags(run, template="verl_grpo_cpu_smoke") == ["trainer.device"]
    assert shown(run, template="verl_grpo_cpu_smoke")["gpus"] == "none: 1 rank(s) on the CPU"


@pytest.mark.parametrize(
    ("key", "loud", "quiet"),
    [
        (f"{MODEL}.trust_remote_code", True, False), ("data.trust_remote_code", True, False),
        (f"{MODEL}.external_lib", "a.b", None), (f"{MODEL}.custom_chat_template", "{{ x }}", None),
        (f"{MODEL}.override_config", {"num_hidden_layers": 2}, {"attn_implementation": "sdpa"}),
        (f"{ROLLOUT}.multi_turn.enable", True, False), (f"{ROLLOUT}.engine_kwargs", {"vllm": {"x": 1}}, {}),
        ("trainer.use_v1", False, True),
        ("trainer.val_before_train", False, True), ("algorithm.filter_groups.enable", True, False), ("critic.enable", True, None),
    ],
)  # fmt: skip
def test_what_an_approver_should_stop_at(run, key, loud, quiet):
    assert flags(run, native={key: loud}) == [key]
    assert flags(run, native={key: quiet}) == []


@pytest.mark.parametrize("key", ["reward.reward_manager.module.path", f"{ROLLOUT}.multi_turn.tool_config_path"])
def test_files_that_run_stand_out(run, key):
    copy = input_file(run / "inputs" / "x", b"x")
    assert flags(run, native={key: copy.path}, files=(copy,)) == [key]


@pytest.mark.parametrize(("rows", "found"), [(19, ["data.val_files"]), (20, [])])
def test_few_validation_rows_stand_out(run, rows, found):
    assert flags(run, data=make_data(run, validation_rows=rows)) == found


def test_variables_stand_out(run):
    launch = {"env": {"NCCL_DEBUG": "INFO"}, "pass_env": ["HF_TOKEN"]}
    assert flags(run, launch=launch) == ["loopai.launch.env", "loopai.launch.pass_env"]
