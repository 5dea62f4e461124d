import pytest

from loopai_trainer.backends.llamafactory_sft import disk, schedule
from loopai_trainer.files.model_folder import Weights

WEIGHTS = Weights(
    {"a.q_proj.weight": (100, 200), "a.v_proj.weight": (100, 200), "a.norm.weight": (100,)}, 40_100, 80_200
)


def estimate(steps=100, data_bytes=0, **native):
    rows = schedule.compute({"max_steps": steps}, 10, 1)
    return disk.estimate(native, WEIGHTS, rows, data_bytes)


def test_full_checkpoints_hold_weights_and_two_moments():
    found = estimate(finetuning_type="full", save_steps=50)
    assert found.weights_only == 3 * 80_200
    assert found.total == 3 * (80_200 + 8 * 40_100) + 80_200


def test_save_only_model_leaves_the_moments_out():
    found = estimate(finetuning_type="full", save_steps=50, save_only_model=True)
    assert found.total == 4 * 80_200
    (problem,) = disk.disk_problems(found, 10)
    assert "Adam" not in problem.message and "save_only_model" not in problem.hint
    (other,) = disk.disk_problems(estimate(finetuning_type="full", save_steps=50), 10)
    assert "Adam moments" in other.message and "set save_only_model: true" in other.hint


@pytest.mark.parametrize(
    ("native", "kept"),
    [
        ({"save_steps": 10, "save_total_limit": 2}, 2),
        ({"save_steps": 60}, 2),
        ({"save_strategy": "epoch"}, 1),
        ({"save_strategy": "epoch", "save_total_limit": 3}, 3),
        ({"save_strategy": "no"}, 0),
    ],
)
def test_how_many_checkpoints_are_kept(native, kept):
    assert estimate(finetuning_type="full", **native).weights_only == (kept + 1) * 80_200


def test_lora_saves_its_factors_alone():
    all_targets = estimate(finetuning_type="lora", lora_rank=4, lora_target="all", save_steps=100)
    assert all_targets.weights_only == 2 * 4 * (2 * 4 * 300)
    one_target = estimate(finetuning_type="lora", lora_rank=4, lora_target=["v_proj"], save_steps=100)
    assert one_target.weights_only == 2 * 4 * (4 * 300)


@pytest.mark.parametrize(
    ("native", "parameters"),
    [
        ({"oft_block_size": 20}, 2 * 10 * 190),
        ({"oft_block_size": 20, "oft_target": ["v_proj"]}, 10 * 190),
        ({"oft_block_size": 20, "oft_target": "k_proj"}, 0),
        ({"oft_block_size": 0, "oft_rank": 5}, 2 * 5 * (40 * 39 // 2)),
        ({}, 2 * 200 * 31 // 2),
    ],
)
def test_oft_saves_its_rotations_alone(native, parameters):
    found = estimate(finetuning_type="oft", save_steps=100, **native)
    assert found.weights_only == 2 * 4 * parameters
    assert found.total == 2 * (4 + 8) * parameters + 4 * parameters


def test_the_data_cache_counts():
    assert estimate(finetuning_type="full", data_bytes=1000).total - estimate(finetuning_type="full").total == 7000


@pytest.mark.parametrize(("free", "severities"), [(100, []), (99, ["warning"]), (50, ["warning"]), (49, ["error"])])
def test_less_than_the_weights_is_an_error_less_than_all_a_warning(free, severities):
    problems = disk.disk_problems(disk.Estimate(50, 100, "formula"), free)
    assert [problem.severity for problem in problems] == severities


@pytest.mark.parametrize(
    ("needed", "free", "shown"),
    [
        (3 * 10**9, 10**9, "about 3 GB of disk are needed, 1 GB are free"),
        (4_300_000, 0, "about 4 MB of disk are needed, 0 bytes are free"),
        (999_000, 5_000, "about 999 KB of disk are needed, 5 KB are free"),
    ],
)
def test_small_sizes_have_small_units(needed, free, shown):
    (problem,) = disk.disk_problems(disk.Estimate(needed, needed, "formula"), free)
    assert shown in problem.message and "0 GB" not in problem.message


def test_deepspeed_saves_float32_weights_too():
    plain = estimate(finetuning_type="full", save_steps=100)
    sharded = estimate(finetuning_type="full", save_steps=100, deepspeed={})
    assert sharded == plain
    sharded = estimate(finetuning_type="full", save_steps=100, deepspeed={"zero_optimization": {"stage": 2}})
    assert sharded.total - plain.total == 2 * 4 * 40_100
    assert "Adam moments and float32 weights" in sharded.formula
