import dataclasses

import pytest
from fakes.sft_plans import make_plan

from loopai_trainer.records import DevPlan
from loopai_trainer.rules import dev_bounds


@pytest.fixture
def plan(tmp_path):
    made = make_plan(tmp_path / "run")

    def with_block(block):
        values = {**made.values, "loopai": {**made.loopai, "dev": block}}
        return dataclasses.replace(made, values=values)

    return with_block


def test_a_plan_without_the_block_is_no_dev_plan(tmp_path):
    assert dev_bounds.of_plan(make_plan(tmp_path / "run")) is None


def test_the_bounds_are_those_of_the_block(plan):
    bounds = dev_bounds.of_plan(plan({"steps": 2, "rows": 16, "limit_s": 900.0}))
    assert (bounds.steps, bounds.rows, bounds.limit_s) == (2, 16, 900.0)
    assert bounds.step_exceeded(2) is None
    assert bounds.step_exceeded(3) == ("DEV_STEP_LIMIT", "this dev run was given 2 steps, and training made step 3")
    assert bounds.time_exceeded(900.0, 1) is None
    assert bounds.time_exceeded(900.1, 1) == (
        "DEV_TIME_LIMIT", "2 steps were not made within 900 s (last step: 1)"
    )  # fmt: skip


def test_what_stands_in_the_block_is_never_believed_beyond_the_bounds(plan):
    bounds = dev_bounds.of_plan(plan({"steps": 10**9, "rows": 10**9, "limit_s": 1e12}))
    assert (bounds.steps, bounds.rows, bounds.limit_s) == (16, 64, 3600.0)


@pytest.mark.parametrize(
    "block", [None, "2", [], {}, {"steps": "9", "rows": True, "limit_s": -1}, {"limit_s": float("nan")}]
)
def test_a_block_that_says_nothing_sensible_allows_nothing(plan, block):
    bounds = dev_bounds.of_plan(plan(block))
    assert (bounds.steps, bounds.rows, bounds.limit_s) == (0, 0, 0.0)
    assert bounds.step_exceeded(1)
    assert bounds.time_exceeded(0.1, 0)


@pytest.mark.parametrize(
    ("steps", "rows", "words"),
    [
        (2, {"train": 16, "validation": 64}, ""),
        (16, {}, ""),
        (0, {}, "0 steps (1 to 16 are allowed)"),
        (17, {"train": 65}, "17 steps (1 to 16 are allowed)"),
        (
            2,
            {"train": 65, "validation": 0},
            "65 rows of train (1 to 64 are allowed); 0 rows of validation (1 to 64 are allowed)",
        ),
    ],
)
def test_what_a_backend_asks_for_is_held_against_the_bounds(steps, rows, words):
    assert dev_bounds.too_much(DevPlan({}, steps, rows)) == words
