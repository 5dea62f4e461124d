"""The Python API of the Trainer specification: its function names, arguments and state shapes over the same operations.

These functions do not raise for what a user can cause: `trainer_result["ok"]` is false and `trainer_last_error` is set.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from loopai_trainer.errors import TrainerError
from loopai_trainer.operations.answer import Answer, failure
from loopai_trainer.operations.redaction import without_secrets

State = dict[str, Any]


def prepare(
    state: Mapping[str, Any] | None = None,
    *,
    config_path: str | None = None,
    thread_id: str | None = None,
    **settings: Any,
) -> State:
    """Validate and write the final YAML; nothing starts. `settings` are settings by name and win over all else."""
    from loopai_trainer.operations.prepare import prepare as operation

    return _state(_guarded("prepare", lambda: operation(_request(state, config_path, thread_id, settings))))


def inspect_prepared_config(prepared_config_path: str, *, refresh: bool = False, **_: Any) -> State:
    """Re-read a prepared YAML after edits and check everything again; `refresh` takes present inputs into it."""
    from loopai_trainer.operations.inspect import inspect as operation

    return _state(_guarded("inspect", lambda: operation(prepared_config_path, os.environ, refresh_inputs=refresh)))


def run_prepared(
    prepared_config_path: str,
    expected_config_sha256: str,
    thread_id: str | None = None,
    version_id: str | None = None,
    *,
    wait_timeout_s: float | None = None,
) -> State:
    """Run exactly the YAML with that hash, or attach to it; returns when the run has ended.

    `thread_id` is accepted for the specification's sake: the YAML names its task.
    """
    from loopai_trainer.operations.run_prepared import run_prepared as operation

    def call() -> Answer:
        return operation(
            prepared_config_path,
            expected_config_sha256,
            os.environ,
            version_id=version_id,
            wait_timeout_s=wait_timeout_s,
        )

    return _state(_guarded("run-prepared", call))


def run(
    state: Mapping[str, Any] | None = None,
    *,
    config_path: str | None = None,
    thread_id: str | None = None,
    **settings: Any,
) -> State:
    """Prepare and run without a human, for callers that opt out of approval; recorded as approved_via `auto`."""
    from loopai_trainer.operations.prepare import prepare as prepare_operation
    from loopai_trainer.operations.run_prepared import run_prepared as run_operation

    def call() -> Answer:
        data = prepare_operation(_request(state, config_path, thread_id, settings)).data
        assert data is not None  # a prepare that does not raise has data
        return run_operation(data["config_path"], data["config_sha256"], os.environ, approved_via="auto")

    return _state(_guarded("run", call))


def prefill_guide(state: Mapping[str, Any] | None = None, task_type: str | None = None) -> dict[str, Any]:
    """What is set, what is missing (`ready`, `user_required_fields`, ...)."""
    from loopai_trainer.operations.guide import prefill

    settings = {"train_stage": task_type} if task_type else {}
    return prefill(_request(state, None, None, settings), task_type)


def load_events(task_id: str, output_dir: str = "./outputs", version_id: str | None = None) -> list[dict[str, Any]]:
    """The events of one version, or of all versions of the task, each version's in the order of `seq`."""
    from loopai_trainer.files import event_log
    from loopai_trainer.operations.targets import Scope, all_runs

    runs = all_runs(Scope(os.environ, output_dir, task_id))
    chosen = [run for run in runs if version_id is None or run.version_id == version_id]
    return [event for run in sorted(chosen, key=lambda run: run.version_id) for event in event_log.read(run.events)]


def analyze_results(
    task_id: str = "default", output_dir: str = "./outputs", version_id: str | None = None
) -> dict[str, Any]:
    """The analysis envelope of a version, or of the task's newest finished one: `["data"]["best_checkpoint"]`, ..."""
    from loopai_trainer.operations.analyze import analyze as operation

    return _guarded(
        "analyze", lambda: Answer("analyze", operation(_finished(task_id, output_dir, version_id)))
    ).envelope()


def select_best_checkpoint(
    task_id: str = "default", output_dir: str = "./outputs", version_id: str | None = None
) -> dict[str, Any] | None:
    """`{"name", "step", "path", "exact"}` of the chosen checkpoint, or None."""
    data = analyze_results(task_id, output_dir, version_id)["data"]
    best: dict[str, Any] | None = data["best_checkpoint"] if data else None
    return best


def _finished(task_id: str, output_dir: str, version_id: str | None) -> str:
    from loopai_trainer.errors import NotFound
    from loopai_trainer.operations.targets import Scope, all_runs, find

    scope = Scope(os.environ, output_dir, task_id)
    if version_id is not None:
        return find(version_id, scope).path
    finished = [run for run in all_runs(scope) if os.path.exists(run.result)]
    if not finished:
        raise NotFound(f"task '{task_id}' has no finished run in {output_dir}", hint="name a version_id")
    return max(finished, key=lambda run: run.version_id).path


def _request(
    state: Mapping[str, Any] | None, config_path: str | None, thread_id: str | None, settings: Mapping[str, Any]
) -> Any:
    from loopai_trainer.operations.sources import Request

    keyword = {("trainer_version_id" if name == "version_id" else name): value for name, value in settings.items()}
    return Request(keyword, os.environ, config_path=config_path, state=state, thread_id=thread_id)


def _guarded(command: str, operation: Callable[[], Answer]) -> Answer:
    return without_secrets(_answered(command, operation), os.environ)


def _answered(command: str, operation: Callable[[], Answer]) -> Answer:
    try:
        return operation()
    except TrainerError as error:
        return failure(command, error)
    except Exception as error:  # noqa: BLE001 - the API's boundary: callers get the common error shape, never a raise
        text = f"{type(error).__name__}: {error}"
        return failure(command, TrainerError(text, code="UNHANDLED_EXCEPTION", recoverable=False))


def _state(answer: Answer) -> State:
    envelope = answer.envelope()
    data = envelope["data"] or {}
    result = data.get("result") or {}
    trainer: dict[str, Any] = {"trainer_result": envelope, "trainer_last_error": envelope["error"]}
    names = {
        "trainer_version_id": data.get("trainer_version_id"),
        "trainer_output_dir": data.get("run_dir"),
        "trainer_best_checkpoint": data.get("best_checkpoint"),
        "trainer_best_metric": data.get("best_metric"),
        "trainer_best_checkpoint_path": (data.get("best_checkpoint") or {}).get("path"),
        "trainer_result_summary": result.get("summary"),
        "update_model_path": data.get("update_model_path"),
        "training_checkpoints": [item["name"] for item in data.get("checkpoints") or ()],
    }
    trainer.update({name: value for name, value in names.items() if value is not None})
    return {"trainer": trainer}
