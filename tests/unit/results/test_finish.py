"""results.finish: the verdict by the four facts, the files beside the result, idempotence."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.finished_runs import NAN, FinishedRun, ending, save_model, strict

from loopai_trainer import backends
from loopai_trainer.errors import InputChanged
from loopai_trainer.records import Problem
from loopai_trainer.results import finish as finishing
from loopai_trainer.results import page_curves, picture
from loopai_trainer.results.finish import finish, log_tail, step_losses
from loopai_trainer.rules import cluster
from loopai_trainer.rules import plan as plans

CASES = Path(__file__).parents[2] / "cases" / "results"
SFT = backends.get("llamafactory", "sft")


@pytest.fixture
def finished(tmp_path):
    return FinishedRun(tmp_path)


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch):
    """A picture and a page's curves cost half a second each; one test draws them."""
    monkeypatch.setattr(picture, "draw", _not_installed)
    monkeypatch.setattr(page_curves, "drawing", lambda *_: None)


def _not_installed(*_):
    raise ImportError("matplotlib")


def no_export(checkpoint):
    raise AssertionError(f"{checkpoint} is a model folder already")


def result_of(finished, changed=(), backend=SFT, **how):
    return strict(finish(finished.run, finished.plan, backend, ending(**how), lambda: changed, no_export))


def exit_record(**changes):
    return {"returncode": 0, "signal": None, "exec_error": None, "duration_s": 3.0, **changes}


class TestCompleted:
    def test_the_result(self, finished):
        result = result_of(finished)
        assert (result["status"], result["error"]) == ("completed", None)
        assert result["best_checkpoint"]["name"] == "checkpoint-30"
        assert result["best_metric"] == {"name": "eval_loss", "mode": "min", "value": 0.9, "step": 30}
        assert result["update_model_path"] == str(finished.checkpoints / "checkpoint-30")
        assert result["config_sha256"] == finished.plan.sha256
        assert (result["task_id"], result["trainer_version_id"]) == ("demo", "v1")
        assert result["duration_s"] == 12.5
        assert len(result["checkpoints"]) == 4
        assert result["training_step_losses"][1] == {"step": 10, "loss": 1.8, "eval_loss": 1.4}
        assert "(by step)" in result["result"]["curve"]

    def test_the_files(self, finished, monkeypatch):
        monkeypatch.undo()
        result = result_of(finished)
        assert result["result"]["picture"] == "drawn"
        document = strict(json.loads((finished.path / "metrics" / "metrics.json").read_text()))
        assert document["task_info"]["total_steps"] == 40
        assert document["task_info"]["total_metrics"] == 12
        assert document["task_info"]["start_time"] == "1970-01-01T00:16:40Z"
        assert document["metrics"][0] == {"step": 5, "loss": 2.0, "lr": 1e-5, "epoch": 0.125}
        assert (finished.path / "loss.png").is_file()
        assert result["result"]["page"] == "curves by Bokeh"
        assert result["result"]["page_path"] == str(finished.path / "report.html")
        assert (finished.path / "report.html").stat().st_mode & 0o777 == 0o600
        report = (finished.path / "training_report.md").read_text()
        assert result["result"]["report_path"] == str(finished.path / "training_report.md")
        for text in ("checkpoint-30 (chosen)", "completed", "learning_rate", "eval_loss", "```text", "| train | 90 |"):
            assert text in report
        assert (finished.path / "training_report.md").stat().st_mode & 0o777 == 0o600

    def test_a_page_that_cannot_be_written_is_no_failure_of_the_run(self, finished):
        (finished.path / "report.html").mkdir()
        result = result_of(finished)
        assert (result["status"], result["result"]["page_path"]) == ("completed", None)
        assert "report.html" in result["result"]["write_error"]
        assert result["result"]["report_path"]

    def test_a_second_call_gives_the_same(self, finished):
        first = result_of(finished)
        report = (finished.path / "training_report.md").read_bytes()
        assert result_of(finished) == first
        assert (finished.path / "training_report.md").read_bytes() == report

    def test_without_a_checkpoint_the_final_weights_are_the_result(self, finished):
        for step in (10, 20, 30, 40):
            (finished.checkpoints / f"checkpoint-{step}" / "model.safetensors").unlink()
        result = result_of(finished)
        assert result["update_model_path"] == str(finished.checkpoints)
        assert "no checkpoint can be used, so the final weights are the result" in result["result"]["warnings"]

    def test_an_adapter_is_told(self, finished):
        (finished.checkpoints / "checkpoint-30" / "model.safetensors").unlink()
        save_model(finished.checkpoints / "checkpoint-30", adapter=True)
        result = result_of(finished)
        assert any("adapter" in warning for warning in result["result"]["warnings"])

    @pytest.mark.parametrize("failed", ["", "no room"])
    def test_an_adapter_that_is_merged_on_request(self, finished, failed):
        (finished.checkpoints / "checkpoint-30" / "model.safetensors").unlink()
        save_model(finished.checkpoints / "checkpoint-30", adapter=True)
        merged = str(save_model(finished.path / "exports" / "checkpoint-30"))
        plan = finished.plan
        finished.plan = plans.render(plan.loopai, {**plan.result, "export_huggingface": True}, plan.native)

        def export(checkpoint):
            assert checkpoint.name == "checkpoint-30"
            return SimpleNamespace(path=None if failed else merged, failed=failed, needed=True)

        result = strict(finish(finished.run, finished.plan, SFT, ending(), lambda: (), export))
        assert (result["status"], result["update_model_path"]) == ("completed", None if failed else merged)
        assert result["result"]["export"] == ("failed" if failed else "done")
        assert not any("is an adapter" in warning for warning in result["result"]["warnings"])

    def test_a_cancel_that_came_too_late(self, finished):
        assert result_of(finished, cancelled=True)["status"] == "cancelled"

    def test_a_disk_that_is_full_is_no_failure_of_the_run(self, finished, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(finishing.atomic, "write_json", full)
        result = result_of(finished)
        assert result["status"] == "completed"
        assert "No space left" in result["result"]["write_error"]


class TestFailed:
    @pytest.mark.parametrize(
        ("break_it", "how", "code"),
        [
            (None, {"exit_record": None}, "EXIT_UNKNOWN"),
            (None, {"exit_record": exit_record(returncode=1)}, "EXIT_STATUS"),
            (None, {"exit_record": exit_record(returncode=None, signal=9)}, "KILLED_BY_SIGNAL"),
            (None, {"exit_record": exit_record(returncode=None, exec_error="no such file")}, "EXEC_FAILED"),
            (None, {"planned_steps": 50}, "STEPS_MISSING"),
            (lambda f: (f.checkpoints / "all_results.json").unlink(), {}, "ARTEFACT_MISSING"),
            (lambda f: (f.checkpoints / "model.safetensors").write_bytes(b""), {}, "ARTEFACT_MISSING"),
            (FinishedRun.break_weights, {}, "DIVERGED"),
            (lambda f: f.log([2.0] * 7 + [NAN], [1.0, 1.0, 1.0, 1.0]), {}, "DIVERGED"),
            (lambda f: f.log([2.0] * 8, [1.0, 1.0, 1.0, NAN]), {}, "DIVERGED"),
            (lambda f: f.log([]), {}, "STEPS_MISSING"),
            (None, {"reason": ("WRONG_EXAMPLE_COUNT", "trains on 80 of 90 rows")}, "WRONG_EXAMPLE_COUNT"),
        ],
    )
    def test_each_fact_alone_fails_it(self, finished, break_it, how, code):
        if break_it is not None:
            break_it(finished)
        result = result_of(finished, **how)
        assert (result["status"], result["error"]["code"], result["update_model_path"]) == ("failed", code, None)
        assert result["error"]["type"] == "TrainingFailed"
        assert result["error"]["hint"]
        assert code in (finished.path / "training_report.md").read_text()

    def test_the_cause_comes_from_the_log(self, finished):
        (finished.path / "train.log").write_text("Traceback\nValueError: Undefined dataset nope\n")
        error = result_of(finished, exit_record=exit_record(returncode=1))["error"]
        assert "exit status 1: ValueError: Undefined dataset nope" in error["detail"]

    def test_a_diverged_run_with_a_good_exit_says_so_first(self, finished):
        finished.log([2.0, 1.9, NAN, NAN])
        finished.break_weights()
        result = result_of(finished, planned_steps=40)
        assert result["error"]["code"] == "DIVERGED"
        assert "STEPS_MISSING" in [problem["code"] for problem in result["error"]["problems"]]
        assert result["result"]["diverged"] is True
        assert result["best_checkpoint"]["name"] == "checkpoint-10"

    def test_a_mode_that_is_not_allowed(self, finished):
        class Odd(type(SFT)):
            def selection(self, plan):
                return "eval_loss", "lowest"

        result = result_of(finished, backend=Odd())
        assert (result["status"], result["error"]["code"]) == ("failed", "CONFIG_INVALID")
        assert result["best_checkpoint"]["name"] == "checkpoint-30"

    def test_sup_09a_exit_code_0_after_a_crash(self, finished):
        """6 of 20 steps, no final artefact, a traceback in the log, and exit status 0."""
        for path in finished.checkpoints.glob("*"):
            path.unlink() if path.is_file() else [inner.unlink() for inner in path.iterdir()]
        args = (CASES / "SUP-09A" / "args.txt").read_text().split()
        with open(finished.path / "train.log", "wb") as log:
            command = [
                sys.executable,
                str(CASES / "SUP-09A" / "stub_train.py"),
                "--out",
                str(finished.checkpoints),
                *args,
            ]
            done = subprocess.run(command, stdout=log, stderr=log, check=False)
        assert done.returncode == 0
        result = result_of(finished, planned_steps=20)
        assert result["status"] == "failed"
        assert "step 6 of 20" in result["error"]["detail"]
        assert "RuntimeError: stand-in failure" in result["error"]["detail"]
        assert "ARTEFACT_MISSING" in [problem["code"] for problem in result["error"]["problems"]]


class TestInputs:
    CHANGED = (Problem("error", "INPUT_CHANGED", "config", "train: changed", path="/data/train.parquet"),)

    def test_a_change_fails_the_run(self, finished):
        result = result_of(finished, changed=self.CHANGED)
        assert (result["status"], result["error"]["type"]) == ("failed", "InputChanged")
        assert result["error"]["code"] == "INPUT_CHANGED_DURING_RUN"
        assert "/data/train.parquet" in result["error"]["detail"]
        assert result["update_model_path"] is None

    def test_many_changes_are_counted(self, finished):
        assert "and 2 more" in result_of(finished, changed=self.CHANGED * 5)["error"]["detail"]

    def test_a_failed_training_tells_both(self, finished):
        error = result_of(finished, changed=self.CHANGED, exit_record=exit_record(returncode=1))["error"]
        assert error["code"] == "EXIT_STATUS"
        assert "INPUT_CHANGED" in [problem["code"] for problem in error["problems"]]

    @pytest.mark.parametrize(
        "fault", [InputChanged("it changes while it is read"), PermissionError(13, "denied", "/x")]
    )
    def test_an_input_that_cannot_be_looked_at_counts_as_changed(self, finished, fault):
        def look():
            raise fault

        result = strict(finish(finished.run, finished.plan, SFT, ending(), look, no_export))
        assert result["error"]["code"] == "INPUT_CHANGED_DURING_RUN"


class TestCancelled:
    def test_it_keeps_its_checkpoints(self, finished):
        record = exit_record(returncode=None, signal=15)
        result = result_of(finished, cancelled=True, exit_record=record)
        assert (result["status"], result["error"]["code"]) == ("cancelled", "CANCELLED")
        assert result["best_checkpoint"]["name"] == "checkpoint-30"
        assert result["update_model_path"] is None


def test_the_log_tail_is_taken_apart_and_goes_over_a_rotation(finished):
    (finished.path / "train.log.1").write_bytes(b"RuntimeError: old\n")
    (finished.path / "train.log").write_bytes(b" 1%|#\r 2%|##\r\nlast \xff line\n")
    assert log_tail(finished.run) == ["RuntimeError: old", " 1%|#", " 2%|##", "last � line"]


def test_without_a_log(finished):
    assert log_tail(finished.run) == []


def test_step_losses_have_null_for_what_is_not_finite():
    from loopai_trainer.records import MetricRow

    rows = [
        MetricRow(5, "train", {"loss": NAN}),
        MetricRow(10, "eval", {"eval_loss": 1.0}),
        MetricRow(11, "train", {"x": 1}),
    ]
    assert step_losses(rows) == [
        {"step": 5, "loss": None, "eval_loss": None},
        {"step": 10, "loss": None, "eval_loss": 1.0},
    ]


def test_duration_without_a_keeper():
    assert ending(exit_record=None).duration_s == 13.0
    assert ending(exit_record=None, ended_at=999.0).duration_s == 0.0


class TestMergedVerlMetrics:
    """metrics/verl_metrics.jsonl, the file that spec/001 names."""

    def merged(self, run):
        finishing.merge_verl_metrics(run)
        path = Path(run.metrics) / "verl_metrics.jsonl"
        return path.read_text() if path.exists() else None

    def test_all_attempts_in_order(self, finished):
        Path(finished.run.metrics).mkdir(exist_ok=True)
        for attempt in (2, 10, 1):
            (Path(finished.run.metrics) / f"verl_metrics-{attempt}.jsonl").write_text(f"{attempt}\n")
        assert self.merged(finished.run) == "1\n2\n10\n"
        assert self.merged(finished.run) == "1\n2\n10\n"  # again: the merged file is no attempt
        assert (Path(finished.run.metrics) / "verl_metrics.jsonl").stat().st_mode & 0o777 == 0o600

    def test_none(self, finished):
        assert self.merged(finished.run) is None


@pytest.mark.parametrize("executor", ["ray_jobs", "local"])
def test_a_lost_head_is_the_cause_of_a_failure_on_a_cluster_alone(finished, executor):
    finished.plan.loopai["launch"]["executor"] = executor
    lines = [f"{cluster.DRIVER}{cluster.FAILED}{cluster.HEAD_GONE} from a", "RuntimeError: the peers are gone"]
    Path(finished.run.train_log).write_text("\n".join(lines))
    detail = result_of(finished, exit_record=exit_record(returncode=1))["error"]["detail"]
    assert (f"{cluster.HEAD_GONE} from a" in detail) is (executor == "ray_jobs")
    assert ("the peers are gone" in detail) is (executor == "local")
