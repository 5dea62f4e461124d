"""rules.series: last lines, globs, diverged tails."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.records import MetricRow
from loopai_trainer.rules.series import columns, diverged_from, latest, named

NAN, INF = math.nan, math.inf


def train(step, loss, **more):
    return MetricRow(step, "train", {"loss": loss, **more})


def evaluation(step, loss, name="eval_loss"):
    return MetricRow(step, "eval", {name: loss})


def val(step, **values):
    return MetricRow(step, "val", values)


def points(series):
    return [(point.step, point.value) for point in series.points]


class TestLatest:
    def test_the_later_line_of_a_step_counts_and_the_repeat_is_told(self):
        history = latest([evaluation(20, 1.1), evaluation(30, 0.9), evaluation(30, 1.25)])
        assert [row.values["eval_loss"] for row in history.rows] == [1.1, 1.25]
        assert history.repeated == (30,)

    def test_kinds_of_one_step_stand_side_by_side(self):
        history = latest([train(5, 1.0), evaluation(5, 2.0)])
        assert len(history.rows) == 2
        assert history.repeated == ()

    def test_a_line_without_a_metric_is_no_point(self):
        assert latest([MetricRow(40, "train", {})]).rows == ()

    def test_evaluation_sets_of_one_step_complete_each_other(self):
        history = latest([evaluation(5, 1.0, "eval_a_loss"), evaluation(5, 2.0, "eval_b_loss")])
        assert history.rows[0].values == {"eval_a_loss": 1.0, "eval_b_loss": 2.0}
        assert history.repeated == ()

    @pytest.mark.parametrize("value", [1.5, NAN])
    def test_the_same_evaluation_logged_twice_is_no_resume(self, value):
        assert latest([evaluation(5, value), evaluation(5, value)]).repeated == ()

    def test_a_summary_is_never_a_resume(self):
        summary = MetricRow(9, "summary", {"train_loss": 1.0})
        assert latest([summary, MetricRow(9, "summary", {"train_loss": 2.0})]).repeated == ()

    def test_the_plan_in_a_row_is_no_repeat(self):
        rows = [MetricRow(5, "train", {"total_steps": 9.0, "loss": 1.0}), MetricRow(5, "train", {"total_steps": 9.0})]
        assert latest(rows).repeated == ()

    def test_another_attempt_replaces_the_whole_row(self):
        history = latest([MetricRow(5, "train", {"loss": 1.0, "kl": 2.0}), MetricRow(5, "train", {"loss": 3.0}, 2)])
        assert history.rows[0].values == {"loss": 3.0}

    @given(st.lists(st.tuples(st.integers(0, 20), st.floats()), max_size=40))
    def test_any_order_of_lines_gives_one_row_a_step_with_the_last_value(self, lines):
        history = latest(train(step, loss) for step, loss in lines)
        wanted = dict(lines)
        assert [row.step for row in history.rows] == sorted(wanted)
        assert all(repr(row.values["loss"]) == repr(wanted[row.step]) for row in history.rows)


class TestNamed:
    def test_an_exact_name_beats_what_it_would_match_as_a_glob(self):
        table = columns([val(1, **{"a[1]": 1.0, "a1": 2.0})])
        assert named(table, "a[1]").name == "a[1]"

    def test_nothing_matches(self):
        assert named(columns([train(1, 1.0)]), "val-core/*") is None

    def test_only_non_finite_values_match(self):
        assert named(columns([train(1, NAN)]), "loss") is None

    def test_kinds_can_be_narrowed(self):
        assert named(columns([train(1, 1.0)]), "loss", ("eval",)) is None

    def test_the_largest_n_speaks_for_a_data_source(self):
        table = columns([val(5, **{f"val-core/openai/gsm8k/acc/mean@{n}": n / 100 for n in (1, 16, 8)})])
        series = named(table, "val-core/*/acc/mean@*")
        assert (series.name, points(series)) == ("val-core/openai/gsm8k/acc/mean@16", [(5, 0.16)])

    def test_mean_speaks_before_best_and_majority(self):
        keys = {"val-core/a/acc/best@8/mean": 0.9, "val-core/a/acc/maj@8/mean": 0.8, "val-core/a/acc/mean@8": 0.5}
        assert points(named(columns([val(5, **keys)]), "val-core/*")) == [(5, 0.5)]

    def test_accuracy_speaks_before_reward(self):
        keys = {"val-core/a/reward/mean@8": 0.9, "val-core/a/acc/mean@1": 0.5}
        assert points(named(columns([val(5, **keys)]), "val-core/*/mean@*")) == [(5, 0.5)]

    def test_several_data_sources_are_averaged_and_each_is_told(self):
        keys = {"val-core/openai/gsm8k/acc/mean@1": 0.2, "val-core/math/acc/mean@4": 0.6}
        series = named(columns([val(5, **keys)]), "val-core/*/acc/mean@*")
        assert series.name == "val-core/*/acc/mean@*"
        assert series.points[0].value == pytest.approx(0.4)
        assert series.points[0].sources == {"math": 0.6, "openai/gsm8k": 0.2}

    def test_a_step_that_lacks_a_source_is_no_point(self):
        rows = [val(5, a=0.1, b=0.2), val(10, a=0.9), val(15, a=0.3, b=NAN), val(20, a=0.2, b=0.4)]
        assert [step for step, _ in points(named(columns(rows), "?"))] == [5, 20]

    def test_sources_that_never_meet_give_no_series(self):
        assert named(columns([val(5, a=0.1), val(10, b=0.2)]), "?") is None

    def test_the_mean_of_huge_values_stays_finite(self):
        assert math.isfinite(named(columns([val(5, a=1.7e308, b=1.7e308)]), "?").points[0].value)

    def test_summaries_are_no_points(self):
        assert named(columns([MetricRow(9, "summary", {"loss": 1.0})]), "loss") is None


class TestDivergedFrom:
    @pytest.mark.parametrize(
        ("rows", "step"),
        [
            ([], None),
            ([train(5, 2.0), train(10, 1.0)], None),
            ([train(5, 1.5), train(10, 0.0), train(15, 0.0)], 10),
            ([train(5, 0.0), train(10, 0.0)], None),
            ([train(5, 0.0), train(10, 1.0), train(15, 0.0)], 15),
            ([train(5, 1.5), train(10, 0.0), train(15, 1.0)], 10),
            ([train(5, 1.5), train(10, NAN), train(15, NAN)], 10),
            ([train(5, 1.5), train(10, INF), train(15, 1.0)], None),
            ([train(5, 1.5), train(10, NAN), train(15, 1.0), train(20, NAN)], 20),
            ([train(5, NAN)], 5),
            ([train(5, 1.5, grad_norm=1.0), train(10, 1.4, grad_norm=NAN)], 10),
            ([train(5, 1.5, grad_norm=NAN), train(10, 1.4)], None),
            ([train(5, 1.5), evaluation(5, 2.0), evaluation(10, NAN)], 10),
            ([train(5, 1.5), evaluation(5, NAN), train(10, 1.4), evaluation(10, NAN)], None),
            ([train(5, 1.5), evaluation(5, 2.0), evaluation(10, NAN), train(15, 1.4)], None),
            ([MetricRow(5, "train", {"actor/loss": 0.0}), MetricRow(6, "train", {"actor/loss": NAN})], 6),
            ([MetricRow(5, "train", {"actor/loss": 0.1}), MetricRow(6, "train", {"actor/loss": 0.0})], None),
            ([train(5, 1.5), MetricRow(9, "summary", {"loss": NAN})], None),
        ],
    )
    def test_table(self, rows, step):
        assert diverged_from(rows) == step
