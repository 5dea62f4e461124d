"""results.analysis: the cases from the field, all sources of metrics, and damage."""

import json
import shutil
from pathlib import Path

import pytest
from fakes.finished_runs import NAN, FinishedRun, save_model, strict

from loopai_trainer import backends
from loopai_trainer.errors import ConfigError
from loopai_trainer.results import large_log
from loopai_trainer.results.analysis import Rule, analyze_folder

CASES = Path(__file__).parents[2] / "cases" / "results"
VERL = Rule("val-core/*/acc/mean@*", "max", losses_decide=False)
SFT = backends.get("llamafactory", "sft")


def sft(path, **rule):
    return analyze_folder(str(path), SFT, Rule(**rule))


def verl(path):
    return analyze_folder(str(path), backends.get("verl", "grpo"), VERL)


@pytest.fixture
def finished(tmp_path):
    return FinishedRun(tmp_path)


class TestCases:
    def test_sup_05b_a_loss_of_zero_is_filtered_nan(self):
        found = sft(CASES / "SUP-05B" / "out")
        assert found.selection.checkpoint.name == "checkpoint-10"
        assert (found.diverged, found.resumed) == (True, False)
        assert any("diverged" in warning for warning in found.warnings)

    def test_sup_06a_steps_occur_twice_after_a_resume(self):
        found = sft(CASES / "SUP-06A" / "out")
        values = {row.step: row.values["eval_loss"] for row in found.measured}
        assert values == {10: 1.4, 20: 1.1, 30: 1.25, 40: 1.2}
        assert (found.selection.checkpoint.name, found.selection.metric.value) == ("checkpoint-20", 1.1)
        assert found.resumed
        assert found.summary()["resumed"] is True
        assert any("resume" in warning for warning in found.warnings)

    def test_sup_07a_the_best_step_has_no_checkpoint(self):
        found = verl(CASES / "SUP-07A")
        assert (found.selection.metric.value, found.selection.metric.step) == (0.48, 15)
        assert (found.selection.checkpoint.name, found.selection.exact) == ("global_step_10", False)
        assert "step 15" in found.selection.reason
        assert "step 10" in found.selection.reason
        assert "inexact" in found.selection.reason

    def test_sup_08b_the_tracker_names_a_checkpoint_without_all_shards(self):
        found = verl(CASES / "SUP-08B")
        assert found.selection.checkpoint.name == "global_step_20"
        assert "global_step_30 (1 of 2 model shards)" in found.selection.reason
        assert "latest_checkpointed_iteration.txt says 30, but global_step_30 is not complete" in found.warnings


class TestData:
    def test_its_shape(self, finished):
        data = strict(sft(finished.path).data())
        assert set(data) == {"run_dir", "best_checkpoint", "best_metric", "summary", "checkpoints", "metrics"}
        path = str(finished.checkpoints / "checkpoint-30")
        assert data["best_checkpoint"] == {"name": "checkpoint-30", "step": 30, "path": path, "exact": True}
        assert data["best_metric"] == {"name": "eval_loss", "mode": "min", "value": 0.9, "step": 30}
        assert data["checkpoints"][0] == {
            "name": "checkpoint-10",
            "step": 10,
            "path": str(finished.checkpoints / "checkpoint-10"),
            "complete": True,
            "why": None,
        }
        first = {"step": 5, "attempt": 1, "kind": "train", "values": {"loss": 2.0, "lr": 1e-5, "epoch": 0.125}}
        assert data["metrics"][0] == first

    def test_its_summary(self, finished):
        summary = strict(sft(finished.path).summary())
        assert summary == {
            "best_metric": {"name": "eval_loss", "mode": "min", "value": 0.9, "step": 30},
            "best_metric_sources": {},
            "best_checkpoint_name": "checkpoint-30",
            "best_checkpoint_path": str(finished.checkpoints / "checkpoint-30"),
            "checkpoint_count": 4,
            "complete_checkpoint_count": 4,
            "metric_count": 12,
            "last_step": 40,
            "total_steps": 40,
            "resumed": False,
            "diverged": False,
            "reason": "checkpoint-30 was chosen: lowest eval_loss 0.9 at step 30, saved at exactly that step.",
            "warnings": [],
        }

    def test_what_is_not_finite_becomes_null(self, finished):
        finished.log([2.0, NAN, float("inf"), 1.0], [float("-inf"), 1.0])
        data = strict(sft(finished.path).data())
        assert [row["values"].get("loss") for row in data["metrics"] if row["kind"] == "train"] == [
            2.0,
            None,
            None,
            1.0,
        ]

    def test_nothing_at_all(self, tmp_path):
        found = sft(tmp_path)
        assert found.empty
        data = strict(found.data())
        assert (data["best_checkpoint"], data["best_metric"], data["metrics"]) == (None, None, [])


class TestSources:
    def test_a_bare_output_folder(self, finished):
        assert sft(finished.checkpoints).selection == sft(finished.path).selection

    def test_without_the_log_our_own_rows_count(self, finished):
        (finished.checkpoints / "trainer_log.jsonl").unlink()
        metrics = finished.path / "metrics"
        metrics.mkdir()
        rows = [{"step": step, "attempt": 1, "kind": "eval", "values": {"eval_loss": step}} for step in (10, 20)]
        (metrics / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert sft(finished.path).selection.checkpoint.name == "checkpoint-10"

    def test_without_those_metrics_json_counts(self, finished):
        (finished.checkpoints / "trainer_log.jsonl").unlink()
        (finished.path / "metrics").mkdir()
        text = json.dumps({"task_info": {}, "metrics": [{"step": 40, "loss": 0.1}, {"step": 20, "loss": 0.01}]})
        (finished.path / "metrics" / "metrics.json").write_text(text)
        assert sft(finished.path).selection.checkpoint.name == "checkpoint-20"

    def test_without_those_the_history_of_the_newest_checkpoint_counts(self, finished):
        (finished.checkpoints / "trainer_log.jsonl").unlink()
        (finished.checkpoints / "trainer_state.json").write_text("{torn")
        history = [
            {"step": 10, "loss": 0.5, "grad_norm": 1.0},
            {"step": 20, "loss": 0.7},
            {"step": 20, "train_loss": 1.0},
        ]
        state = finished.checkpoints / "checkpoint-40" / "trainer_state.json"
        state.write_text(json.dumps({"log_history": history, "max_steps": 77}))
        found = sft(finished.path)
        assert (found.selection.checkpoint.name, found.total_steps) == ("checkpoint-10", 77)

    def test_sources_that_repeat_each_other_are_no_resume(self, finished):
        history = [{"step": 10, "eval_loss": 1.41}, {"step": 20, "loss": 0.7}]
        (finished.checkpoints / "trainer_state.json").write_text(json.dumps({"log_history": history, "max_steps": 40}))
        (finished.path / "metrics").mkdir()
        (finished.path / "metrics" / "metrics.json").write_text(json.dumps({"metrics": history}))
        found = sft(finished.path)
        assert not found.resumed
        assert found.selection.metric.value == 0.9

    def test_verl_attempts_are_read_in_order(self, tmp_path):
        shutil.copytree(CASES / "SUP-07A" / "checkpoints", tmp_path / "checkpoints")
        (tmp_path / "metrics").mkdir()
        key = "val-core/a/acc/mean@1"
        for attempt, values in ((1, {10: 0.9, 5: 0.1}), (2, {10: 0.2, 20: 0.3}), (10, {20: 0.1})):
            lines = [json.dumps({"step": step, "data": {key: value}}) for step, value in values.items()]
            (tmp_path / "metrics" / f"verl_metrics-{attempt}.jsonl").write_text("\n".join(lines))
        found = verl(tmp_path)
        assert found.selection.metric.value == 0.2
        assert found.resumed

    def test_a_tracker_that_is_right_is_not_told(self, tmp_path):
        shutil.copytree(CASES / "SUP-08B", tmp_path / "run")
        tracker = tmp_path / "run" / "checkpoints" / "latest_checkpointed_iteration.txt"
        tracker.write_text("20")
        assert verl(tmp_path / "run").warnings == ()
        tracker.write_text("99")
        assert verl(tmp_path / "run").warnings[0].endswith("says 99, but global_step_99 is not there")


class TestDamage:
    @pytest.mark.parametrize(
        "damage",
        [
            lambda folder: (folder / "model.safetensors").write_bytes(b""),
            lambda folder: (folder / "model.safetensors").write_bytes(b"\x00" * 50),
            lambda folder: (folder / "model.safetensors").unlink(),
            lambda folder: (folder / "config.json").write_text("{"),
            lambda folder: (folder / "trainer_state.json").unlink(),
        ],
    )
    def test_a_damaged_best_checkpoint_is_named_and_passed_over(self, finished, damage):
        damage(finished.checkpoints / "checkpoint-30")
        found = sft(finished.path)
        assert (found.selection.checkpoint.name, found.selection.exact) == ("checkpoint-20", False)
        assert "passed over: checkpoint-30" in found.selection.reason

    def test_a_pruned_best_checkpoint(self, finished):
        shutil.rmtree(finished.checkpoints / "checkpoint-30")
        found = sft(finished.path)
        assert found.selection.checkpoint.name == "checkpoint-20"
        assert any("checkpoint-40 measured better" in warning for warning in found.warnings)

    def test_a_torn_last_line_and_rubbish_before_it(self, finished):
        log = finished.checkpoints / "trainer_log.jsonl"
        log.write_bytes(b"\x00\xff\n" + log.read_bytes() + b'{"current_steps": 45, "loss": 0.0')
        assert sft(finished.path).selection.checkpoint.name == "checkpoint-30"

    def test_files_where_folders_should_be(self, tmp_path):
        for name in ("checkpoints", "metrics", "checkpoint-5", "trainer_state.json"):
            (tmp_path / name).write_bytes(b"\xff")
        assert sft(tmp_path).empty

    def test_a_mode_that_is_neither_min_nor_max_is_refused(self, finished):
        with pytest.raises(ConfigError):
            sft(finished.path, metric="loss", mode="maximize")

    def test_a_diverged_run_is_told(self, finished):
        finished.log([2.0, 1.8, NAN, NAN], [1.4, NAN])
        found = sft(finished.path)
        assert (found.selection.checkpoint.name, found.diverged) == ("checkpoint-10", True)


def test_a_large_log_is_thinned_and_says_the_same(finished, monkeypatch):
    for step in (7, 33):
        save_model(finished.checkpoints / f"checkpoint-{step}")
    log = finished.checkpoints / "trainer_log.jsonl"
    lines = [
        json.dumps({"current_steps": n, "total_steps": 5000, "loss": 1 + abs(n - 33) / 5000}) for n in range(1, 5001)
    ]
    log.write_text("\n".join(lines))
    whole = sft(finished.path)
    monkeypatch.setattr(large_log, "LARGE_BYTES", 1000)
    monkeypatch.setattr(large_log, "BLOCK_BYTES", 4000)
    thinned = sft(finished.path)
    assert thinned.selection == whole.selection
    assert thinned.selection.checkpoint.step == 33
    assert thinned.summary() == whole.summary()
    assert len(thinned.rows) < len(whole.rows) / 4


def test_a_dry_run_of_agents_says_what_it_gives_instead_of_a_checkpoint(tmp_path):
    (tmp_path / "metrics").mkdir()
    row = {"step": 1, "attempt": 1, "kind": "train", "values": {"reward": 1.0}}
    (tmp_path / "metrics" / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    for stage, said in (
        ("dev", "its result is what the agent did, task by task"),
        ("apo", "No checkpoint can be used"),
    ):
        found = analyze_folder(str(tmp_path), backends.get("agentlightning", stage), Rule("reward", "max", False))
        assert said in found.selection.reason
        assert found.selection.metric.value == 1.0
