"""results.live_curve: each byte is read once, and memory does not grow with the run."""

import json
from pathlib import Path

import pytest

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.results import live_curve
from loopai_trainer.results.live_curve import LiveCurve


@pytest.fixture
def run(tmp_path):
    run = RunDir(str(tmp_path / "v1"))
    Path(run.metrics).mkdir(parents=True)
    Path(run.inputs).mkdir()
    return run


def row(step, kind="train", **values):
    return json.dumps({"step": step, "kind": kind, "attempt": 1, "values": values}) + "\n"


def add(run, text):
    with open(run.metric_rows, "a") as file:
        file.write(text)


def test_it_grows_with_the_file_by_whole_lines(run):
    curve = LiveCurve(run)
    curve.update()
    assert curve.curves() == {}
    add(run, row(1, loss=2.0, lr=1e-5, total_steps=9) + row(2, loss=None) + "5\n{torn\n" + row(3, loss=1.0)[:-5])
    curve.update()
    assert curve.curves() == {"loss": [(1, 2.0)]}
    assert curve.latest == {"loss": 2.0, "lr": 1e-5}
    add(run, row(3, loss=1.0)[-5:] + row(3, "eval", eval_loss=1.5))
    curve.update()
    assert curve.curves() == {"loss": [(1, 2.0), (3, 1.0)], "eval_loss": [(3, 1.5)]}


def test_the_steps_of_an_earlier_round_come_first(run):
    Path(run.earlier_metrics).write_text(row(1, loss=3.0))
    add(run, row(2, loss=2.0))
    curve = LiveCurve(run)
    curve.update()
    assert curve.curves() == {"loss": [(1, 3.0), (2, 2.0)]}


def test_a_reward_where_there_is_no_loss(run):
    add(run, row(1, **{"critic/score/mean": 0.25, "actor/lr": 1e-6}))
    curve = LiveCurve(run)
    curve.update()
    assert curve.curves() == {"critic/score/mean": [(1, 0.25)]}


@pytest.mark.parametrize("lines", [40, 5000])
def test_a_long_run_is_thinned_but_its_evaluations_stay(run, monkeypatch, lines):
    monkeypatch.setattr(live_curve, "_MOST_ROWS", 100)
    monkeypatch.setattr(live_curve, "_MOST_LINES", lines)
    add(run, "".join(row(step, loss=1 / step) for step in range(1, 1001)) + row(1, "eval", eval_loss=1.0))
    add(run, "".join(row(step, loss=1 / step) for step in range(1001, 2001)))
    curve = LiveCurve(run)
    curve.update()
    found = curve.curves()
    assert len(found["loss"]) <= 100
    assert found["loss"][-1][0] == 2000
    assert found["eval_loss"] == [(1, 1.0)]
