"""Reading and updating a section of a task's state, under the names and in the shapes of LoopAI's own Configer.

Unlike there, an update is one transaction, and a field that LoopAI's schema does not know does not lose the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loopai_trainer.errors import NotFound, UsageError
from loopai_trainer.files.task_store import TaskStore
from loopai_trainer.operations.answer import Answer
from loopai_trainer.rules import wrapped

_TASK_VARIABLES = ("TASK_ID", "task_id")
_PROTECTED = {"default": frozenset(("task_id",))}
"""What LoopAI's Configer lets nobody change; of `system` it is everything."""


def get_section(section: str, field: str | None, task_id: str | None, environ: Mapping[str, str]) -> Answer:
    """The section, or one field of it, each value in LoopAI's wrapper. Raises UsageError, NotFound, TaskStoreError."""
    task = _task(task_id, environ)
    values = _store(environ).section(task, section)
    if field is not None and field not in values:
        raise NotFound(f"the section '{section}' of task '{task}' has no field '{field}'", hint="leave the field out")
    config = wrapped.wrap(values[field]) if field is not None else _wrapped(values)
    data = {"scope": "task", "task_id": task, "section_name": section, "field_name": field, "config": config}
    return Answer("get_configer_task_state_config", data, message="the task's state was read")


def update_section(
    section: str, updates: Mapping[str, Any] | str, task_id: str | None, environ: Mapping[str, str]
) -> Answer:
    """The section after the update. `updates`: values, or LoopAI's `{"value", "type"}`, by field; or that as JSON.

    What is no JSON is left out, and `left_out` says why. Raises UsageError, TaskStoreError.
    """
    task, fields = _task(task_id, environ), _fields(updates)
    if not isinstance(section, str) or not section.strip():
        raise UsageError(f"{section!r} is no name of a section", hint="name one, such as trainer")
    _refuse_protected(section, fields)
    store = _store(environ)
    left_out = store.write(task, section, fields)
    config = _wrapped(store.section(task, section))
    data = {"scope": "task", "task_id": task, "section_name": section, "config": config, "left_out": left_out}
    return Answer("update_configer_task_state_config", data, message="the task's state was updated")


def _wrapped(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: wrapped.wrap(value) for name, value in values.items()}


def _store(environ: Mapping[str, str]) -> TaskStore:
    path = (environ.get("DB_PATH") or "").strip()
    if not path:
        raise UsageError("DB_PATH is not set", code="TASK_STORE_NOT_NAMED", hint="set it to LoopAI's database")
    return TaskStore(path)


def _task(task_id: str | None, environ: Mapping[str, str]) -> str:
    named = str(task_id or "").strip() or next((environ[name] for name in _TASK_VARIABLES if environ.get(name)), "")
    if not named.strip():
        raise UsageError("no task is named", code="TASK_NOT_NAMED", hint="give task_id, or set TASK_ID")
    return named.strip()


def _fields(updates: Mapping[str, Any] | str) -> dict[str, Any]:
    value: Any = updates
    if isinstance(updates, str):
        try:
            value = json.loads(updates)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the updates are no JSON: {error}", hint="give a JSON object, or a mapping") from None
    if not isinstance(value, Mapping):
        raise UsageError("the updates are no mapping of fields to values", hint='for example {"train_stage": "sft"}')
    return wrapped.unwrapped(value)


def _refuse_protected(section: str, fields: Mapping[str, Any]) -> None:
    if section == "system":
        raise UsageError("the section 'system' is not a task's to change", hint="change it in LoopAI's settings")
    held = sorted(_PROTECTED.get(section, frozenset()) & fields.keys())
    if held:
        raise UsageError(f"'{section}.{held[0]}' cannot be changed", hint="leave it out")
