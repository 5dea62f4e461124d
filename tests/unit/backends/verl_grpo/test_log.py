"""backends.verl_grpo.log: facts from recorded output of verl."""

from pathlib import Path

import pytest
from fakes.verl_runs import NATIVE, verl_plan

from loopai_trainer.backends.verl_grpo.log import MARKS, expected_examples, read_log

CASES = Path(__file__).parents[3] / "cases" / "verl"
RUNNER = "\x1b[36m(TaskRunnerV1 pid=12)\x1b[0m "
TIME = "INFO:2026-01-02 03:04:05,678:"


def facts(lines):
    return [(fact.kind, fact.value) for fact in read_log(lines)]


def recorded(name):
    with (CASES / name / "train.log").open(encoding="utf-8", errors="replace", newline="\n") as file:
        return file.read().split("\n")


def test_a_whole_run():
    assert facts(recorded("two_ranks")) == [
        ("phase", "starting_ray"),
        ("phase", "starting_workers"),
        ("phase", "loading_data"),
        ("train_examples", 64),
        ("validation_examples", 6),
        ("phase", "loading_model"),
        ("total_steps", 3),
        ("phase", "generating"),
        ("phase", "training"),
    ]


@pytest.mark.parametrize("case", ["two_ranks", "too_few_gpus"])
@pytest.mark.parametrize("kind", sorted(MARKS))
def test_lines_without_a_mark_say_nothing_of_that_kind(case, kind):
    def of_kind(lines):
        return [value for name, value in facts(lines) if name == kind]

    lines = recorded(case)
    marked = [line for line in lines if any(mark.decode() in line for mark in MARKS[kind])]
    assert of_kind(marked) == of_kind(lines)
    assert len(marked) < len(lines) / 4


def test_a_run_that_never_trained():
    kinds = dict(facts(recorded("too_few_gpus")))
    assert kinds.get("phase") not in ("generating", "training")


@pytest.mark.parametrize(
    "line",
    [
        "Total training steps: 9",
        "(RewardLoopWorker pid=9) Total training steps: 9",
        "(AgentLoopWorkerTQ pid=9) INFO:2026-01-02 03:04:05,678:train and validate dataloader initialized, train dataset size: 1, val dataset size: 1",
        RUNNER + "Total training steps: 9 and more",
        RUNNER + "a reply: Total training steps: 9",
    ],
)
def test_what_others_print_is_no_fact(line):
    assert facts([line]) == []


@pytest.mark.parametrize("runner", ["(TaskRunner pid=3) ", "(TaskRunnerV1 pid=3, ip=10.0.0.1) ", RUNNER])
def test_every_form_of_the_prefix(runner):
    assert facts([runner + "Total training steps: 9"]) == [("total_steps", 9)]


def test_a_progress_bar_loses_its_prefix():
    bar = RUNNER + "\rTraining Progress:   0%|          | 0/2\rTraining Progress:  50%|#####     | 1/2"
    assert facts([bar]) == [("phase", "training")]


class TestExpectedExamples:
    def test_all_rows(self):
        assert expected_examples(verl_plan()) == {"train_examples": 3, "validation_examples": 2}

    @pytest.mark.parametrize(
        ("native", "loopai"),
        [
            ({"data": {"filter_overlong_prompts": True}}, {}),
            ({"data": {"train_max_samples": 2}}, {}),
            ({"data": {"val_max_samples": 2}}, {}),
            ({"trainer": {"use_v1": False}}, {}),
            ({}, {"backend": {"package": "verl", "version": "0.8.0.dev", "python": "/env/bin/python", "environment": "/env", "environment_sha256": "e" * 64}}),
        ],
    )  # fmt: skip
    def test_where_verl_may_keep_fewer_or_says_nothing(self, native, loopai):
        assert expected_examples(verl_plan(native, **loopai)) == {}

    def test_all_samples_is_no_limit(self):
        plan = verl_plan({"data": {**NATIVE["data"], "train_max_samples": -1, "filter_overlong_prompts": False}})
        assert expected_examples(plan)["train_examples"] == 3
