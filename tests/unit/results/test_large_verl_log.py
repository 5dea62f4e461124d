"""results.large_verl_log: thinning never changes what is chosen."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopai_trainer import backends
from loopai_trainer.records import Checkpoint
from loopai_trainer.results import large_log, large_verl_log
from loopai_trainer.results.analysis import Rule, analyze_folder
from loopai_trainer.rules.selection import best
from loopai_trainer.rules.series import diverged_from, latest

VERL = backends.get("verl", "grpo")
SCORE = "val-core/gsm8k/acc/mean@1"


def line(step, score=None, loss=0.5, **more):
    data = {"actor/loss": loss, "critic/score/mean": 0.1, "response_length/mean": 12.0, **more}
    return json.dumps({"step": step, "data": data if score is None else {**data, SCORE: score}}).encode()


def write(path, lines):
    path.write_bytes(b"".join(one + b"\n" for one in lines))
    return str(path)


def run_of(count, every=20):
    return [line(step, score=step / count if step % every == 0 else None) for step in range(1, count + 1)]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(large_verl_log, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(large_verl_log, "CURVE_LINES", 10)


def test_most_lines_are_left_out_and_counted(tmp_path):
    thinned = large_verl_log.thin(write(tmp_path / "m", run_of(400)))
    assert len(thinned.lines) + thinned.left_out == 400
    assert thinned.left_out > 150
    assert sum(SCORE.encode() in one for one in thinned.lines) == 20


def test_lines_of_checkpoints_stay(tmp_path):
    thinned = large_verl_log.thin(write(tmp_path / "m", run_of(400)), (37, 333))
    assert {37, 333} <= {json.loads(one)["step"] for one in thinned.lines}


@pytest.mark.parametrize(
    "lines",
    [
        [line(1, 0.1), line(2), line(2)],
        [line(3, 0.1), line(1)],
        [line(1, 0.1), b"rubbish"],
        [line(step) for step in range(1, 50)],
        [line(step, **{"val-aux/turns/mean": 1.0}) for step in range(1, 50)],
    ],
)
def test_where_every_line_may_matter_nothing_is_thinned(tmp_path, lines):
    assert large_verl_log.thin(write(tmp_path / "m", lines)) is None


@pytest.mark.parametrize("loss", ["null", "NaN", "Infinity", "-Infinity"])
def test_a_loss_that_is_no_number_keeps_its_whole_block(tmp_path, loss):
    lines = run_of(400)
    lines[199] = line(200, 0.5).replace(b'"actor/loss": 0.5', b'"actor/loss": ' + loss.encode())
    thinned = large_verl_log.thin(write(tmp_path / "m", lines))
    kept = {json.loads(one)["step"] for one in thinned.lines}
    assert 200 in kept and len(kept & set(range(193, 208))) >= 5


scores = st.one_of(st.none(), st.none(), st.sampled_from([0.1, 0.5, 0.9, None]), st.just(float("nan")))
losses = st.sampled_from([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, -1e-07, None, float("inf")])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(scores, losses), min_size=1, max_size=120),
    st.sets(st.integers(1, 120), max_size=5),
)
def test_the_choice_is_the_same(tmp_path_factory, told, saved):
    lines = [line(step, score, loss) for step, (score, loss) in enumerate(told, 1)]
    path = write(tmp_path_factory.mktemp("m") / "m", lines)
    thinned = large_verl_log.thin(path, saved)
    if thinned is None:
        return
    checkpoints = [Checkpoint(f"global_step_{step}", step, "/c", True) for step in sorted(saved)]
    chosen = []
    for kept in (lines, thinned.lines):
        rows = VERL.read_metrics(kept)
        choice = best(rows, checkpoints, "val-core/*/acc/mean@*", "max", losses_decide=False)
        chosen.append((choice, diverged_from(latest(rows).rows)))
    if chosen[0][0].metric is None or chosen[0][0].metric.name.startswith("val-"):
        assert chosen[0] == chosen[1]


def test_a_large_file_is_thinned_and_says_the_same(tmp_path, monkeypatch):
    folder = tmp_path / "metrics"
    folder.mkdir()
    write(folder / "verl_metrics-1.jsonl", run_of(300))
    rule = Rule("val-core/*/acc/mean@*", "max", False)
    whole = analyze_folder(str(tmp_path), VERL, rule)
    monkeypatch.setattr(large_log, "LARGE_BYTES", 1000)
    thinned = analyze_folder(str(tmp_path), VERL, rule)
    assert thinned.left_out > 100
    assert thinned.selection == whole.selection and thinned.summary() == whole.summary()
    assert {row.attempt for row in thinned.rows} == {1}
    by_training = analyze_folder(str(tmp_path), VERL, Rule("critic/score/mean", "max", False))
    assert by_training.left_out == 0
