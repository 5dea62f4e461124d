"""backends.verl_grpo.metrics: verl's lines as rows, which rows end a run, and the metric that chooses."""

import json
import math
from pathlib import Path

import pytest
from fakes.verl_runs import verl_plan

from loopai_trainer.backends.verl_grpo.metrics import lost, metrics_file, read_metrics, selection
from loopai_trainer.records import LaunchPaths, MetricRow
from loopai_trainer.rules.selection import best

CASES = Path(__file__).parents[3] / "cases" / "verl"
GSM8K = "val-core/openai/gsm8k/acc/mean@1"


def row(kind="train", step=3, **values):
    return MetricRow(step, kind, {name.replace("__", "/"): value for name, value in values.items()})


def test_rows_are_split_by_kind_and_null_is_nan():
    line = (
        b'{"step": 5, "data": {"val-core/a/acc/mean@1": 0.3, "actor/loss": null, "training/global_step": 5, "x": "y"}}'
    )
    train, val = read_metrics([line])
    assert (train.step, train.kind, val.kind, val.values) == (5, "train", "val", {"val-core/a/acc/mean@1": 0.3})
    assert math.isnan(train.values["actor/loss"])


def test_a_validation_line_is_no_training_point():
    line = b'{"step": 5, "data": {"val-core/a/acc/mean@1": 0.3, "training/global_step": 5}}'
    assert [row.kind for row in read_metrics([line])] == ["val"]


@pytest.mark.parametrize(
    "line", [b"", b"{", b"5", b'{"step": 5}', b'{"step": true, "data": {}}', b'{"step": 1, "data": []}', b"[" * 99999]
)
def test_rubbish_gives_no_row(line):
    assert read_metrics([line]) == []


def test_real_lines():
    lines = (CASES / "two_ranks" / "verl_metrics-1.jsonl").read_bytes().splitlines()
    rows = read_metrics(lines)
    assert [(one.step, one.kind) for one in rows] == [
        (0, "val"), (1, "train"), (1, "val"), (2, "train"), (2, "val"), (3, "train"), (3, "val"),
    ]  # fmt: skip
    assert all(math.isfinite(one.values["actor/grad_norm"]) for one in rows if one.kind == "train")
    assert all(GSM8K in one.values for one in rows if one.kind == "val")
    assert not any(name.startswith("val-") for one in rows if one.kind == "train" for name in one.values)


@pytest.mark.parametrize(
    ("value", "read"), [("nan", math.nan), (True, None), ([1], None), ("1e3", 1000.0), (10**400, None)]
)
def test_values_that_are_no_plain_number(value, read):
    rows = read_metrics([json.dumps({"step": 1, "data": {"x": value, "y": 1}}).encode()])
    got = rows[0].values.get("x") if rows else None
    assert (got is None and read is None) or (math.isnan(got) if math.isnan(read) else got == read)


def test_each_attempt_has_its_file():
    paths = LaunchPaths("/r", "/r/launch", "/r/checkpoints", "/r/metrics", "/r/cache", "/t", attempt=3)
    assert metrics_file(paths) == "/r/metrics/verl_metrics-3.jsonl"


class TestLost:
    plan = verl_plan()

    @pytest.mark.parametrize("name", ["actor/loss", "actor/grad_norm", "critic/score/mean"])
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_spoilt_weights_end_a_run(self, name, value):
        reason = lost(self.plan, MetricRow(7, "train", {name: value, "actor/lr": 1e-6}))
        assert name in reason and "step 7" in reason

    def test_all_of_them_are_named(self):
        reason = lost(self.plan, row(actor__loss=math.nan, actor__grad_norm=math.nan))
        assert reason.startswith("actor/loss, actor/grad_norm are not finite")

    def test_a_validation_without_a_score_ends_a_run(self):
        assert GSM8K in lost(self.plan, MetricRow(0, "val", {GSM8K: math.nan}))

    @pytest.mark.parametrize(
        "sound",
        [
            row(actor__loss=0.1, actor__entropy=math.nan),
            row("val", **{"val-aux__openai__gsm8k__reward__mean@1": math.nan}),
            row("val", actor__loss=math.nan),
            row("eval", actor__loss=math.nan),
            row(),
            MetricRow(1, "train", {GSM8K: math.nan}),
        ],
    )
    def test_other_values_may_be_null(self, sound):
        assert lost(self.plan, sound) == ""

    def test_the_metric_is_the_plans_own(self):
        plan = verl_plan(result={"selection_metric": "val-core/a/reward/mean@4"})
        assert lost(plan, MetricRow(1, "val", {GSM8K: math.nan})) == ""
        assert lost(plan, MetricRow(1, "val", {"val-core/a/reward/mean@4": math.nan})) != ""


class TestSelection:
    def test_the_plans_metric_and_mode(self):
        plan = verl_plan(result={"selection_metric": "critic/score/mean", "selection_mode": "min"})
        assert selection(plan) == ("critic/score/mean", "min")

    def test_what_a_plan_leaves_out_is_the_specifications(self):
        assert selection(verl_plan(result={"selection_metric": None, "selection_mode": None})) == (
            "val-core/*/acc/mean@*",
            "max",
        )

    def test_the_untrained_model_may_be_the_best(self):
        rows = read_metrics(
            json.dumps({"step": step, "data": {GSM8K: value}}).encode()
            for step, value in ((0, 0.9), (1, 0.2), (2, 0.4))
        )
        chosen = best(rows, [], *selection(verl_plan()), losses_decide=False)
        assert (chosen.metric.step, chosen.metric.value) == (2, 0.4)
        assert any("training did not help" in warning for warning in chosen.warnings)

    def test_several_data_sources_are_averaged_and_each_is_shown(self):
        data = {GSM8K: 0.2, "val-core/openai/gsm8k/acc/mean@4": 0.4, "val-core/math/acc/mean@4": 0.6}
        rows = read_metrics([json.dumps({"step": 1, "data": data}).encode()])
        chosen = best(rows, [], *selection(verl_plan()), losses_decide=False)
        assert chosen.metric.value == pytest.approx(0.5)
        assert chosen.metric.sources == {"openai/gsm8k": 0.4, "math": 0.6}
        assert "openai/gsm8k 0.4" in chosen.reason

    def test_losses_never_choose(self):
        line = json.dumps({"step": 1, "data": {"actor/loss": 0.1, "critic/score/mean": 0.3}}).encode()
        chosen = best(read_metrics([line]), [], *selection(verl_plan()), losses_decide=False)
        assert chosen.metric.name == "critic/score/mean"
        assert "matched no finite value" in chosen.reason
