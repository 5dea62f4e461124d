import pytest
from fakes.llamafactory_env import make_environment, versions_of
from fakes.sft_plans import make_plan

from loopai_trainer import backends
from loopai_trainer.backends.llamafactory_sft import schedule
from loopai_trainer.contract import TriesOut
from loopai_trainer.rules import dev_bounds
from loopai_trainer.rules import plan as plans

BACKEND = backends.get("llamafactory", "sft")


def cut(tmp_path, **kwargs):
    if not (tmp_path / "env").exists():
        make_environment(tmp_path / "env")
    assert isinstance(BACKEND, TriesOut)
    return BACKEND.dev_plan(make_plan(tmp_path / "run", **kwargs), versions_of(tmp_path / "env"))


def test_two_steps_on_16_rows_with_everything_else_as_planned(tmp_path):
    plan = make_plan(tmp_path / "run", {"learning_rate": 1.0e-5, "bf16": True, "cutoff_len": 4096})
    found = cut(tmp_path, template={"learning_rate": 1.0e-5, "bf16": True, "cutoff_len": 4096})
    assert (found.steps, dict(found.rows)) == (2, {"train": 16, "validation": 16})
    changed = {key for key in {*plan.native, *found.native} if plan.native.get(key) != found.native.get(key)}
    assert changed == {"max_steps", "save_steps", "eval_steps", "logging_steps"}
    assert dev_bounds.too_much(found) == ""
    assert found.not_shown == {}


def test_the_plan_takes_two_steps_whatever_epochs_batches_and_rows_are(tmp_path):
    for template in (
        {"num_train_epochs": 50.0, "max_steps": -1},
        {"per_device_train_batch_size": 512},
        {"max_steps": 7},
    ):
        found = cut(tmp_path, template=template)
        assert schedule.compute(found.native, 16, 1).total_steps == 2


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("dataloader_drop_last", True, False),
        ("save_strategy", "epoch", "steps"),
        ("eval_strategy", "epoch", "steps"),
        ("eval_delay", 100, None),
        ("report_to", ["tensorboard"], "none"),
        ("use_swanlab", True, None),
        ("resume_from_checkpoint", "/run/inputs/checkpoint-9", None),
    ],
)
def test_what_would_keep_so_short_a_run_from_showing_something_is_changed(tmp_path, key, value, instead):
    assert cut(tmp_path, native={key: value}).native.get(key) == instead


def test_a_plan_that_neither_saves_nor_evaluates_does_not_begin_to(tmp_path):
    native = cut(
        tmp_path, native={"save_strategy": "no", "eval_strategy": "no", "save_steps": None, "eval_steps": None}
    ).native
    assert (native["save_strategy"], native["eval_strategy"]) == ("no", "no")
    assert not {"save_steps", "eval_steps"} & set(native)


def test_what_it_leaves_out_is_said(tmp_path):
    found = cut(tmp_path, native={"resume_from_checkpoint": "/c", "report_to": ["wandb"], "use_swanlab": True})
    assert set(found.not_shown) == {"resuming", "metric sinks"}
    assert found.not_shown["metric sinks"] == "nothing is sent to wandb, swanlab"


def test_its_keys_make_a_yaml(tmp_path):
    plan = make_plan(tmp_path / "run")
    assert plans.render(plan.loopai, plan.result, cut(tmp_path).native).native["max_steps"] == 2
