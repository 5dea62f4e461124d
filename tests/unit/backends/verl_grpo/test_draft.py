import json

import pytest
from fakes.grpo_plans import edited, make_data, make_paths, make_plan, make_settings, template_values

from loopai_trainer.backends.verl_grpo.draft import BACKEND_VERSION, OWNED_KEYS, draft, placement, result_block
from loopai_trainer.records import Model
from loopai_trainer.rules import dotted

MODEL = Model("/model", "f" * 64)


def made(tmp_path, base=None, rows=64, validation_rows=30, **settings):
    run = tmp_path / "run"
    base = template_values() if base is None else base
    return draft(make_settings(**settings), make_data(run, rows, validation_rows), base, MODEL, make_paths(run))


def test_identity_comes_from_the_settings_alone(tmp_path):
    base = edited(
        template_values(), {key: "/elsewhere" for key in OWNED_KEYS if key.count(".") == 1 and "reward" not in key}
    )
    native = made(tmp_path, base)
    run = str(tmp_path / "run")
    assert {key: dotted.get(native, key) for key in OWNED_KEYS if "reward" not in key and "resume_from" not in key} == {
        "data.train_files": f"{run}/prepared_data/train.parquet",
        "data.val_files": f"{run}/prepared_data/validation.parquet",
        "actor_rollout_ref.model.path": "/model",
        "trainer.project_name": "demo",
        "trainer.experiment_name": "v1",
        "trainer.nnodes": 1,
        "trainer.n_gpus_per_node": 2,
        "trainer.default_local_dir": f"{run}/checkpoints",
        "trainer.rollout_data_dir": f"{run}/rollouts",
        "trainer.validation_data_dir": f"{run}/validations",
        "trainer.logger": ["console", "file"],
        "trainer.resume_mode": "disable",
    }


def test_further_places_for_metrics_are_added_to_the_file(tmp_path):
    native = made(tmp_path, report_to="wandb,tensorboard", train_input_use_swanlab=True)
    assert dotted.get(native, "trainer.logger") == ["console", "file", "wandb", "tensorboard", "swanlab"]


def test_a_resume_path_of_a_template_is_dropped(tmp_path):
    native = made(tmp_path, edited(template_values(), {"trainer.resume_from_path": "/old/global_step_4"}))
    assert not dotted.has(native, "trainer.resume_from_path")


def test_the_reward_is_named_as_the_version_reads_it(tmp_path):
    path = str(tmp_path / "run" / "inputs" / "loopai_reward.py")
    function = {"path": path, "name": "compute_score", "reward_kwargs": {"preset": "gsm8k_exact"}}
    new = made(tmp_path, {"reward": {"num_workers": 1, "custom_reward_function": {"path": "/x", "old": 1}}})
    assert new["reward"] == {"num_workers": 1, "custom_reward_function": function}
    assert "custom_reward_function" not in new
    old = made(tmp_path, {"custom_reward_function": {"path": "/x"}}, **{BACKEND_VERSION: "0.8.0.dev"})
    assert old["custom_reward_function"] == function
    assert "reward" not in old


def test_the_0_8_line_gets_none_of_the_new_keys(tmp_path):
    text = json.dumps(made(tmp_path, **{BACKEND_VERSION: "0.8.0.dev"}))
    assert not any(name in text for name in ("use_v1", '"v1":', "transfer_queue", '"reward":'))


@pytest.mark.parametrize(
    ("setting", "template", "name"),
    [(None, None, "vllm"), (None, "sglang", "sglang"), ("sglang", "vllm", "sglang"), ("vllm", None, "vllm")],
)
def test_the_setting_chooses_the_rollout_backend(tmp_path, setting, template, name):
    base = {"actor_rollout_ref": {"rollout": {"name": template} if template else {}}}
    assert dotted.get(made(tmp_path, base, verl_rollout_backend=setting), "actor_rollout_ref.rollout.name") == name


@pytest.mark.parametrize(("devices", "count"), [("0", 1), ("0,1,2,3", 4), ("GPU-ab,GPU-cd", 2), ("", 1), ("0-3", 1)])
def test_as_many_gpus_as_devices_are_named(tmp_path, devices, count):
    assert dotted.get(made(tmp_path, CUDA_VISIBLE_DEVICES=devices), "trainer.n_gpus_per_node") == count


def test_a_cpu_smoke_plan_has_logical_gpus_and_no_devices(tmp_path):
    native = made(tmp_path, template_values("verl_grpo_cpu_smoke"), nproc_per_node=2)
    assert dotted.get(native, "trainer.n_gpus_per_node") == 2
    assert dotted.get(native, "ray_kwargs.ray_init.num_gpus") == 2
    assert dotted.get(native, "actor_rollout_ref.rollout.name") == "loopai_cpu"
    assert not dotted.has(native, "actor_rollout_ref.rollout.gpu_memory_utilization")
    placed = placement(make_settings(), native)
    assert (placed.devices, placed.processes) == ("", 1)
    placed = placement(make_settings(), made(tmp_path))
    assert (placed.devices, placed.processes) == ("0,1", 1)


def test_no_batch_size_of_the_template_is_changed(tmp_path):
    base = edited(template_values(), {"data.train_batch_size": 1000, "actor_rollout_ref.actor.ppo_mini_batch_size": 7})
    native = made(tmp_path, base)
    assert dotted.get(native, "data.train_batch_size") == 1000
    assert dotted.get(native, "actor_rollout_ref.actor.ppo_mini_batch_size") == 7


def test_every_choice_to_be_seen_stands_in_an_empty_template_s_plan(tmp_path):
    native = made(tmp_path, {})
    assert dotted.get(native, "algorithm.adv_estimator") == "grpo"
    assert dotted.get(native, "data.train_batch_size") == 1024
    assert dotted.get(native, "data.seed") == 42
    assert dotted.get(native, "actor_rollout_ref.rollout.tensor_model_parallel_size") == 1
    assert dotted.get(native, "actor_rollout_ref.rollout.n") == 1
    assert dotted.get(native, "actor_rollout_ref.rollout.gpu_memory_utilization") == 0.5
    assert dotted.get(native, "actor_rollout_ref.actor.optim.lr") == 1.0e-6
    assert dotted.get(native, "trainer.val_before_train") is True
    assert dotted.get(native, "ray_kwargs.ray_init.include_dashboard") is False


@pytest.mark.parametrize(
    ("multi_round", "template", "save", "test"),
    [
        (True, {"save_freq": -1, "test_freq": -1}, 3, 3),
        (True, {"save_freq": 5, "test_freq": 2}, 5, 2),
        (True, {}, 3, 3),
        (False, {"save_freq": -1, "test_freq": -1}, -1, -1),
        (False, {}, 3, 3),
    ],
)
def test_several_rounds_need_checkpoints_and_scores(tmp_path, multi_round, template, save, test):
    base = {"data": {"train_batch_size": 8}, "trainer": {"total_training_steps": 10, "total_epochs": 10, **template}}
    native = made(tmp_path, base, verl_multi_round_enabled=multi_round)
    assert [dotted.get(native, f"trainer.{key}") for key in ("save_freq", "test_freq")] == [save, test]


@pytest.mark.parametrize(("setting", "template", "kept"), [(None, None, 2), (None, 7, 7), (4, 7, 4), (4, None, 4)])
def test_how_many_checkpoints_are_kept(tmp_path, setting, template, kept):
    base = {"trainer": {"max_actor_ckpt_to_keep": template} if template else {}}
    native = made(tmp_path, base, verl_max_actor_ckpt_to_keep=setting)
    assert dotted.get(native, "trainer.max_actor_ckpt_to_keep") == kept


def test_no_validation_data_is_left_for_the_check_to_refuse(tmp_path):
    assert dotted.get(made(tmp_path, validation_rows=0), "data.val_files") is None


def test_the_same_arguments_give_the_same_text_and_its_own_result_may_be_the_base(tmp_path):
    first = made(tmp_path)
    assert json.dumps(made(tmp_path)) == json.dumps(first)
    assert json.dumps(made(tmp_path, first)) == json.dumps(first)


def test_the_template_is_not_touched(tmp_path):
    base = template_values()
    before = json.dumps(base)
    made(tmp_path, base)
    assert json.dumps(base) == before


def test_the_reading_order(tmp_path):
    native = made(tmp_path, {"zzz": 1, **template_values()})
    assert list(native) == ["data", "actor_rollout_ref", "algorithm", "reward", "trainer", "zzz", "ray_kwargs"]
    assert list(native["data"])[:2] == ["train_files", "val_files"]
    assert list(native["actor_rollout_ref"]) == ["model", "actor", "rollout", "ref"]


@pytest.mark.parametrize(
    ("settings", "mode", "exports"),
    [
        ({"verl_selection_mode": "maximize"}, "max", True),
        ({"verl_selection_mode": "minimize"}, "min", True),
        (
            {"verl_selection_mode": "min", "verl_export_huggingface": False, "verl_multi_round_enabled": False},
            "min",
            False,
        ),
        ({"verl_export_huggingface": False}, "max", True),
        ({"verl_multi_round_enabled": False}, "max", True),
    ],
)
def test_the_result_block(settings, mode, exports):
    assert result_block(make_settings(verl_selection_metric="val-core/*/reward/mean@1", **settings)) == {
        "selection_metric": "val-core/*/reward/mean@1", "selection_mode": mode, "export_huggingface": exports,
    }  # fmt: skip


def test_a_plan_renders(tmp_path):
    plan = make_plan(tmp_path / "run")
    assert plan.framework == "verl"
    assert "custom_reward_function" in plan.text


def test_what_is_told_to_a_cluster_and_what_only_to_a_ray_of_verls_own(tmp_path):
    base = edited(
        template_values(), {"ray_kwargs.ray_init.num_cpus": 8, "ray_kwargs.ray_init.include_dashboard": False}
    )
    native = made(tmp_path, base, executor="ray_jobs", nodes=2)
    assert dotted.get(native, "trainer.nnodes") == 2
    assert dotted.get(native, "trainer.n_gpus_per_node") == 2
    assert not dotted.get(native, "ray_kwargs.ray_init")
    own = made(tmp_path, base)
    assert dotted.get(own, "ray_kwargs.ray_init") == {"num_cpus": 8, "include_dashboard": False}
