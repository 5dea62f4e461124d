"""results.points: which curves, and thinning."""

from loopai_trainer.records import MetricRow
from loopai_trainer.results.points import curves, thin


def test_loss_and_eval_loss():
    rows = [MetricRow(5, "train", {"loss": 2.0, "lr": 1.0}), MetricRow(5, "eval", {"eval_loss": 1.0})]
    assert curves(rows) == {"loss": [(5, 2.0)], "eval_loss": [(5, 1.0)]}


def test_reward_and_score_of_verl():
    rows = [MetricRow(5, "train", {"critic/score/mean": 0.5}), MetricRow(5, "val", {"val-core/a/acc/mean@1": 0.2})]
    assert curves(rows) == {"critic/score/mean": [(5, 0.5)], "val-core/a/acc/mean@1": [(5, 0.2)]}


def test_no_curve():
    assert curves([MetricRow(5, "summary", {"train_loss": 1.0})]) == {}


def test_thinning_keeps_ends_and_peaks():
    points = [(step, 1.0) for step in range(10_000)]
    points[4321] = (4321, 9.0)
    points[7654] = (7654, 0.1)
    kept = thin(points, 100)
    assert len(kept) <= 104
    assert {(0, 1.0), (4321, 9.0), (7654, 0.1), (9999, 1.0)} <= set(kept)
    assert kept == sorted(kept)


def test_few_points_stay():
    assert thin([(1, 2.0)], 100) == [(1, 2.0)]
