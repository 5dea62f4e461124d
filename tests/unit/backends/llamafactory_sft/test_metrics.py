import math
from pathlib import Path

import pytest
from fakes.sft_plans import make_paths

from loopai_trainer.backends.llamafactory_sft.metrics import metrics_file, read_metrics

CASES = Path(__file__).parents[3] / "cases" / "llamafactory"


@pytest.mark.parametrize("case", ["full", "lora_2_ranks"])
def test_a_real_log(case):
    rows = read_metrics((CASES / case / "trainer_log.jsonl").read_bytes().splitlines(keepends=True))
    assert [row.step for row in rows if row.kind == "train"] == list(range(1, 13))
    assert [row.step for row in rows if row.kind == "eval"] == [4, 8, 12]
    assert [(row.kind, row.step) for row in rows][-1] == ("summary", 12)
    assert rows[0].values.keys() == {"total_steps", "loss", "lr", "epoch"}
    assert all(row.values["total_steps"] == 12 for row in rows)


def test_a_diverged_run_keeps_its_bare_nan():
    line = b'{"current_steps": 2, "total_steps": 8, "eval_loss": NaN, "loss": Infinity, "epoch": 0.5}\n'
    (row,) = read_metrics([line])
    assert row.kind == "eval" and math.isnan(row.values["eval_loss"]) and math.isinf(row.values["loss"])


@pytest.mark.parametrize(
    "line",
    [b'{"current_steps": 2, "tot', b"", b"\n", b"[1]", b"null", b'{"loss": 1.0}', b'{"current_steps": "2"}',
     b'{"current_steps": true}', b"\xff\xfe", b'{"current_steps": 1.5}'],
)  # fmt: skip
def test_what_is_no_metric_line_gives_nothing(line):
    assert read_metrics([line]) == []


def test_words_and_truth_values_are_no_metrics():
    (row,) = read_metrics([b'{"current_steps": 1, "loss": 2, "elapsed_time": "0:00:01", "ok": true, "reward": "x"}'])
    assert row.values == {"loss": 2.0} and row.kind == "train"


def test_evaluation_of_several_sets_is_an_evaluation():
    (row,) = read_metrics([b'{"current_steps": 1, "eval_math_loss": 2.0}'])
    assert row.kind == "eval"


def test_the_file_lies_beside_the_checkpoints(tmp_path):
    assert metrics_file(make_paths(tmp_path)) == str(tmp_path / "checkpoints" / "trainer_log.jsonl")
