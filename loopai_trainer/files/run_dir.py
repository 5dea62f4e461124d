"""The run directory `{output_dir}/{task_id}/trainer/{version_id}/`: the only place that knows its file names.

Light on purpose (os.path alone): `status --json` imports it.
"""

import os
import re

ID_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def valid_id(text: str) -> bool:
    """Whether `text` may be a task or version id (interface section 2); `..` and separators never match."""
    return re.fullmatch(ID_PATTERN, text) is not None


class _Place:
    """A fixed place inside a run directory, read as an attribute that is its absolute path."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __get__(self, run: "RunDir", owner: type) -> str:
        return os.path.join(run.path, *self.names)


class TaskDir:
    """`{output_dir}/{task_id}/`: what all versions of a task share."""

    def __init__(self, output_dir: str, task_id: str) -> None:
        self.path = os.path.join(os.path.abspath(output_dir), task_id)

    @property
    def runs(self) -> str:
        """The folder that holds one run directory a version."""
        return os.path.join(self.path, "trainer")

    @property
    def approvals(self) -> str:
        """Append-only record of all approvals of the task."""
        return os.path.join(self.path, "approvals.jsonl")

    @property
    def event_pickle(self) -> str:
        """The events of all versions, for LoopAI's own reader."""
        return os.path.join(self.path, "trainer.pkl")

    def run(self, version_id: str) -> "RunDir":
        """The run directory of a version."""
        return RunDir(os.path.join(self.runs, version_id))

    def dev_run(self, version_id: str, dev_id: str) -> "RunDir":
        """The folder of a dev run of a version: of the shape of a run directory, outside all of them."""
        return RunDir(os.path.join(self.path, "dev", version_id, dev_id))


class RunDir:
    """All names inside one run directory. `path` is absolute.

    A run directory that `--trainer-output-dir` put elsewhere is not named by its version and does not lie in its
    task's folder: then both are given.
    """

    def __init__(self, path: str, version_id: str | None = None, task: "TaskDir | None" = None) -> None:
        self.path = os.path.abspath(path)
        self._version_id = version_id
        self._task = task

    def __repr__(self) -> str:
        return f"RunDir({self.path!r})"

    @property
    def version_id(self) -> str:
        """The version id: as given, else the folder's name."""
        return self._version_id or os.path.basename(self.path)

    @property
    def task(self) -> TaskDir:
        """The task that this run belongs to: as given, else by its place."""
        if self._task is not None:
            return self._task
        task_path = os.path.dirname(os.path.dirname(self.path))
        return TaskDir(os.path.dirname(task_path), os.path.basename(task_path))

    def at(self, *names: str) -> str:
        """A path inside the run directory."""
        return os.path.join(self.path, *names)

    @property
    def approved_config(self) -> str:
        """The exact approved bytes, as the worker materialised them."""
        return self.at("configs", self.version_id + ".yaml")

    @property
    def is_dev(self) -> bool:
        """Whether it is the folder of a dev run (TaskDir.dev_run), whose id `operations.dev` makes."""
        folder = os.path.dirname(os.path.dirname(self.path))
        return os.path.basename(folder) == "dev" and self.version_id.startswith("dev-")

    @property
    def event_pickle(self) -> str:
        """LoopAI's event file, which the task's versions share."""
        return self.task.event_pickle

    config = _Place("training_config.yaml")
    plan = _Place("plan.json")
    data_report = _Place("data_check_report.txt")
    explanation = _Place("config_explanation.txt")
    prepared_data = _Place("prepared_data")
    dataset_info = _Place("prepared_data", "dataset_info.json")
    rejected_rows = _Place("prepared_data", "rejected_rows.jsonl")
    dataset_manifest = _Place("prepared_data", "dataset_manifest.json")
    inputs = _Place("inputs")
    approval = _Place("approval.json")
    dev_report = _Place("dev_report.json")
    launch = _Place("launch")
    launch_started = _Place("launch", "started")
    launch_exit = _Place("launch", "exit.json")
    launch_helper_ended = _Place("launch", "helper_ended.json")
    launch_request = _Place("launch", "request.json")
    launch_inputs = _Place("launch", "inputs.json")
    launch_resolved = _Place("launch", "resolved.yaml")
    cache = _Place("launch", "cache")
    tmp = _Place("launch", "tmp")
    run_lock = _Place("run.lock")
    training_lock = _Place("training.lock")
    run_state = _Place("run_state.json")
    cancel_request = _Place("cancel_request.json")
    worker_log = _Place("worker.log")
    train_log = _Place("train.log")
    node_log_stem = _Place("train-node-")
    events = _Place("events.jsonl")
    metrics = _Place("metrics")
    swanlab = _Place("metrics", "swanlab")
    metric_rows = _Place("metrics", "metrics.jsonl")
    earlier_metrics = _Place("inputs", "earlier_metrics.jsonl")
    metrics_summary = _Place("metrics", "metrics.json")
    checkpoints = _Place("checkpoints")
    exports = _Place("exports")
    export_log = _Place("export.log")
    report = _Place("training_report.md")
    picture = _Place("loss.png")
    page = _Place("report.html")
    result = _Place("worker_result.json")
    result_pickle = _Place("worker_result.pkl")
