"""results.report: Markdown that stays a table whatever stands in it."""

import pytest
from fakes.finished_runs import FinishedRun, ending
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer import backends
from loopai_trainer.errors import TrainingFailed
from loopai_trainer.records import MetricRow, Problem
from loopai_trainer.results import report
from loopai_trainer.results.analysis import analyze_folder


@pytest.fixture
def finished(tmp_path):
    return FinishedRun(tmp_path)


def page(finished, **changes):
    analysis = analyze_folder(finished.run.path, backends.get("llamafactory", "sft"))
    values = {"status": "completed", "error": None, "settings": {"learning_rate": 1e-5}, "curve": "", "picture": "none"}
    return report.render(report.Report(finished.plan, analysis, ending(), **{**values, **changes}))


def test_a_failure_with_its_advice_and_findings(finished):
    found = [Problem("error", "STEPS_MISSING", "host", "stopped at\nstep 6")]
    error = TrainingFailed("it\ndied", code="EXIT_STATUS", hint="look", problems=found)
    text = page(finished, status="failed", error=error)
    assert "**EXIT_STATUS**: it died" in text
    assert "What to do: look" in text
    assert "- STEPS_MISSING: stopped at step 6" in text


def test_a_failure_without_advice(finished):
    text = page(finished, status="failed", error=TrainingFailed("died"))
    assert "What to do" not in text
    assert "Found:" not in text


def test_nothing_was_logged_or_saved(finished):
    finished.log([])
    for folder in finished.checkpoints.glob("checkpoint-*"):
        folder.rename(finished.path / folder.name.replace("checkpoint", "gone"))
    text = page(finished, settings={})
    assert "Training logged none." in text
    assert "None was saved." in text
    assert "## Settings" not in text
    assert "## Curve" not in text


def test_many_rows_are_thinned_and_it_is_said(finished):
    finished.log([1.0] * 200, [1.0] * 20)
    text = page(finished, curve="a curve")
    assert "30 of 220 rows; all are in metrics/metrics.jsonl." in text
    assert "```text\na curve\n```" in text


def test_of_verls_many_metrics_those_that_decide_come_first():
    values = dict.fromkeys((f"val-aux/a/{letter}/mean@1" for letter in "bcdefghij"), 0.0)
    values |= {"val-core/a/acc/mean@1": 0.5, "timing_s/gen": 1.0, "critic/score/mean": 0.25, "actor/loss": 0.1}
    head = report._metrics([MetricRow(1, "val", values)]).splitlines()[2]
    names = [name.strip() for name in head.strip("|").split("|")]
    assert names[:5] == ["step", "kind", "critic/score/mean", "actor/loss", "val-core/a/acc/mean@1"]
    assert "timing_s/gen" not in names


def test_damaged_checkpoints_say_why(finished):
    (finished.checkpoints / "checkpoint-40" / "model.safetensors").write_bytes(b"")
    assert "| checkpoint-40 | 40 | no: " in page(finished)


def test_text_cannot_break_a_table(finished):
    assert "| a \\| b c |" in page(finished, settings={"name": "a | b\nc"})


@given(st.integers(0, 400), st.integers(0, 400), st.integers(2, 60))
def test_thinning_keeps_the_ends_and_the_limit(trained, evaluated, limit):
    rows = sorted(
        [MetricRow(step, "train", {"loss": 1.0}) for step in range(trained)]
        + [MetricRow(step * 3, "eval", {"eval_loss": 1.0}) for step in range(evaluated)],
        key=lambda row: row.step,
    )
    kept = report.evenly(rows, limit)
    assert len(kept) <= max(limit, 2)
    assert kept == rows or (kept[0] is rows[0] and kept[-1] is rows[-1])
    assert [row.step for row in kept] == sorted(row.step for row in kept)
