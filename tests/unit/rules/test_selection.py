"""rules.selection: a property for each clause of spec/001 "Result Analysis", and the wording of the reason."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from loopai_trainer.errors import ConfigError
from loopai_trainer.records import Checkpoint, MetricRow
from loopai_trainer.rules.selection import best

NAN, INF = math.nan, math.inf
GSM8K = "val-core/openai/gsm8k/acc/mean@1"

steps = st.integers(1, 60)
losses = st.floats(1e-6, 1e6)
any_value = st.one_of(losses, st.sampled_from([NAN, INF, -INF]))
step_sets = st.sets(steps, max_size=8)


def train(step, loss):
    return MetricRow(step, "train", {"loss": loss})


def evaluation(step, loss):
    return MetricRow(step, "eval", {"eval_loss": loss})


def val(step, **values):
    return MetricRow(step, "val", values)


def saved(*at, complete=True, why=""):
    return [Checkpoint(f"checkpoint-{step}", step, f"/run/checkpoint-{step}", complete, why) for step in at]


def choose(rows, checkpoints, metric=None, mode=None, **more):
    return best(rows, checkpoints, metric, mode, **more)


def name(selection):
    return selection.checkpoint.name if selection.checkpoint else None


@st.composite
def histories(draw, kind=train, values=losses):
    return [kind(step, draw(values)) for step in sorted(draw(st.sets(steps, min_size=1, max_size=12)))]


class TestWhichMetric:
    @given(histories(evaluation), histories(train), step_sets)
    def test_the_lowest_eval_loss_decides_before_the_training_loss(self, evaluations, trained, at):
        found = choose([*trained, *evaluations], saved(*at)).metric
        assert (found.name, found.mode) == ("eval_loss", "min")
        assert found.value == min(row.values["eval_loss"] for row in evaluations)

    @given(histories(train), step_sets)
    def test_else_the_lowest_training_loss(self, trained, at):
        found = choose(trained, saved(*at)).metric
        assert (found.name, found.value) == ("loss", min(row.values["loss"] for row in trained))

    @given(histories(lambda step, value: val(step, **{GSM8K: value})), step_sets)
    def test_else_the_highest_validation_score(self, scored, at):
        found = choose(scored, saved(*at)).metric
        assert (found.name, found.mode, found.value) == (GSM8K, "max", max(row.values[GSM8K] for row in scored))

    @pytest.mark.parametrize("key", ["val-core/x/reward/mean@4", "val_score", "val-aux/x/score/mean@1", "val/accuracy"])
    def test_names_of_validation_scores(self, key):
        assert choose([val(5, **{key: 0.1}), val(10, **{key: 0.7})], saved(5, 10)).metric.step == 10

    @pytest.mark.parametrize("key", ["critic/score/mean", "critic/rewards/mean", "reward"])
    def test_without_validation_the_training_reward(self, key):
        rows = [MetricRow(5, "train", {key: 0.9}), MetricRow(10, "train", {key: 0.7})]
        assert choose(rows, saved(5, 10)).metric.step == 5

    def test_a_validation_score_decides_before_a_training_reward(self):
        rows = [MetricRow(5, "train", {"critic/score/mean": 0.9}), val(10, **{GSM8K: 0.1})]
        assert choose(rows, saved(5, 10)).metric.name == GSM8K

    def test_several_evaluation_sets_are_averaged(self):
        rows = [MetricRow(5, "eval", {"eval_a_loss": 1.0, "eval_b_loss": 3.0})]
        assert choose(rows, saved(5)).metric.value == 2.0

    @given(histories(lambda step, value: val(step, score=value)), st.sampled_from(["min", "max"]), step_sets)
    def test_the_configured_metric_decides_with_its_mode(self, scored, mode, at):
        found = choose([*scored, evaluation(1, 0.1)], saved(*at), "score", mode).metric
        wanted = {"min": min, "max": max}[mode](row.values["score"] for row in scored)
        assert (found.name, found.mode, found.value) == ("score", mode, wanted)

    @pytest.mark.parametrize(("metric", "mode"), [("eval_loss", "min"), ("perplexity", "min"), ("score", "max")])
    def test_a_metric_without_a_mode_has_its_usual_one(self, metric, mode):
        assert choose([MetricRow(5, "eval", {metric: 1.0})], saved(5), metric).metric.mode == mode

    @pytest.mark.parametrize("mode", ["maximize", "MAX", "", "lowest"])
    def test_another_mode_is_refused(self, mode):
        with pytest.raises(ConfigError, match="selection_mode"):
            choose([val(5, score=1.0)], saved(5), "score", mode)

    def test_a_metric_that_matches_nothing_is_said_and_the_general_rule_decides(self):
        found = choose([train(5, 1.0)], saved(5), "eval_loss", "min")
        assert found.metric.name == "loss"
        assert "the configured metric 'eval_loss' matched no finite value" in found.reason

    def test_where_losses_say_nothing_they_never_decide(self):
        rows = [train(5, 1.0), evaluation(5, 1.0)]
        found = choose(rows, saved(5, 10), "val-core/*", "max", losses_decide=False)
        assert found.metric is None
        assert name(found) == "checkpoint-10"
        assert "'val-core/*' matched no finite value" in found.reason

    def test_each_data_source_is_shown(self):
        rows = [val(5, **{GSM8K: 0.2, "val-core/math/acc/mean@4": 0.6})]
        found = choose(rows, saved(5), "val-core/*/acc/mean@*", "max")
        assert found.metric.sources == {"math": 0.6, "openai/gsm8k": 0.2}
        assert "mean over math 0.6, openai/gsm8k 0.2" in found.reason


class TestWhichStep:
    @given(histories(train), step_sets)
    def test_the_earliest_of_equal_values(self, trained, at):
        lowest = min(row.values["loss"] for row in trained)
        wanted = min(row.step for row in trained if row.values["loss"] == lowest)
        assert choose(trained, saved(*at)).metric.step == wanted

    @given(st.lists(st.tuples(steps, losses), min_size=1, max_size=20))
    def test_the_later_line_of_a_step_counts(self, lines):
        found = choose([evaluation(*line) for line in lines], saved(1))
        assert found.metric.value == min(dict(lines).values())
        assert choose([evaluation(*line) for line in dict(lines).items()], saved(1)).metric == found.metric

    def test_a_resume_is_said(self):
        warnings = choose([train(5, 2.0), train(10, 1.0), train(10, 1.5)], saved(10)).warnings
        assert warnings == ("a resume was found: step 10 occurs more than once, the last line of each counts",)

    @given(histories(evaluation, any_value), step_sets)
    def test_values_that_are_not_finite_are_ignored(self, rows, at):
        # Good training losses to the end: what is not finite is the evaluation's alone.
        found = choose([*rows, train(61, 1.0)], saved(*at)).metric
        finite = [row.values["eval_loss"] for row in rows if math.isfinite(row.values["eval_loss"])]
        assert (found.name, found.value) == (("eval_loss", min(finite)) if finite else ("loss", 1.0))

    def test_the_untrained_model_is_no_checkpoint(self):
        found = choose([val(0, score=0.9), val(5, score=0.4), val(10, score=0.6)], saved(5, 10), "score", "max")
        assert (found.metric.step, name(found)) == (10, "checkpoint-10")
        assert "the untrained model has the best score (0.9 at step 0): training did not help" in found.warnings

    def test_as_good_as_the_untrained_model_is_no_gain(self):
        found = choose([val(0, score=0.6), val(5, score=0.4), val(10, score=0.6)], saved(5, 10), "score", "max")
        told = "score never got better than the untrained model's (0.6 at step 0): training did not help"
        assert (found.metric.step, found.warnings) == (10, (told,))

    def test_step_0_alone_is_better_than_nothing(self):
        assert choose([val(0, score=0.9)], saved(5), "score", "max").metric.step == 0


class TestDiverged:
    @given(histories(train), st.integers(2, 60), st.sampled_from([0.0, NAN, INF]), step_sets)
    def test_nothing_at_or_after_a_diverged_step_is_chosen_while_there_is_an_earlier_one(
        self, trained, broken_at, value, at
    ):
        good = [row for row in trained if row.step < broken_at]
        assume(good)
        broken = [train(step, value) for step in range(broken_at, 62)]
        found = choose([*good, *broken], saved(*at))
        assert found.metric.step < broken_at
        assert any(warning.startswith("diverged") for warning in found.warnings)
        if any(step < broken_at for step in at):
            assert found.checkpoint.step < broken_at

    def test_zero_from_step_20_on(self):
        rows = [train(5, 2.1), train(10, 1.7), train(15, 1.5), *(train(step, 0.0) for step in (20, 25, 30))]
        found = choose(rows, saved(10, 20, 30))
        assert (name(found), found.exact, found.metric.step) == ("checkpoint-10", False, 15)
        assert "passed over: checkpoint-20 (training had diverged), checkpoint-30" in found.reason

    def test_only_diverged_checkpoints(self):
        found = choose([train(5, 2.1), train(10, NAN)], saved(10, 20))
        assert name(found) == "checkpoint-10"
        assert any("probably broken" in warning for warning in found.warnings)

    def test_only_diverged_checkpoints_and_no_metric(self):
        found = choose([train(10, NAN)], saved(10, 20))
        assert (name(found), found.metric) == ("checkpoint-10", None)
        assert "oldest" in found.reason


class TestWhichCheckpoint:
    @given(histories(train), step_sets)
    def test_exact_else_nearest_before_else_nearest(self, trained, at):
        found = choose(trained, saved(*at))
        step = found.metric.step
        before = [saved_step for saved_step in at if saved_step <= step]
        wanted = max(before) if before else min(at, key=lambda s: abs(s - step), default=None)
        assert (found.checkpoint.step if found.checkpoint else None) == wanted
        assert found.exact == (wanted == step)

    @given(histories(train), step_sets, step_sets)
    def test_incomplete_checkpoints_are_passed_over_and_named(self, trained, whole, damaged):
        checkpoints = [*saved(*whole), *saved(*(damaged - whole), complete=False, why="1 of 2 model shards")]
        found = choose(trained, checkpoints)
        assert found.checkpoint == choose(trained, saved(*whole)).checkpoint
        for step in sorted(damaged - whole)[:5]:
            assert f"checkpoint-{step} (1 of 2 model shards)" in found.reason

    def test_many_incomplete_checkpoints_are_counted(self):
        assert "and 3 more" in choose([train(1, 1.0)], saved(*range(1, 9), complete=False)).reason

    @given(step_sets, st.lists(st.builds(val, steps, score=st.sampled_from([NAN, INF])), max_size=3))
    def test_without_a_usable_metric_the_newest_complete_checkpoint(self, at, rows):
        found = choose(rows, [*saved(*at), *saved(99, complete=False)])
        assert (found.checkpoint.step if found.checkpoint else None) == max(at, default=None)
        assert found.metric is None
        assert not found.exact

    def test_a_better_checkpoint_that_is_left_is_told(self):
        rows = [evaluation(4, 0.5), evaluation(8, 0.9), evaluation(12, 0.7)]
        found = choose(rows, saved(8, 12))
        assert name(found) == "checkpoint-8"
        assert any("checkpoint-12 measured better than the chosen one" in warning for warning in found.warnings)

    def test_the_chosen_one_measured_best_of_those_left(self):
        assert choose([evaluation(4, 0.5), evaluation(8, 0.7), evaluation(12, 0.9)], saved(8, 12)).warnings == ()

    def test_the_chosen_one_was_never_measured(self):
        assert choose([evaluation(4, 0.5)], saved(3)).warnings == ()

    def test_no_checkpoint_at_all(self):
        found = choose([train(5, 1.0)], [])
        assert (found.checkpoint, found.metric.value) == (None, 1.0)
        assert found.reason == "No checkpoint can be used: the lowest loss 1 at step 5."

    def test_nothing_at_all(self):
        assert choose([], []).reason == "There is no usable checkpoint and no usable metric."


@given(
    st.lists(
        st.builds(
            MetricRow,
            st.integers(0, 60),
            st.sampled_from(["train", "eval", "val", "summary"]),
            st.dictionaries(st.sampled_from(["loss", "eval_loss", "grad_norm", GSM8K]), st.floats(), max_size=3),
            st.integers(1, 3),
        ),
        max_size=30,
    ),
    step_sets,
    st.sampled_from([None, "loss", "val-core/*", "nothing"]),
)
def test_anything_gives_one_sentence_and_a_finite_metric(rows, at, metric):
    found = choose(rows, saved(*at), metric, None)
    assert found.reason.endswith(".")
    assert "\n" not in found.reason
    assert found.metric is None or math.isfinite(found.metric.value)
    assert (found.checkpoint is None) == (not at)
