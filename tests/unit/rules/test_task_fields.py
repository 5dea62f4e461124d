"""The fields that LoopAI's other parts read after a run; names and types are the contract."""

import json

import pytest

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.rules import task_fields

RUN = RunDir("/out/demo/trainer/v1")
RESULT = {
    "status": "completed",
    "task_id": "demo",
    "trainer_version_id": "v1",
    "config_sha256": "a" * 64,
    "run_dir": "/out/demo/trainer/v1",
    "duration_s": 12.5,
    "started_at": "2026-01-01T00:00:00Z",
    "ended_at": "2026-01-01T00:00:12Z",
    "finished_at": "2026-01-01T00:00:13.000Z",
    "best_checkpoint": {"name": "checkpoint-4", "step": 4, "path": "/c/checkpoint-4", "exact": True},
    "best_metric": {"name": "eval_loss", "mode": "min", "value": 1.5, "step": 4},
    "update_model_path": "/c/checkpoint-4",
    "checkpoints": [
        {"name": "checkpoint-2", "path": "/c/checkpoint-2"},
        {"name": "checkpoint-4", "path": "/c/checkpoint-4"},
    ],
    "result": {"status": "completed", "report_path": "/out/report.md", "reason": "lowest", "export": "none"},
    "training_step_losses": [{"step": 1, "loss": 2.0, "eval_loss": None}],
    "error": None,
}
STATE = {"status": "finalizing", "attempt": 2, "started_at": "2026-01-01T00:00:00.000Z", "worker": {"pid": 7}}
CONFIG = {
    "loopai": {"framework": "llamafactory", "inputs": {"train": {"source": {"path": "/data/alpaca.demo.json"}}}},
    "learning_rate": 1e-5,
}


def test_a_completed_run():
    fields = task_fields.ended(RUN, RESULT, STATE)
    assert fields["trainer_version_id"] == fields["trainer_task_id"] == "v1"
    assert fields["trainer_training_task_id"] == "v1-2"
    assert fields["trainer_training_success"] is True
    assert fields["trainer_training_execution_time"] == 12.5
    assert fields["trainer_current_training_status"] == "completed"
    assert fields["trainer_training_final_status"] == {
        "status": "completed", "created_at": "2026-01-01T00:00:00.000Z", "started_at": "2026-01-01T00:00:00Z",
        "completed_at": "2026-01-01T00:00:13.000Z", "error_message": None,
    }  # fmt: skip
    assert fields["training_checkpoints"] == ["checkpoint-2", "checkpoint-4"]
    assert fields["training_step_losses"] == RESULT["training_step_losses"]
    assert fields["trainer_best_checkpoint_path"] == fields["update_model_path"] == "/c/checkpoint-4"
    assert fields["trainer_result"]["ok"] is True
    assert fields["trainer_result"]["data"]["best_metric"] == RESULT["best_metric"]
    assert fields["trainer_last_error"] is None
    assert fields["trainer_result_analysis"]["summary"] == fields["trainer_result_summary"] == RESULT["result"]
    assert fields["train_output_training_report_path"] == "/out/report.md"
    assert fields["trainer_model_export_log_path"] is None
    assert (fields["trainer_event_log_path"], fields["trainer_worker_pid"]) == ("/out/demo/trainer.pkl", 7)
    json.dumps(fields, allow_nan=False)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_run_that_has_no_result(status):
    error = {"type": "TrainingFailed", "code": "DIVERGED", "detail": "it diverged", "recoverable": True}
    result = {"status": status, "result": {"status": status}, "checkpoints": [], "error": error}
    fields = task_fields.ended(RUN, result, STATE)
    assert fields["trainer_training_success"] is False
    assert fields["trainer_result"] == {
        "ok": False, "status": status, "message": "it diverged",
        "data": fields["trainer_result"]["data"], "error": error,
    }  # fmt: skip
    assert fields["trainer_last_error"] == error
    assert fields["train_output_training_error"] == "it diverged"
    assert fields["trainer_training_final_status"]["error_message"] == "it diverged"
    assert fields["trainer_best_checkpoint_path"] is None
    assert fields["training_step_losses"] == []


def test_a_failed_export_is_named():
    summary = {**RESULT["result"], "export": "failed", "export_error": "no room"}
    fields = task_fields.ended(RUN, {**RESULT, "result": summary, "update_model_path": None}, STATE)
    assert fields["trainer_model_export_error"] == "no room"
    assert fields["trainer_model_export_log_path"] == RUN.export_log
    assert fields["trainer_training_success"] is True


@pytest.mark.parametrize(
    ("state", "progress"),
    [
        ({"current_step": 3, "total_steps": 12}, 0.25),
        ({"current_step": 13, "total_steps": 12}, 1.0),
        ({"current_step": 3, "total_steps": 0}, None),
        ({"current_step": 3}, None),
        ({}, None),
    ],
)
def test_progress_is_steps_of_steps(state, progress):
    fields = task_fields.running(RUN, {"status": "running", "phase": "training", **state})
    told = fields["trainer_training_progress"]
    assert (told["progress"], told["phase"]) == (progress, "training")
    assert fields["trainer_current_training_status"] == "running"
    assert fields["trainer_worker_pid"] is None


def test_a_prepared_version():
    fields = task_fields.prepared(RUN, CONFIG, {"train": {"usable": 3}})
    assert fields["dataset_name"] == "alpaca.demo"
    assert (fields["trainer_data_check_passed"], fields["trainer_config_generation_success"]) == (True, True)
    assert fields["train_config"] == CONFIG
    assert fields["train_output_config_path"] == RUN.config
    assert "verl_data_manifest_path" not in fields
    config = {"loopai": {"framework": "verl", "inputs": {"train": {}}}}
    grpo = task_fields.prepared(RUN, config, {})
    assert grpo["verl_data_manifest_path"] == RUN.dataset_manifest
    assert "dataset_name" not in grpo
    plain = {"loopai": {"inputs": {"train": {"source": {"path": "/data/rows"}}}}}
    assert task_fields.prepared(RUN, plain, {})["dataset_name"] == "rows"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "DataError", "detail": "bad rows"}, {"trainer_data_check_passed": False, "trainer_data_check_error": "bad rows"}),
        (
            {"type": "ConfigError", "detail": "bad key"},
            {"trainer_config_generation_success": False, "trainer_config_generation_error": "bad key"},
        ),
        (
            {"type": "SettingsError", "problems": [{"code": "SETTING_MISSING", "field": "a"}, {"code": "OTHER", "field": "b"}]},
            {"trainer_missing_fields": ["a"]},
        ),
        ({"type": "Busy", "detail": "busy"}, {}),
    ],
)  # fmt: skip
def test_a_refused_preparation(error, expected):
    assert task_fields.refused(error) == expected


def test_every_answer_is_an_output_and_has_its_short_names():
    answers = {
        **task_fields.prepared(RUN, {"loopai": {"framework": "verl"}}, {}),
        **task_fields.ended(RUN, RESULT, STATE),
        **task_fields.refused({"type": "DataError"}),
        **task_fields.refused({"type": "ConfigError"}),
    }
    whole = task_fields.with_aliases(answers)
    assert set(whole) - task_fields.OUTPUTS == set()
    for name, short in task_fields.ALIASES.items():
        assert whole[short] == answers[name]
    inputs = {"train_input_dataset_path", "train_input_model_name", "train_framework", "output_dir", "task_id"}
    assert not inputs & task_fields.OUTPUTS


def test_what_says_how_a_version_has_run_is_null_before_it_has():
    ended = task_fields.ended(RUN, RESULT, STATE)
    fresh = task_fields.not_ended()
    assert set(fresh) < set(ended)
    assert set(fresh.values()) == {None}
    for kept in ("update_model_path", "trainer_best_checkpoint", "trainer_result_analysis_version_id"):
        assert kept not in fresh
