"""results.metric_files: every form in which metrics lie about, and damage."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.records import MetricRow
from loopai_trainer.results import metric_files


def row_of(line):
    """A reader as a backend has one; it may raise for rubbish, as a careless one would."""
    entry = json.loads(line)
    return MetricRow(int(entry["current_steps"]), "train", {"loss": float(entry["loss"])})


def careless(lines):
    return [row_of(line) for line in lines if line]


def test_lines_come_in_blocks_and_the_last_needs_no_newline(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nthree")
    assert [line for block in metric_files.line_blocks(str(path), 5) for line in block] == [b"one", b"two", b"three"]


def test_a_missing_file_has_no_lines(tmp_path):
    assert list(metric_files.line_blocks(str(tmp_path / "none"))) == []
    assert metric_files.tail(str(tmp_path / "none")) == []
    assert metric_files.state_rows(str(tmp_path / "none")) == ([], None)


def test_a_line_that_the_reader_cannot_take_costs_itself_alone(tmp_path):
    path = tmp_path / "log"
    deep = b"[" * 100_000
    path.write_bytes(
        b'{"current_steps": 1, "loss": 2}\n' + deep + b'\n\x00\xff\n{"current_steps": 2, "loss": 1}\n{"cur'
    )
    assert [row.step for row in metric_files.training_rows(str(path), careless)] == [1, 2]


def test_attempts_can_be_given(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b'{"current_steps": 1, "loss": 2}\n')
    assert metric_files.training_rows(str(path), careless, 3)[0].attempt == 3


def test_our_own_rows_and_null_is_nan(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = [
        '{"step": 5, "attempt": 2, "kind": "train", "values": {"loss": 1.5, "grad_norm": null, "x": "x", "on": true}}',
        '{"step": 6, "kind": "strange", "values": {}}',
        '{"step": "7", "kind": "train", "values": {}}',
        '{"step": 8, "kind": "train", "values": 5}',
        '{"step": 9, "kind"',
        "[1]",
    ]
    path.write_text("\n".join(lines))
    (row,) = metric_files.normalised_rows(str(path))
    assert (row.step, row.attempt, row.kind, row.values["loss"]) == (5, 2, "train", 1.5)
    assert math.isnan(row.values["grad_norm"])
    assert set(row.values) == {"loss", "grad_norm"}


@pytest.mark.parametrize("wrap", [lambda metrics: {"task_info": {}, "metrics": metrics}, lambda metrics: metrics])
def test_loopai_metrics_json(tmp_path, wrap):
    path = tmp_path / "metrics.json"
    entries = [
        {"step": 5, "loss": "0.1469", "epoch": 1, "log_line": "{'loss': ...}", "timestamp": "2026"},
        {"step": 5, "eval_loss": 0.7, "loss": None},
        {"current_steps": 6, "val_score": 0.5},
        {"epoch": 1.0, "step": 7},
        {"loss": 3.0},
        "rubbish",
    ]
    path.write_text(json.dumps(wrap(entries)))
    found = [(row.step, row.kind) for row in metric_files.legacy_rows(str(path))]
    assert found == [(5, "train"), (5, "eval"), (6, "val")]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"5", b'{"metrics": 5}', b"[" * 100_000])
def test_damaged_metrics_json_gives_nothing(tmp_path, content):
    path = tmp_path / "metrics.json"
    path.write_bytes(content)
    assert metric_files.legacy_rows(str(path)) == []
    assert metric_files.state_rows(str(path)) == ([], None)


def test_trainer_state(tmp_path):
    path = tmp_path / "trainer_state.json"
    history = (
        '[{"step": 2, "loss": 5.6, "grad_norm": NaN}, {"step": 4, "eval_loss": 3.2}, {"step": 4, "train_loss": 4.0}]'
    )
    path.write_text(f'{{"log_history": {history}, "max_steps": 14}}')
    rows, planned = metric_files.state_rows(str(path))
    assert [(row.step, row.kind) for row in rows] == [(2, "train"), (4, "eval"), (4, "summary")]
    assert planned == 14


def test_the_tail_begins_with_a_whole_line(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"first line\nsecond line\nthird")
    assert metric_files.tail(str(path), 15) == [b"third"]
    assert metric_files.tail(str(path)) == [b"first line", b"second line", b"third"]


@pytest.mark.parametrize(
    ("value", "wanted"), [(1, 1.0), ("0.5", 0.5), (True, None), ("x", None), ([1], None), (10**400, None)]
)
def test_number(value, wanted):
    assert metric_files.number(value) == wanted


@given(st.binary(max_size=300))
def test_no_bytes_make_it_raise(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "rubbish"
    path.write_bytes(content)
    metric_files.normalised_rows(str(path))
    metric_files.legacy_rows(str(path))
    metric_files.state_rows(str(path))
