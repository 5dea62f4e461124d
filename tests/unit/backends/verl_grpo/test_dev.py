import pytest
from fakes.grpo_plans import edited, make_data, make_plan, make_settings
from fakes.verl_trees import make_verl, versions_of

from loopai_trainer import backends
from loopai_trainer.backends.verl_grpo import schedule
from loopai_trainer.backends.verl_grpo.effective import ACTOR, ROLLOUT, Effective
from loopai_trainer.backends.verl_grpo.tree import read_tree
from loopai_trainer.contract import TriesOut
from loopai_trainer.errors import NotShown
from loopai_trainer.rules import dev_bounds, dotted

BACKEND = backends.get("verl", "grpo")
BATCH, MINI = "data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size"


@pytest.fixture
def package(tmp_path):
    return make_verl(tmp_path / "verl-0.9", "0.9")


@pytest.fixture
def cut(tmp_path, package):
    assert isinstance(BACKEND, TriesOut)

    def make(**kwargs):
        data = make_data(tmp_path / "run", kwargs.pop("rows", 64))
        return BACKEND.dev_plan(make_plan(tmp_path / "run", data=data, **kwargs), versions_of(package, "0.9.1", ()))

    return make


def test_two_steps_validated_and_saved_once(cut, package):
    found = cut()
    values = Effective(found.native, read_tree(package).values)
    steps = schedule.compute(values, found.rows["train"])
    assert (found.steps, steps.total_steps, steps.steps_per_epoch > 0) == (2, 2, True)
    assert [values.get(f"trainer.{key}") for key in ("save_freq", "test_freq", "val_before_train")] == [2, 2, False]
    assert values.get("trainer.logger") == ["console", "file"]
    assert dev_bounds.too_much(found) == ""


def test_a_small_plan_keeps_its_batch(cut, tmp_path):
    plan = make_plan(tmp_path / "run")
    found = cut()
    assert dotted.get(found.native, BATCH) == dotted.get(plan.native, BATCH) == 8
    assert dotted.get(found.native, MINI) == dotted.get(plan.native, MINI) == 4
    assert found.not_shown == {}


@pytest.mark.parametrize(
    ("batch", "mini", "group", "micro", "devices", "wanted"),
    [
        (256, 64, 2, 1, "0,1", 8),
        (256, 64, 3, 1, "0,1,2,3,4,5,6", 7),
        (1024, 512, 2, 8, "0,1,2,3,4,5,6,7", 32),
    ],
)
def test_a_large_batch_becomes_the_largest_small_one_that_all_rules_allow(
    cut, batch, mini, group, micro, devices, wanted
):
    changes = {BATCH: batch, MINI: mini, f"{ROLLOUT}.n": group, f"{ACTOR}.ppo_micro_batch_size_per_gpu": micro}
    found = cut(rows=2048, changes=changes, settings=make_settings(CUDA_VISIBLE_DEVICES=devices))
    assert dotted.get(found.native, BATCH) == wanted
    assert dotted.get(found.native, MINI) == wanted
    assert f"a step has {wanted} prompts, not {batch}" in found.not_shown["full batches"]


def test_a_plan_that_needs_more_prompts_is_not_shown(cut):
    changes = {BATCH: 1024, MINI: 1024, f"{ROLLOUT}.n": 2, f"{ACTOR}.ppo_micro_batch_size_per_gpu": 128}
    with pytest.raises(NotShown, match="no batch of 1 to 32 prompts"):
        cut(rows=2048, changes=changes)


@pytest.mark.parametrize(("filters", "rows"), [(True, 32), (False, 16)])
def test_where_long_prompts_are_left_out_there_are_rows_to_spare(cut, filters, rows):
    assert cut(changes={"data.filter_overlong_prompts": filters}).rows == {"train": rows, "validation": 16}


def test_nothing_is_resumed_reported_or_generated_in_other_batches(cut):
    native = {
        "trainer.resume_mode": "resume_path", "trainer.resume_from_path": "/run/inputs/global_step_1",
        "trainer.logger": ["console", "file", "wandb"], "data.gen_batch_size": 4,
    }  # fmt: skip
    found = cut(native=native)
    assert dotted.get(found.native, "trainer.resume_mode") == "disable"
    assert not dotted.has(found.native, "trainer.resume_from_path")
    assert not dotted.has(found.native, "data.gen_batch_size")
    assert set(found.not_shown) == {"resuming", "metric sinks"}


def test_the_plan_itself_stays_as_it_is(tmp_path, package):
    plan = make_plan(tmp_path / "run")
    before = edited(plan.native, {})
    BACKEND.dev_plan(plan, versions_of(package, "0.9.1", ()))
    assert plan.native == before
