"""results.outcome: a verl run is judged by its own few keys (interface section 7)."""

import math

import pytest
from fakes.finished_runs import ending

from loopai_trainer.backends.verl_grpo import BACKEND as VERL
from loopai_trainer.records import Artefact, Checkpoint, MetricRow, Selection
from loopai_trainer.results.analysis import Analysis
from loopai_trainer.results.outcome import Evidence, judge, last_values


def analysis_of(rows):
    chosen = Selection(Checkpoint("global_step_40", 40, "/x", True), None, False, "because.")
    return Analysis("/run", chosen, tuple(rows), (), False, False, 40, 0, ())


def judged(values):
    rows = [MetricRow(40, "train", values)]
    evidence = Evidence(VERL.judged_by, analysis_of(rows), Artefact("/x", True, True), (), lambda: None)
    return judge(ending(), evidence)


@pytest.mark.parametrize("key", ["actor/loss", "actor/grad_norm", "critic/score/mean"])
def test_these_must_be_finite(key):
    status, error = judged({key: math.nan})
    assert (status, error.code) == ("failed", "DIVERGED")


def test_other_keys_may_be_null():
    assert judged({"actor/loss": 0.1, "timing_s/ref": math.nan}) == ("completed", None)


def test_last_values():
    assert last_values(analysis_of([]), ("train",)) is None
