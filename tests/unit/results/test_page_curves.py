"""results.page_curves: which panels a run has, and curves that never fail a page."""

import math
import sys

import pytest
from fakes.finished_runs import strict

from loopai_trainer.records import MetricRow
from loopai_trainer.results import page_curves
from loopai_trainer.results.page_curves import Line, Panel, drawing, panels, together

SFT = [
    MetricRow(1, "train", {"loss": 2.0, "lr": 1e-5, "epoch": 0.5}),
    MetricRow(2, "train", {"loss": math.nan, "lr": 9e-6}),
    MetricRow(3, "train", {"loss": 1.0, "lr": 8e-6}),
    MetricRow(3, "eval", {"eval_loss": 1.5, "eval_a_loss": 1.4}),
]
VERL = [
    MetricRow(1, "train", {"critic/score/mean": 0.1, "actor/grad_norm": 0.3, "response_length/mean": 50.0}),
    MetricRow(1, "val", {"val-core/math/reward/mean@1": 0.2}),
]


def test_the_panels_of_an_sft_run_have_finite_points_alone():
    loss, rate = panels(SFT)
    assert loss == Panel(
        "Loss",
        (
            Line("loss", [(1, 2.0), (3, 1.0)], 0),
            Line("eval_loss", [(3, 1.5)], 1),
            Line("eval_a_loss", [(3, 1.4)], 2),
        ),
    )
    assert (rate.title, [line.name for line in rate.lines]) == ("Learning rate", ["lr"])


def test_the_panels_of_a_verl_run():
    titles = ["Reward", "Validation score", "Response length, tokens", "Gradient norm"]
    assert [panel.title for panel in panels(VERL)] == titles


def test_no_rows_no_panels():
    assert panels([]) == ()
    assert drawing(()) is None


def test_several_runs_share_a_panel_one_colour_each():
    loss, *_ = together([("a", panels(SFT)), ("b", panels(SFT[:1])), ("c", ())])
    assert [(line.name, line.colour, line.dash) for line in loss.lines] == [
        ("a: loss", 0, 0),
        ("a: eval_loss", 0, 1),
        ("a: eval_a_loss", 0, 2),
        ("b: loss", 1, 0),
    ]


def test_the_drawing_is_strict_json_and_names_are_data():
    nasty = "</script><script>alert(1)</script>" + "n" * 100
    made = drawing([Panel("Loss", (Line(nasty, [(1, 1e-9), (2, 1.0)]), Line("few", [(1, 1.0)])))], [2])
    assert made is not None
    item = strict(made.item)
    assert item["target_id"] == "curves"
    assert "(logarithmic)" in str(item)
    assert "n" * 61 not in str(item)
    assert 0 < len(made.library) < 2_000_000
    assert "</script" not in made.library


def test_without_bokeh_there_is_no_drawing(monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh.embed", None)
    assert drawing(panels(SFT)) is None


@pytest.mark.parametrize("fault", [AttributeError("gone"), TypeError("other"), ValueError("value")])
def test_a_bokeh_that_does_not_work_costs_the_curves_alone(monkeypatch, caplog, fault):
    def broken(*_):
        raise fault

    monkeypatch.setattr(page_curves, "_drawn", broken)
    assert drawing(panels(SFT)) is None
    assert "Bokeh could not draw" in caplog.text
