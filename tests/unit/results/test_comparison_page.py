"""results.comparison_page: several runs on one page, with curves or without."""

import sys

import pytest
from fakes.pages import Page

from loopai_trainer.records import MetricRow
from loopai_trainer.results.comparison_page import Compared, render, short_names

NASTY = "</td><script>alert(1)</script>"


def compared(version, *losses, **changes):
    row = {
        "version_id": version,
        "run_dir": f"/runs/{version}",
        "status": "completed",
        "best_metric": {"name": "loss", "mode": "min", "value": 0.5, "step": 2},
        "best_checkpoint_name": "checkpoint-2",
        "best_step": 2,
        "checkpoint_count": 1,
        "metric_count": len(losses),
        "duration_s": 3.2,
        "last_error": None,
    }
    return Compared({**row, **changes}, [MetricRow(step, "train", {"loss": loss}) for step, loss in enumerate(losses)])


EMPTY = {"best_metric": None, "best_checkpoint_name": None, "best_step": None, "duration_s": None}
RUNS = [compared("a", 2.0, 1.0), compared("b", status="failed", last_error=NASTY, **EMPTY)]
DIFFERENCES = [{"key": "seed", "values": {"a": 1, "b": "0123456789abcdef" * 4}}, {"key": NASTY, "values": {"a": NASTY}}]


def test_the_runs_their_differences_and_errors():
    text = render(RUNS, "ranked by loss (min)", DIFFERENCES)
    page = Page(text)
    assert page.problems == [] and page.loads() == []
    for wanted in (
        "Comparison of 2 runs",
        "ranked by loss (min)",
        "loss = 0.5",
        "/runs/b",
        "seed",
        "0123456789ab",
        NASTY,
    ):
        assert wanted in page.text
    assert "0123456789abc" not in page.text
    assert '<tr class="marked"><td>a</td>' in text
    assert len(page.scripts) == 3


def test_no_winner_is_marked_without_a_ranking():
    assert 'class="marked"' not in render(RUNS, "not ranked: no run has a metric yet", [])


@pytest.mark.parametrize(("runs", "told"), [(RUNS, "loss   (by step)"), (RUNS[1:], "No run has logged a curve.")])
def test_without_bokeh_the_curves_are_text(monkeypatch, runs, told):
    monkeypatch.setitem(sys.modules, "bokeh.embed", None)
    page = Page(render(runs, "m", []))
    assert page.scripts == []
    assert told in page.text
    assert "The plans do not differ." in page.text


def test_long_version_ids_are_named_by_what_tells_them_apart():
    assert short_names(["a", "b"]) == ["a", "b"]
    first, second = "0199aa01-7c3e-7d2a-9b1f-2f0c7a7e1b01", "0199aa01-7c3e-7d2a-9b1f-2f0c7a7e1b02"
    assert short_names([first, second]) == ["\u20267a7e1b01", "\u20267a7e1b02"]
    assert short_names(["x" * 20 + "1" * 8, "y" * 20 + "1" * 8, "z"]) == [
        "\u2026" + "x" + "1" * 8,
        "\u2026" + "y" + "1" * 8,
        "z",
    ]
