import pytest
from fakes.grpo_plans import make_data, make_plan, make_settings

from loopai_trainer.backends.verl_grpo import schedule
from loopai_trainer.backends.verl_grpo.effective import SEEN_DEFAULTS, Effective


def compute(rows, **trainer):
    native = {
        "data": {"train_batch_size": 8},
        "actor_rollout_ref": {"actor": {"ppo_mini_batch_size": 4}, "rollout": {"n": 2}},
        "trainer": {"n_gpus_per_node": 4, "total_epochs": 3, **trainer},
    }
    return schedule.compute(Effective(native, SEEN_DEFAULTS), rows)


@pytest.mark.parametrize(
    ("rows", "planned", "per_epoch", "total", "unused"),
    [
        (64, None, 8, 24, 0),
        (67, None, 8, 24, 3),
        (64, 10, 8, 10, 0),
        (64, 100, 8, 24, 0),
        (7, None, 0, 0, 7),
        (0, 5, 0, 0, 0),
    ],
)
def test_steps_are_those_that_verl_takes(rows, planned, per_epoch, total, unused):
    steps = compute(rows, total_training_steps=planned)
    assert (steps.steps_per_epoch, steps.total_steps, steps.unused) == (per_epoch, total, unused)
    assert (steps.replies, steps.data_parallel) == (16, 4)


def test_a_limit_on_the_rows_counts():
    native = {"data": {"train_batch_size": 8, "train_max_samples": 20}, "trainer": {"total_epochs": 1}}
    assert schedule.compute(Effective(native, SEEN_DEFAULTS), 64).rows == 20
    native["data"]["train_max_samples"] = -1
    assert schedule.compute(Effective(native, SEEN_DEFAULTS), 64).rows == 64


def test_sequence_parallel_ranks_share_their_rows():
    native = {"actor_rollout_ref": {"actor": {"ulysses_sequence_parallel_size": 2}}, "trainer": {"n_gpus_per_node": 8}}
    assert schedule.compute(Effective(native, SEEN_DEFAULTS), 1).data_parallel == 4


@pytest.mark.parametrize(("total", "every", "written"), [(10, 2, 5), (10, 3, 4), (10, 99, 1), (10, -1, 0), (0, 2, 0)])
def test_a_checkpoint_every_so_often_and_at_the_end(total, every, written):
    assert schedule.saves(total, every) == written


def test_nothing_of_a_broken_plan_is_computed_with(tmp_path):
    plan = make_plan(tmp_path / "run", native={"data.train_batch_size": "8", "trainer.total_epochs": None})
    steps = schedule.of_plan(plan)
    assert (steps.batch, steps.total_steps) == (0, 0)


def test_a_plan_s_rows_are_those_of_its_snapshot(tmp_path):
    plan = make_plan(tmp_path / "run", data=make_data(tmp_path / "run", 40), settings=make_settings())
    assert schedule.of_plan(plan).rows == 40
