"""The Python API of the Trainer specification: its function names, arguments and state shapes over the same operations.

These functions do not raise for what a user can cause: `trainer_result["ok"]` is false and `trainer_last_error` is set.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopai_trainer.errors import TaskStoreError, TrainerError
from loopai_trainer.operations import host_refusals
from loopai_trainer.operations.answer import Answer, failure
from loopai_trainer.operations.redaction import without_secrets
from loopai_trainer.rules import call_arguments

if TYPE_CHECKING:
    from loopai_trainer.operations.prepare import Progress
    from loopai_trainer.operations.sources import Request
    from loopai_trainer.operations.waiting import Watcher

State = dict[str, Any]

_KEYWORDS: Mapping[str, str] = {
    "version_id": "trainer_version_id",
    "model_path": "train_input_model_name",
    "task_type": "train_stage",
}
"""Keyword argument -> setting, where the specification calls it by a shorter name."""

_log = logging.getLogger(__name__)


def prepare(
    state: Mapping[str, Any] | None = None,
    *,
    config_path: str | None = None,
    thread_id: str | None = None,
    overrides: Sequence[str] = (),
    resume: str | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> State:
    """Validate and write the final YAML; nothing starts. `settings` are settings by name and win over all else.

    `overrides`: native keys of the backend, `KEY=VALUE` each (`--set`); `resume`: a stopped version to be continued.
    `progress` is called with (what, done, total) meanwhile; `total` is 0 where it is not known.
    """
    from loopai_trainer.operations.prepare import prepare as operation

    request = _request(state, config_path, thread_id, settings)._replace(overrides=overrides, resume=resume)
    given = {"config_path": config_path, "overrides": overrides, "resume": resume, "progress": progress}
    answer = _guarded("prepare", lambda: operation(request, progress), given)
    # A resumed run's settings are those of the run that it continues: there is nothing to be asked for.
    return _state(answer, None if resume else request)


def inspect_prepared_config(
    prepared_config_path: str, thread_id: str | None = None, version_id: str | None = None, *, refresh: bool = False
) -> State:
    """Re-read a prepared YAML after edits and check everything again; `refresh` takes present inputs into it.

    `thread_id` and `version_id` are accepted for callers of LoopAI's: the YAML names its task and its version.
    """
    from loopai_trainer.operations.inspect import inspect as operation

    given = {"prepared_config_path": prepared_config_path, "refresh": refresh}
    return _state(
        _guarded("inspect", lambda: operation(prepared_config_path, os.environ, refresh_inputs=refresh), given)
    )


def dev(prepared_config_path: str, *, limit_s: float | None = None) -> dict[str, Any]:
    """Try a prepared plan on a few rows, without approval; the envelope: `["data"]["verdict"]` is passed, failed or
    not_shown, `["data"]["checks"]` says what ran. Nothing of the version itself is changed."""
    from loopai_trainer.operations.dev import dev as operation

    given = {"prepared_config_path": prepared_config_path, "limit_s": limit_s}
    return _guarded("dev", lambda: operation(prepared_config_path, os.environ, limit_s=limit_s), given).envelope()


def run_prepared(
    prepared_config_path: str,
    expected_config_sha256: str,
    thread_id: str | None = None,
    version_id: str | None = None,
    *,
    wait_timeout_s: float | None = None,
    verify_all: bool = False,
    watch: Watcher | None = None,
    approved_via: str = "hash",
) -> State:
    """Run exactly the YAML with that hash, or attach to it; returns when the run has ended.

    `thread_id` is accepted for the specification's sake: the YAML names its task. `wait_timeout_s`: return then, with
    status `running`. `verify_all`: hash every input again, without the cache. `watch` is called with the status data
    whenever it has changed. `approved_via`: `hash`, or `auto`, which records that nobody has read the YAML.
    """
    from loopai_trainer.operations.run_prepared import run_prepared as operation

    def call() -> Answer:
        return operation(
            prepared_config_path,
            expected_config_sha256,
            os.environ,
            version_id=version_id,
            wait_timeout_s=wait_timeout_s,
            verify_all=verify_all,
            watch=watch,
            approved_via=approved_via,
        )

    given = {"prepared_config_path": prepared_config_path, "expected_config_sha256": expected_config_sha256}
    options = {"version_id": version_id, "wait_timeout_s": wait_timeout_s, "verify_all": verify_all, "watch": watch}
    return _state(_guarded("run-prepared", call, {**given, **options}))


def run(
    state: Mapping[str, Any] | None = None,
    *,
    no_approval: bool = False,
    config_path: str | None = None,
    thread_id: str | None = None,
    overrides: Sequence[str] = (),
    wait_timeout_s: float | None = None,
    **settings: Any,
) -> State:
    """Prepare and run without a human: refused unless `no_approval` is True; recorded as approved_via `auto`."""
    from loopai_trainer.operations.run import run as operation

    request = _request(state, config_path, thread_id, settings)._replace(overrides=overrides)

    def call() -> Answer:
        return operation(request, no_approval=no_approval, wait_timeout_s=wait_timeout_s)

    given = {"config_path": config_path, "overrides": overrides, "wait_timeout_s": wait_timeout_s}
    return _state(_guarded("run", call, given), request)


def recover(
    version: str,
    *,
    adopt: bool = False,
    terminate: bool = False,
    task_id: str | None = None,
    output_dir: str | None = None,
    wait_timeout_s: float | None = None,
    watch: Watcher | None = None,
) -> State:
    """The operator's answer to a training that lives without a worker; the state as of `run_prepared`.

    Exactly one of: `adopt`, a new worker watches it to its end; `terminate`, its whole process tree is ended. `version`
    is a version id, an unambiguous beginning of one, or a run directory.
    """
    from loopai_trainer.operations.recover import recover as operation
    from loopai_trainer.operations.targets import Scope

    def call() -> Answer:
        scope = Scope(os.environ, output_dir, task_id)
        return operation(version, scope, adopt=adopt, terminate=terminate, wait_timeout_s=wait_timeout_s, watch=watch)

    given = {"version": version, "adopt": adopt, "terminate": terminate, "task_id": task_id, "output_dir": output_dir}
    return _state(_guarded("recover", call, {**given, "wait_timeout_s": wait_timeout_s, "watch": watch}))


def prefill_guide(
    state: Mapping[str, Any] | None = None,
    task_type: str | None = None,
    *,
    config_path: str | None = None,
    thread_id: str | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """What is set, what is missing (`ready`, `user_required_fields`, ...); `language`: of its sentences, en or zh.

    What cannot be resolved at all comes back in the same shape, with `error`.
    """
    given = {"config_path": config_path, "task_type": task_type}
    return _prefilled(_request(state, config_path, thread_id, settings), task_type, given)


def load_events(
    task_id: str = "default", output_dir: str | None = None, version_id: str | None = None
) -> list[dict[str, Any]]:
    """The events of one version, or of all versions of the task, each version's in the order of `seq`.

    Without `output_dir` as the command line looks: OUTPUT_DIR, else ./outputs, and the index of known runs. A log that
    cannot be read is told by one event of that kind, with status `failed` and `error`.
    """
    given = _which(task_id, output_dir, version_id)
    answer = _guarded("events", lambda: Answer("events", {"events": _events(task_id, output_dir, version_id)}), given)
    if answer.data is not None:
        return list(answer.data["events"])
    said = {"status": "failed", "message": answer.message, "error": answer.envelope()["error"]}
    return [{"current": "trainer", "node": "trainer", "progress": None, "data": None, "context_id": task_id, **said}]


def analyze_results(
    task_id: str = "default", output_dir: str | None = None, version_id: str | None = None
) -> dict[str, Any]:
    """The analysis envelope of a version, or of the task's newest finished one: `["data"]["best_checkpoint"]`, ..."""
    from loopai_trainer.operations.analyze import analyze as operation

    given = _which(task_id, output_dir, version_id)
    return _guarded(
        "analyze", lambda: Answer("analyze", operation(_finished(task_id, output_dir, version_id))), given
    ).envelope()


def select_best_checkpoint(
    task_id: str = "default", output_dir: str | None = None, version_id: str | None = None
) -> dict[str, Any] | None:
    """`{"name", "step", "path", "exact"}` of the chosen checkpoint, or None."""
    data = analyze_results(task_id, output_dir, version_id)["data"]
    best: dict[str, Any] | None = data["best_checkpoint"] if data else None
    return best


def _events(task_id: str, output_dir: str | None, version_id: str | None) -> list[dict[str, Any]]:
    from loopai_trainer.files import event_log
    from loopai_trainer.operations.targets import Scope, all_runs

    runs = all_runs(Scope(os.environ, output_dir, task_id))
    chosen = [run for run in runs if version_id is None or run.version_id == version_id]
    return [event for run in sorted(chosen, key=lambda run: run.version_id) for event in event_log.read(run.events)]


def get_configer_task_state_config(
    section_name: str, field_name: str | None = None, task_id: str | None = None
) -> dict[str, Any]:
    """A section of a task's state in LoopAI's store at DB_PATH; `["data"]["config"]` has each value in its wrapper.

    `task_id` is TASK_ID if left out. What goes wrong comes back in the common error shape.
    """
    from loopai_trainer.operations.configer import get_section

    command = "get_configer_task_state_config"
    given = {"section_name": section_name, "field_name": field_name, "task_id": task_id}
    return _answered(command, lambda: get_section(section_name, field_name, task_id, os.environ), given).envelope()


def update_configer_task_state_config(
    section_name: str, updates: Mapping[str, Any] | str, task_id: str | None = None
) -> dict[str, Any]:
    """Set fields of a section in one transaction; all others stay, also those that somebody else writes meanwhile.

    `updates`: values, or LoopAI's `{"value", "type"}`, by field, or that as JSON text.
    """
    from loopai_trainer.operations.configer import update_section

    command = "update_configer_task_state_config"
    given = {"section_name": section_name, "task_id": task_id}
    return _answered(command, lambda: update_section(section_name, updates, task_id, os.environ), given).envelope()


def _finished(task_id: str, output_dir: str | None, version_id: str | None) -> str:
    from loopai_trainer.errors import NotFound
    from loopai_trainer.operations.targets import Scope, all_runs, find

    scope = Scope(os.environ, output_dir, task_id)
    if version_id is not None:
        return find(version_id, scope).path
    finished = [run for run in all_runs(scope) if os.path.exists(run.result)]
    if not finished:
        raise NotFound(
            f"task '{task_id}' has no finished run in {output_dir or 'the output folder'}", hint="name a version_id"
        )
    return max(finished, key=lambda run: run.version_id).path


def _request(
    state: Mapping[str, Any] | None, config_path: str | None, thread_id: str | None, settings: Mapping[str, Any]
) -> Request:
    from loopai_trainer.operations.sources import Request

    keyword = {_KEYWORDS.get(name, name): _texts(value, 0) for name, value in settings.items()}
    return Request(keyword, os.environ, config_path=_texts(config_path, 0), state=_texts(state, 2), thread_id=thread_id)


def _texts(value: Any, depth: int) -> Any:
    """Path objects as text; `depth` mappings are looked into: a state's sections, and the settings in them."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if depth and isinstance(value, Mapping):
        return {name: _texts(one, depth - 1) for name, one in value.items()}
    return value


def _which(task_id: object, output_dir: object, version_id: object) -> dict[str, object]:
    return {"task_id": task_id, "output_dir": output_dir, "version_id": version_id}


def _prefilled(
    request: Request, task_type: str | None = None, given: Mapping[str, object] | None = None
) -> dict[str, Any]:
    from loopai_trainer.operations import guide

    answer = _guarded("guide", lambda: guide.guide(request, task_type), given)
    return dict(answer.data) if answer.data is not None else guide.refused(_error_of(answer), task_type)


def _guarded(command: str, operation: Callable[[], Answer], given: Mapping[str, object] | None = None) -> Answer:
    return without_secrets(_answered(command, operation, given), os.environ)


def _answered(command: str, operation: Callable[[], Answer], given: Mapping[str, object] | None = None) -> Answer:
    """The answer, also where it is a refusal; `given`: arguments whose kind is known (rules.call_arguments)."""
    try:
        call_arguments.refuse_unfit(given or {})
        return operation()
    except TrainerError as error:
        return failure(command, error)
    except Exception as error:  # noqa: BLE001 - the API's boundary: callers get the common error shape, never a raise
        refused = host_refusals.told(error)
        if refused is not None:
            return failure(command, refused)
        _log.error("trainer %s: not foreseen", command, exc_info=error)
        text = f"{type(error).__name__}: {error}"
        kind = {"type": type(error).__name__}
        hint = "please report this, with the traceback that was logged"
        refusal = TrainerError(text, code="UNHANDLED_EXCEPTION", hint=hint, recoverable=False, details=kind)
        return failure(command, refusal)


def _error_of(answer: Answer) -> TrainerError:
    assert answer.error is not None  # an answer without data is a refusal
    return answer.error


def _state(answer: Answer, request: Request | None = None) -> State:
    """`request`: what the prefill guide is made of, unless it is unfit, or its store was just waited for in vain."""
    from loopai_trainer.operations import guide, task_state

    error = answer.error
    if request is None:
        return task_state.of_answer(answer)
    if error is not None and (isinstance(error, TaskStoreError) or error.code == call_arguments.CODE):
        return task_state.of_answer(answer, guide.refused(error))
    return task_state.of_answer(answer, _prefilled(request))
