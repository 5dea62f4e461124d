"""results.large_log: thinning never changes what is chosen."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopai_trainer.records import Checkpoint, MetricRow
from loopai_trainer.results import large_log
from loopai_trainer.rules.selection import best


def line(step, loss, key="loss"):
    return json.dumps({"current_steps": step, "total_steps": 10**6, key: loss, "lr": 1e-5})


def write(path, entries):
    path.write_text("".join(line(*entry) + "\n" for entry in entries))
    return str(path)


def rows(lines):
    found = []
    for text in lines:
        entry = json.loads(text) if text else {}
        kind = "eval" if "eval_loss" in entry else "train"
        values = {key: entry[key] for key in ("loss", "eval_loss") if key in entry}
        if values:
            found.append(MetricRow(entry["current_steps"], kind, values))
    return found


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(large_log, "BLOCK_BYTES", 700)


def test_most_training_lines_are_left_out_and_counted(tmp_path):
    path = write(tmp_path / "log", [(step, 2 - step / 1000) for step in range(1, 501)])
    thinned = large_log.thin(path)
    assert len(rows(thinned.lines)) + thinned.left_out == 500
    assert thinned.left_out > 150


def test_evaluation_lines_all_stay(tmp_path):
    entries = [entry for step in range(1, 301) for entry in ((step, 1.5), (step, 1.2, "eval_loss"))]
    thinned = large_log.thin(write(tmp_path / "log", entries))
    assert sum(row.kind == "eval" for row in rows(thinned.lines)) == 300


@pytest.mark.parametrize(
    "entries",
    [
        [(1, 2.0), (2, 1.0), (2, 1.5)],
        [(1, 2.0), (2, 1.0), (1, 1.5), (2, 1.2), (3, 1.0)],
        [(step, 1.0) for step in range(1, 100)] + [(step, 1.0) for step in range(50, 60)],
    ],
)
def test_steps_that_go_back_are_not_thinned(tmp_path, entries):
    assert large_log.thin(write(tmp_path / "log", entries)) is None


def test_uneven_strides_are_looked_at_one_by_one(tmp_path):
    assert large_log.thin(write(tmp_path / "log", [(1, 1.0), (5, 1.0), (6, 1.0)])) is not None


@pytest.mark.parametrize("content", ['{"loss": x}\n', '{"loss": 1.0}\n', '{"current_steps": 1, "loss": \n'])
def test_lines_of_another_form_are_not_thinned(tmp_path, content):
    (tmp_path / "log").write_text(content)
    assert large_log.thin(str(tmp_path / "log")) is None


def test_wanted_steps_stay(tmp_path):
    even = write(tmp_path / "even", [(step, 1.0) for step in range(10, 5000, 10)])
    uneven = write(tmp_path / "uneven", [(step * step, 1.0) for step in range(1, 500)])
    for path, wanted in ((even, {1230, 4000}), (uneven, {121 * 121, 300 * 300})):
        thinned = large_log.thin(path, wanted | {7})
        assert wanted <= {row.step for row in rows(thinned.lines)}
        assert thinned.left_out > 100


def test_an_empty_log(tmp_path):
    (tmp_path / "log").write_text("")
    assert large_log.thin(str(tmp_path / "log")) == ([], 0)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from([0.0, float("nan"), float("inf"), 1.0, 0.5, 0.25, 1e-4])),
        min_size=1,
        max_size=25,
    ),
    st.sets(st.integers(1, 300), max_size=5),
)
def test_the_choice_is_that_of_the_whole_log(tmp_path_factory, runs, at):
    """Runs of equal losses, as a diverging training logs them."""
    losses = [loss for count, loss in runs for _ in range(count)]
    path = write(tmp_path_factory.getbasetemp() / "log", list(enumerate(losses, 1)))
    checkpoints = [Checkpoint(f"checkpoint-{step}", step, f"/{step}", True) for step in at]
    with open(path) as file:
        whole = rows(file.read().splitlines())
    thinned = rows(large_log.thin(path, at).lines)
    assert best(thinned, checkpoints, None, None) == best(whole, checkpoints, None, None)
