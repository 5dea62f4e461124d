"""The fields of `state["trainer"]` that a run answers, for LoopAI's WebUI, its other agents and the API's callers.

Names of spec/001 "Result Analysis" and "Versioned Runtime", and of spec/000's table of outputs. Inputs are never among
them: what a person has set stays as it is. Light on purpose: the worker uses it while training runs.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    class Places(Protocol):
        """The paths of a run that fields name (files.run_dir.RunDir has them)."""

        @property
        def path(self) -> str:
            """The run directory."""

        @property
        def version_id(self) -> str:
            """The version."""

        @property
        def config(self) -> str:
            """The prepared YAML."""

        @property
        def data_report(self) -> str:
            """The report on the data."""

        @property
        def explanation(self) -> str:
            """Where the configuration comes from."""

        @property
        def dataset_manifest(self) -> str:
            """What became of GRPO's records."""

        @property
        def run_state(self) -> str:
            """The run's snapshot."""

        @property
        def worker_log(self) -> str:
            """The worker's own log."""

        @property
        def train_log(self) -> str:
            """Training's output."""

        @property
        def export_log(self) -> str:
            """The merger's output."""

        @property
        def event_pickle(self) -> str:
            """LoopAI's event file of the task."""


ALIASES: "Mapping[str, str]" = {
    "trainer_data_check_passed": "data_check_passed",
    "trainer_data_check_result": "data_check_result",
    "trainer_data_check_error": "data_check_error",
    "train_output_data_check_report_path": "data_check_report_path",
    "trainer_config_generation_success": "config_generation_success",
    "trainer_config_generation_error": "config_generation_error",
    "trainer_config_explanation_path": "config_explanation_path",
    "trainer_training_success": "training_success",
    "trainer_training_execution_time": "training_execution_time",
    "trainer_training_task_id": "training_task_id",
    "trainer_training_final_status": "training_final_status",
    "trainer_current_training_status": "current_training_status",
    "train_output_training_log_path": "training_log_path",
    "train_output_training_report_path": "training_report_path",
    "train_output_training_error": "training_error",
}
"""Field -> the shorter name under which LoopAI's task state keeps it, too."""

OUTPUTS = frozenset((
    *ALIASES, *ALIASES.values(),
    "trainer_task_id", "trainer_version_id", "trainer_output_dir", "trainer_event_log_path", "trainer_run_state_path",
    "trainer_worker_log_path", "trainer_worker_pid", "trainer_result", "trainer_last_error", "trainer_result_analysis",
    "trainer_result_analysis_version_id", "trainer_result_summary", "trainer_best_checkpoint", "trainer_best_metric",
    "trainer_best_checkpoint_path", "trainer_missing_fields", "trainer_prefill_guide", "trainer_model_export_error",
    "trainer_model_export_log_path", "trainer_state_update_error", "train_output_config_path",
    "train_output_swanlab_log_path", "train_config", "training_checkpoints", "training_step_losses",
    "update_model_path", "dataset_name", "verl_data_manifest_path", "trainer_training_progress",
    "verl_data_prepare_result", "verl_reward_recommendation",
))  # fmt: skip
"""Everything that an answer may hold: a state that comes back into `prepare` holds them, and none is a setting."""

_STATUS_VALUES = (
    *("current_step", "total_steps", "loss", "eval_loss", "learning_rate", "eta_s", "elapsed_s", "started_at"),
    "updated_at",
)
_ENVELOPE_DATA = (
    *("task_id", "trainer_version_id", "status", "config_sha256", "run_dir", "best_checkpoint", "best_metric"),
    *("update_model_path", "checkpoints", "result", "duration_s", "started_at", "ended_at"),
)


_OF_AN_END = (
    *("trainer_training_success", "trainer_training_execution_time", "trainer_training_final_status"),
    *("trainer_current_training_status", "trainer_training_task_id", "trainer_worker_pid", "trainer_training_progress"),
    *("train_output_training_log_path", "train_output_training_report_path", "train_output_training_error"),
)
"""What says how the version that `trainer_version_id` names has run."""


def not_ended() -> "dict[str, Any]":
    """Null for what says how a version has run, so that an earlier version's outcome is not taken for this one's.

    What was chosen then (best checkpoint, model, analysis) stays until there is another: LoopAI goes on with it, and
    `trainer_result_analysis_version_id` names its version.
    """
    return dict.fromkeys(_OF_AN_END)


def with_aliases(fields: "Mapping[str, Any]") -> "dict[str, Any]":
    """The fields, and each under its shorter name, too."""
    return {**fields, **{short: fields[name] for name, short in ALIASES.items() if name in fields}}


def counts(inputs: "Mapping[str, Any]") -> "dict[str, dict[str, int] | None]":
    """Rows read, accepted and left out, by split, of `loopai.inputs`; None for a split that there is not."""
    return {name: _counts(inputs.get(name)) for name in ("train", "validation")}


def _counts(entry: "Mapping[str, Any] | None") -> "dict[str, int] | None":
    if not entry:
        return None
    rejected = entry.get("rejected", 0)
    return {"input": entry["rows"] + rejected, "usable": entry["rows"], "rejected": rejected}


def prepared(run: "Places", config: "Mapping[str, Any]", counts: "Mapping[str, Any]") -> "dict[str, Any]":
    """After a good prepare. `config`: the YAML's values; `counts`: rows by split, as prepare answers them."""
    loopai = config.get("loopai") or {}
    train = (loopai.get("inputs") or {}).get("train") or {}
    source = str((train.get("source") or {}).get("path") or "")
    fields: dict[str, Any] = {
        **_places(run),
        "trainer_data_check_passed": True,
        "trainer_data_check_result": dict(counts),
        "trainer_data_check_error": None,
        "trainer_config_generation_success": True,
        "trainer_config_generation_error": None,
        "train_config": dict(config),
        "trainer_missing_fields": [],
    }
    if source:
        fields["dataset_name"] = source.rpartition("/")[2].rpartition(".")[0] or source.rpartition("/")[2]
    if loopai.get("framework") == "verl":
        fields["verl_data_manifest_path"] = run.dataset_manifest
    return fields


def refused(error: "Mapping[str, Any]") -> "dict[str, Any]":
    """After a prepare that refused: which of its steps failed, by the error's kind, and which settings are missing."""
    detail, kind = str(error.get("detail") or ""), error.get("type")
    fields: dict[str, Any] = {}
    if kind == "DataError":
        fields |= {"trainer_data_check_passed": False, "trainer_data_check_error": detail}
    if kind == "ConfigError":
        fields |= {"trainer_config_generation_success": False, "trainer_config_generation_error": detail}
    missing = [one["field"] for one in error.get("problems") or () if one.get("code") == "SETTING_MISSING"]
    if missing:
        fields["trainer_missing_fields"] = missing
    return fields


def running(run: "Places", state: "Mapping[str, Any]") -> "dict[str, Any]":
    """While it runs: where its files are, and how far it is. `state`: run_state.json."""
    worker = state.get("worker")
    return {
        **_places(run),
        "trainer_training_task_id": training_id(run.version_id, state),
        "trainer_worker_pid": worker.get("pid") if isinstance(worker, dict) else None,
        "train_output_training_log_path": run.train_log,
        "trainer_current_training_status": state.get("status"),
        "trainer_training_progress": progress_fields(state),
    }


def progress_fields(state: "Mapping[str, Any]") -> "dict[str, Any]":
    """`{"status", "phase", "progress", "current_step", ...}`; `progress` is steps made of steps planned, 0 to 1."""
    return {
        "status": state.get("status"),
        "phase": state.get("phase"),
        "progress": progress(state),
        **{name: state.get(name) for name in _STATUS_VALUES},
    }


def progress(state: "Mapping[str, Any]") -> float | None:
    """Steps made of steps planned, 0 to 1; None before training has said how many there are."""
    step, total = state.get("current_step"), state.get("total_steps")
    if not isinstance(step, int) or not isinstance(total, int) or total <= 0:
        return None
    return min(max(step / total, 0.0), 1.0)


def ended(run: "Places", result: "Mapping[str, Any]", state: "Mapping[str, Any]") -> "dict[str, Any]":
    """After the end, however it came. `result`: worker_result.json; `state`: the last run_state.json."""
    status, error = str(result.get("status")), result.get("error")
    summary = result.get("result") or {}
    chosen = result.get("best_checkpoint") or {}
    failed_export = summary.get("export_error")
    return {
        **running(run, {**state, "status": status, "phase": status}),
        "trainer_training_success": status == "completed",
        "trainer_training_execution_time": result.get("duration_s"),
        "trainer_training_final_status": final_status(result, state),
        "train_output_training_report_path": summary.get("report_path"),
        "train_output_training_error": error.get("detail") if isinstance(error, dict) else None,
        "trainer_result": envelope(result),
        "trainer_last_error": error,
        "trainer_result_analysis": {
            **{name: result.get(name) for name in ("run_dir", "best_checkpoint", "best_metric", "checkpoints")},
            "summary": summary,
        },
        "trainer_result_analysis_version_id": run.version_id,
        "trainer_result_summary": summary,
        "trainer_best_checkpoint": result.get("best_checkpoint"),
        "trainer_best_metric": result.get("best_metric"),
        "trainer_best_checkpoint_path": chosen.get("path"),
        "trainer_model_export_error": failed_export,
        "trainer_model_export_log_path": run.export_log if summary.get("export") in ("done", "failed") else None,
        "trainer_state_update_error": state.get("task_store_error"),
        "update_model_path": result.get("update_model_path"),
        "training_checkpoints": [one["name"] for one in result.get("checkpoints") or ()],
        "training_step_losses": list(result.get("training_step_losses") or ()),
    }


def final_status(result: "Mapping[str, Any]", state: "Mapping[str, Any]") -> "dict[str, Any]":
    """spec/000's `{status, created_at, started_at, completed_at, error_message}`; times in UTC, null if unknown."""
    error = result.get("error")
    return {
        "status": result.get("status"),
        "created_at": state.get("submitted_at") or state.get("started_at"),
        "started_at": result.get("started_at") or state.get("started_at"),
        "completed_at": result.get("finished_at") or result.get("ended_at"),
        "error_message": error.get("detail") if isinstance(error, dict) else None,
    }


def envelope(result: "Mapping[str, Any]") -> "dict[str, Any]":
    """`trainer_result` of a run that has ended: spec/001's common shape."""
    status, error = str(result.get("status")), result.get("error")
    said = error.get("detail") if isinstance(error, dict) else None
    return {
        "ok": status == "completed" and error is None,
        "status": status,
        "message": said or f"the run is {status}",
        "data": {name: result.get(name) for name in _ENVELOPE_DATA},
        "error": error,
    }


def training_id(version_id: str, state: "Mapping[str, Any]") -> str:
    """The id of one training attempt of a version."""
    return f"{version_id}-{state.get('attempt') or 1}"


def _places(run: "Places") -> "dict[str, Any]":
    return {
        "trainer_task_id": run.version_id,
        "trainer_version_id": run.version_id,
        "trainer_output_dir": run.path,
        "trainer_event_log_path": run.event_pickle,
        "trainer_run_state_path": run.run_state,
        "trainer_worker_log_path": run.worker_log,
        "train_output_data_check_report_path": run.data_report,
        "train_output_config_path": run.config,
        "trainer_config_explanation_path": run.explanation,
    }
