import pytest
from fakes.sft_plans import make_plan

from loopai_trainer.backends.llamafactory_sft import schedule


@pytest.mark.parametrize(
    ("native", "rows", "world", "per_epoch", "total"),
    [
        # Measured with LLaMA-Factory 0.9.5: 56 rows, batch 8: 7 steps an epoch; batch 4 x 2 on two ranks: 4.
        ({"per_device_train_batch_size": 8, "num_train_epochs": 2.0}, 56, 1, 7, 14),
        ({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "max_steps": 12}, 56, 2, 4, 12),
        ({"per_device_train_batch_size": 8, "num_train_epochs": 0.5}, 56, 1, 7, 4),
        ({}, 100, 1, 13, 39),
        ({"per_device_train_batch_size": 2, "gradient_accumulation_steps": 100}, 10, 1, 1, 3),
        ({"per_device_train_batch_size": 2, "max_samples": 5, "num_train_epochs": 1}, 100, 1, 3, 3),
    ],
)
def test_steps_as_transformers_computes_them(native, rows, world, per_epoch, total):
    found = schedule.compute(native, rows, world)
    assert (found.steps_per_epoch, found.total_steps) == (per_epoch, total)


def test_effective_batch_and_epochs():
    found = schedule.compute(
        {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 3, "max_steps": 20}, 60, 4
    )
    assert (found.effective_batch, found.epochs) == (24, 20 / 3)


def test_packing_hides_the_number_of_steps_but_max_steps_does_not():
    assert schedule.compute({"packing": True}, 100, 1).total_steps is None
    assert schedule.compute({"neat_packing": True, "max_steps": 9}, 100, 1).total_steps == 9


@pytest.mark.parametrize(
    ("value", "total", "steps"),
    [(10, None, 10), (0.25, 10, 3), (0.25, None, None), (0, 5, None), (True, 5, None), ("5", 5, None)],
)
def test_intervals_may_be_shares(value, total, steps):
    assert schedule.interval(value, total) == steps


def test_expected_examples_are_the_approved_rows(tmp_path):
    plan = make_plan(tmp_path / "run")
    assert schedule.expected_examples(plan) == {"train_examples": 90, "validation_examples": 10}


def test_expected_examples_follow_max_samples_and_no_validation(tmp_path):
    plan = make_plan(tmp_path / "run", {"max_samples": 20}, validation_rows=0)
    assert schedule.expected_examples(plan) == {"train_examples": 20}


def test_packing_leaves_nothing_to_expect(tmp_path):
    assert schedule.expected_examples(make_plan(tmp_path / "run", {"packing": True})) == {}
