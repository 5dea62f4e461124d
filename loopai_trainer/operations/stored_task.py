"""A task's state in LoopAI's store: what of it is a source of settings, and what prepare writes back there.

Read are the trainer section and `mapping_results` of constructor and obtainer, nothing else (spec/001).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from loopai_trainer.errors import TaskStoreError, TrainerError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import targets, task_state
from loopai_trainer.operations.answer import Answer, failure, problem_json
from loopai_trainer.records import Field, Problem, Settings
from loopai_trainer.rules import secrets, task_fields, wrapped
from loopai_trainer.rules import settings as rules

Guide = Callable[[], Mapping[str, Any]]
"""The prefill guide as fields of the task, made only if there is a store to write it into."""

_LABEL = "task store trainer"
_AGENTS = ("constructor", "obtainer")
"""In this order (spec/001, "On every fresh Verl prepare() round")."""

_WAIT_S, _BRIEF_WAIT_S = 3.0, 0.2
"""How long a store that another program holds is waited for while a person waits for `prepare`, and LoopAI's pickle."""

_SOURCES = ("verl_source_dataset_path", "verl_source_eval_dataset_path")
_DATASETS = ("train_input_dataset_path", "train_input_eval_dataset_path")
_MADE = "/prepared_data/"
"""What lies there was made by a round, ours or LoopAI's own, and written back by it: no person named it."""


class Stored(NamedTuple):
    """What the store adds to the sources of settings; `layers` rank as they stand."""

    layers: tuple[rules.Layer, ...] = ()
    warnings: tuple[Problem, ...] = ()


class Address(NamedTuple):
    """A task in a store. `task_id` is empty where nobody has named a task, `path` where nobody has named a store."""

    path: str
    task_id: str


def address(keyword: Mapping[str, Any], environ: Mapping[str, str], layers: Sequence[rules.Layer]) -> Address:
    """Which task of which store these sources name. Raises SettingsError."""
    fields = [field for field in rules.GENERAL if field.name in ("task_id", "db_path")]
    known = {name: keyword[name] for name in ("task_id", "db_path") if keyword.get(name) is not None}
    found = rules.resolve(fields, known, environ, layers)
    path = found.text("db_path")
    task_id = "" if found.origin("task_id") == "default" else found.text("task_id")
    return Address(os.path.abspath(path) if path else "", task_id)


def stored(keyword: Mapping[str, Any], environ: Mapping[str, str], layers: Sequence[rules.Layer]) -> Stored:
    """The layers of the task that the other sources name. Raises TaskStoreError, SettingsError."""
    there = address(keyword, environ, layers)
    if not there.path:
        return Stored(warnings=tuple(_without_store(environ)))
    if not there.task_id:
        return Stored()
    from loopai_trainer.files.task_store import NODE, TaskStore

    store = TaskStore(there.path, _WAIT_S)
    try:
        section = store.section(there.task_id, NODE)
        made = [(agent, store.mapped_file(there.task_id, agent)) for agent in _AGENTS]
    except TaskStoreError as error:
        if error.code != "TASK_UNKNOWN":
            raise
        message = f"{error.message}: no settings come from there, and no results are written back"
        return Stored(warnings=(_warning(error.code, message, error.hint, "task_id"),))
    named, older = _by_a_person(section)
    mapped = [_made(agent, path) for agent, path in made if path]
    return Stored((rules.Layer(_LABEL, named), *mapped, rules.Layer(_LABEL, older)))


def _made(agent: str, path: str) -> rules.Layer:
    return rules.Layer(f"task store {agent}.mapping_results", {_SOURCES[0]: path}, "output_file")


def _by_a_person(section: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(settings of the task, data that an earlier round had: they rank below what other agents have made since)."""
    settings = {name: value for name, value in section.items() if name not in task_fields.OUTPUTS}
    sources = {str(settings.get(name)) for name in _SOURCES if settings.get(name)}
    older = {
        name: value
        for name, value in settings.items()
        if name in _SOURCES or (name in _DATASETS and (_MADE in str(value) or str(value) in sources))
    }
    return {name: value for name, value in settings.items() if name not in older}, older


def as_input(section: Mapping[str, Any]) -> dict[str, Any]:
    """An explicit trainer section without wrappers; without the outputs either, if it is one that an answer gave."""
    values = wrapped.unwrapped(section)
    if "trainer_result" not in values:
        return values
    return {name: value for name, value in values.items() if name not in task_fields.OUTPUTS}


def made_as_dataset(
    layers: Sequence[rules.Layer], fields: Sequence[Field], keyword: Mapping[str, Any], environ: Mapping[str, str]
) -> list[rules.Layer]:
    """The layers for supervised training: what other agents have made is the dataset, unless a registry names one."""
    info = [field for field in fields if field.name == "train_input_dataset_info"]
    if any(True for field in info for _ in rules.given(field, keyword, environ, layers)):
        return [layer for layer in layers if not _is_made(layer)]
    return [
        layer._replace(values={_DATASETS[0]: layer.values[_SOURCES[0]]}) if _is_made(layer) else layer
        for layer in layers
    ]


def made_but_not_used(layers: Sequence[rules.Layer], settings: Settings) -> Iterator[Problem]:
    """A warning where another agent's data are passed over for those that the task's own settings name."""
    name = _DATASETS[0]
    origin = settings.origin(name)
    made = next((layer for layer in layers if _is_made(layer)), None)
    if made is None or not origin.startswith(_LABEL):
        return
    path = next(iter(made.values.values()))
    if path != settings.text(name):
        message = f"{settings.text(name)} (from {origin}) is used, not {path} (from {made.label})"
        yield _warning("UPSTREAM_DATA_NOT_USED", message, f"empty {name} in the task to use the latter", name)


def _is_made(layer: rules.Layer) -> bool:
    return layer.label.endswith(".mapping_results")


def _without_store(environ: Mapping[str, str]) -> Iterator[Problem]:
    if (environ.get("TASK_ID") or "").strip():
        message = "TASK_ID is set, but DB_PATH is not: the task's settings are not read, and no results written back"
        hint = "set DB_PATH (or give --db-path) to LoopAI's database, or name the task by --task-id"
        yield _warning("TASK_STORE_NOT_NAMED", message, hint, "db_path")


@contextmanager
def told_of_refusal(find: Callable[[], Address], environ: Mapping[str, str], guide: Guide) -> Iterator[None]:
    """Writes into the store why a prepare was refused. `find()`: the task's address.

    The refusal passes through; a store that cannot be written is no second one.
    """
    try:
        yield
    except TrainerError as error:
        if not isinstance(error, TaskStoreError):
            _note_refusal(find, error, environ, guide)
        raise


def _note_refusal(find: Callable[[], Address], error: TrainerError, environ: Mapping[str, str], guide: Guide) -> None:
    try:
        there = find()
        if there.path and there.task_id:
            _write(there, task_state.of_answer(failure("prepare", error)), guide, environ)
    except TrainerError:
        pass  # the first refusal says what there is to do


def note_prepared(answer: Answer, settings: Settings, environ: Mapping[str, str], guide: Guide) -> Answer:
    """The answer of a good prepare, whose fields are in the store now; else with a warning that says why not."""
    path, task_id = settings.text("db_path"), settings.text("task_id")
    if not path or settings.origin("task_id") == "default" or answer.data is None:
        return answer
    data = dict(answer.data)
    _show_events(targets.open_run(data["run_dir"]))
    try:
        _write(Address(path, task_id), task_state.of_answer(answer), guide, environ, task_fields.not_ended())
    except TaskStoreError as error:
        if error.code == "TASK_UNKNOWN":
            return answer  # said already, when its settings were looked for
        message = f"the task store does not know of this version: {error.message}"
        told = problem_json(_warning("TASK_STORE_NOT_WRITTEN", message, error.hint, "db_path"))
        answer.data = {**data, "warnings": [*data["warnings"], told]}
    return answer


def _show_events(run: RunDir) -> None:
    """LoopAI's event file with the steps of prepare; what cannot be written now is when training starts."""
    from loopai_trainer.files.legacy_pickle import EventPickle

    try:
        EventPickle(run).write(_BRIEF_WAIT_S)
    except OSError:
        pass


def _write(
    there: Address,
    state: Mapping[str, Any],
    guide: Guide,
    environ: Mapping[str, str],
    before: Mapping[str, Any] | None = None,
) -> None:
    """`before`: fields that are written, too, where the state does not have them."""
    from loopai_trainer.files.task_store import NODE, TaskStore

    fields = {**task_fields.with_aliases(before or {}), **state[NODE], **guide()}
    whole = secrets.redacted_value(fields, secrets.environment_values(environ))
    TaskStore(there.path, _WAIT_S).write(there.task_id, NODE, whole)


def _warning(code: str, message: str, hint: str, field: str) -> Problem:
    return Problem("warning", code, "settings", message, hint, field=field)
