import json
import os

import pytest
from fakes.sft_plans import make_plan

from loopai_trainer.errors import ConfigError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import dev_checks
from loopai_trainer.operations.dev_checks import Check
from loopai_trainer.records import Problem

DONE = {"status": "completed", "current_step": 2, "total_steps": 2}


@pytest.fixture
def run(tmp_path):
    made = RunDir(str(tmp_path / "dev"))
    os.makedirs(made.metrics)

    def with_rows(*rows):
        with open(made.metric_rows, "w") as file:
            file.writelines(
                json.dumps({"step": 1, "attempt": 1, "kind": kind, "values": values}) + "\n" for kind, values in rows
            )
            file.write('{"step": 2, "val')
        return made

    return with_rows


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ("passed passed", "passed"),
        ("passed not_shown", "not_shown"),
        ("not_shown failed passed", "failed"),
        ("", "passed"),
    ],
)
def test_the_worst_check_is_the_verdict(outcomes, verdict):
    assert dev_checks.verdict([Check("x", outcome, "") for outcome in outcomes.split()]) == verdict


def test_what_a_good_run_shows(run, tmp_path):
    made = run(("train", {"loss": 2.0}), ("train", {"loss": 1.5}), ("eval", {"epoch": 1.0, "eval_loss": 1.75}))
    found = dev_checks.of_run(made, DONE, make_plan(tmp_path / "run"), 12.4)
    assert [(check.name, check.outcome) for check in found] == [
        ("training", "passed"), ("evaluation", "passed"), ("saving", "passed"),
    ]  # fmt: skip
    assert found[0].detail == "2 of 2 steps on 90 rows in 12 s; loss 2 -> 1.5"
    assert found[1].detail == "measured on held-out rows; eval_loss 1.75"
    assert found[2].detail.startswith("the weights were saved")
    found = dev_checks.of_run(made, DONE, make_plan(tmp_path / "run"), 12.4, makes_model=False)
    assert found[2].detail == "its result was written and can be read; it is removed"


def test_verls_metrics_are_told_by_their_own_names(run, tmp_path):
    made = run(
        ("train", {"critic/score/mean": 0.25, "actor/loss": None}),
        ("val", {"val-aux/a": 9.0, "val-core/x/acc/mean@1": 0.5}),
    )
    found = dev_checks.of_run(made, DONE, make_plan(tmp_path / "run"), 1.0)
    assert found[0].detail.endswith("; critic/score/mean 0.25")
    assert found[1].detail.endswith("; val-core/x/acc/mean@1 0.5")


def test_without_metrics_there_is_nothing_to_tell_of_them(run, tmp_path):
    made = run(("train", {}), ("eval", {}))
    found = dev_checks.of_run(made, DONE, make_plan(tmp_path / "run"), 1.0)
    assert [check.detail for check in found[:2]] == ["2 of 2 steps on 90 rows in 1 s", "measured on held-out rows"]
    assert dev_checks.metric_rows(RunDir(str(tmp_path / "nothing"))) == []


@pytest.mark.parametrize(
    ("error", "outcome", "hint"),
    [
        ({"code": "DIVERGED", "detail": "not finite", "hint": "lower it"}, "failed", "lower it"),
        ({"code": "DEV_TIME_LIMIT", "detail": "too slow", "hint": "x"}, "not_shown", "give it more time with --limit"),
        ({}, "failed", ""),
    ],
)
def test_a_run_that_did_not_complete(run, tmp_path, error, outcome, hint):
    (check,) = dev_checks.of_run(run(), {"status": "failed", "error": error}, make_plan(tmp_path / "run"), 1.0)
    assert (check.outcome, check.hint, check.code) == (outcome, hint, error.get("code", ""))
    assert check.detail == error.get("detail", "the run is failed")


def test_the_checks_before_it_name_what_was_looked_at(tmp_path):
    plan = make_plan(tmp_path / "run")
    plan.loopai["backend"]["resolved_sha256"] = "0" * 64
    summary = {"reward_tried": "24 train rows", "scores_seen": "right 1", "train_prompts": "longest 90 of 128 tokens"}
    found = dev_checks.of_plan(plan, summary)
    assert [check.name for check in found] == ["configuration", "inputs", "composition", "reward", "prompts"]
    assert {check.outcome for check in found} == {"passed"}
    assert found[1].detail.startswith("90 rows of train, 10 rows of validation, model, files")
    assert [check.name for check in dev_checks.of_plan(make_plan(tmp_path / "other"), {})] == [
        "configuration",
        "inputs",
    ]


def test_a_refusal_tells_all_that_it_found():
    problems = [Problem("error", "A", "config", text) for text in ("one", "two")] + [
        Problem("warning", "B", "config", "three")
    ]
    check = dev_checks.refused("configuration", ConfigError("one (and 1 more)", hint="h", problems=problems))
    assert (check.outcome, check.detail, check.hint, check.code) == (
        "failed",
        "one (and 1 more); two",
        "h",
        "CONFIG_INVALID",
    )
    many = ConfigError("one (and 9 more)", problems=[Problem("error", "A", "config", str(n)) for n in range(10)])
    assert dev_checks.refused("configuration", many).detail == "one (and 9 more)"
