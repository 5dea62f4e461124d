"""What LoopAI is told of a run: fields and status in its task store, and the two files that its own reader loads.

None of it can fail a run or hold training up: what cannot be written is told to worker.log, noted in run_state.json
(`task_store_error`), and tried again by the next call. Imported after training's exec alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from loopai_trainer.errors import ConfigError, TaskStoreError, TrainerError
from loopai_trainer.files import atomic, legacy_pickle, result_file, state_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.rules import secrets, task_fields
from loopai_trainer.worker.record import Record, tell

_PAUSE_S = 30.0
"""Between two tellings while the status stays the same: phases and steps are news for people, not for each second."""

_BRIEF_WAIT_S = 0.2
"""How long training's supervision waits for a store or a file that somebody else holds."""

_LAST_WAIT_S = 10.0
"""The same at the end."""

_LOOKS = 2
_LOOK_PAUSE_S = 0.15
"""LoopAI's other agents read, change and write a task's state without a lock: what was overwritten is written again."""

_RUNTIME_FIELDS = (
    *("trainer_version_id", "trainer_output_dir", "current_training_status", "trainer_training_progress"),
    *("training_final_status", "trainer_last_error", "trainer_best_checkpoint", "trainer_best_metric"),
    "update_model_path",
)
"""What a version's own row in `taskruntime` holds; the section beside it is the whole."""


def store_address(run: RunDir, environ: Mapping[str, str]) -> str:
    """The task store's path: the one that `prepare` noted in plan.json, else DB_PATH; empty for none.

    Empty, too, for a run whose task nobody has named: the store has none called `default`.
    """
    try:
        settings = (atomic.read_json(run.plan) or {}).get("settings")
    except (OSError, ValueError):
        settings = None
    if not isinstance(settings, dict):
        return environ.get("DB_PATH", "")
    if _noted(settings, "task_id").get("origin") == "default":
        return ""
    return str(_noted(settings, "db_path").get("value") or environ.get("DB_PATH", ""))


def _noted(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    entry = settings.get(name)
    return entry if isinstance(entry, dict) else {}


class Handover:
    """The tellings of one worker about its run."""

    def __init__(self, run: RunDir, record: Record) -> None:
        self.run = run
        self.record = record
        self._events = legacy_pickle.EventPickle(run)
        self._store = store_address(run, os.environ)
        self._told_s = -_PAUSE_S
        self._status = ""

    def changed(self) -> None:
        """The run goes on: at once if its status is another one, else now and then."""
        if self.run.is_dev:
            return
        status, now_s = str(self.record.state.get("status")), time.monotonic()
        if status == self._status and now_s - self._told_s < _PAUSE_S:
            return
        self._status, self._told_s = status, now_s
        self._write_events(_BRIEF_WAIT_S)
        fields = {**task_fields.not_ended(), **task_fields.running(self.run, self.record.state)}
        self._tell_store(fields, status, _BRIEF_WAIT_S)

    def ended(self, result: Mapping[str, Any]) -> None:
        """The run has ended, and its result is written. A dev run's end is none of LoopAI's business."""
        if self.run.is_dev:
            return
        self._write_events(_LAST_WAIT_S)
        fields = _ended_fields(self.run, result, self.record.state)
        try:
            legacy_pickle.write_result(self.run, _task_id(self.run, self.record.state), fields)
        except OSError as error:
            tell(f"{self.run.result_pickle}: {error}")
        self._tell_store(fields, str(result["status"]), _LAST_WAIT_S, lasting=True)

    def _write_events(self, wait_s: float) -> None:
        try:
            if not self._events.write(wait_s):
                tell(f"{self.run.event_pickle}: held by another worker; written at the next change")
        except OSError as error:
            tell(f"{self.run.event_pickle}: {error}")

    def _tell_store(self, fields: Mapping[str, Any], status: str, wait_s: float, *, lasting: bool = False) -> None:
        if not self._store:
            return
        task_id = _task_id(self.run, self.record.state)
        try:
            _write(self._store, task_id, self.run, fields, status, wait_s, lasting=lasting)
        except TaskStoreError as error:
            tell(error.message)
            if error.code == "TASK_UNKNOWN":
                self._store = ""  # no task of LoopAI's: said once
            else:
                self.record.state["task_store_error"] = error.message
        else:
            self.record.state.pop("task_store_error", None)


def tell_again(run: RunDir, state: Mapping[str, Any]) -> None:
    """Tell of an ended run what its worker could not tell, or what has changed since. The caller holds run.lock.

    Raises TaskStoreError, OSError.
    """
    result = result_file.read(run)
    if result is None:
        return
    fields = _ended_fields(run, result, state)
    legacy_pickle.write_result(run, _task_id(run, state), fields)
    address = store_address(run, os.environ)
    if address:
        _write(address, _task_id(run, state), run, fields, str(result["status"]), _LAST_WAIT_S, lasting=True)
    if "task_store_error" in state:
        state_file.write(run, {name: value for name, value in state.items() if name != "task_store_error"})


def tell_orphaned(run: RunDir, state: Mapping[str, Any], error: TrainerError) -> None:
    """Say in the store that training lives without a worker: `failed`, with the reason. Raises TaskStoreError."""
    address = store_address(run, os.environ)
    if not address:
        return
    told = {**error.brief(), "problems": []}
    fields = {
        **task_fields.running(run, {**state, "status": "orphaned"}),
        "trainer_last_error": told,
        "train_output_training_error": error.message,
    }
    fields = secrets.redacted_value(fields, secrets.environment_values(os.environ))
    _write(address, _task_id(run, state), run, fields, "orphaned", _LAST_WAIT_S)


def _ended_fields(run: RunDir, result: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    # What is written now is no longer missing there.
    known = {name: value for name, value in state.items() if name != "task_store_error"}
    fields = {**_prepared(run), **task_fields.ended(run, result, {**known, **(result.get("last_state") or {})})}
    return {**fields, "train_output_swanlab_log_path": run.swanlab if os.path.isdir(run.swanlab) else None}


def _prepared(run: RunDir) -> dict[str, Any]:
    """What is known of the approved YAML: the task may have prepared another version since. Empty if it is gone."""
    from loopai_trainer.rules import yaml_text  # PyYAML is loaded only at the end

    try:
        with open(run.approved_config, encoding="utf-8") as file:
            config = yaml_text.load(file.read(), run.approved_config, "config").values
        fields = task_fields.prepared(run, config, task_fields.counts(config["loopai"]["inputs"]))
    except (OSError, ValueError, ConfigError, KeyError, TypeError, AttributeError):
        return {}
    return dict(secrets.redacted_value(fields, secrets.environment_values(os.environ)))


def _write(
    path: str,
    task_id: str,
    run: RunDir,
    fields: Mapping[str, Any],
    status: str,
    wait_s: float,
    *,
    lasting: bool = False,
) -> None:
    """`lasting`: look again whether it is still there a moment later, and write it again if it is not."""
    from loopai_trainer.files import task_store  # SQLite is loaded only where there is a store

    store = task_store.TaskStore(path, wait_s)
    whole = task_fields.with_aliases(fields)
    shown = {name: whole[name] for name in _RUNTIME_FIELDS if name in whole}
    runtime = task_store.Runtime(run.version_id, status, shown)
    for look in range(1 + (_LOOKS if lasting else 0)):
        if look:
            time.sleep(_LOOK_PAUSE_S)
            if _stands(store.section(task_id, task_store.NODE), whole):
                continue
            tell(f"{path}: what was written of this run was overwritten; it is written again")
        for reason in store.write(task_id, task_store.NODE, whole, runtime):
            tell(f"{path}: left out: {reason}")


def _stands(section: Mapping[str, Any], fields: Mapping[str, Any]) -> bool:
    names = ("trainer_version_id", "trainer_training_success", "trainer_result")
    return all(section.get(name) == fields.get(name) for name in names)


def _task_id(run: RunDir, state: Mapping[str, Any]) -> str:
    return str(state.get("task_id") or os.path.basename(run.task.path))
