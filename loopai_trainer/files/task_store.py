"""LoopAI's task store, the SQLite file at DB_PATH: the only place that knows its tables and speaks SQL.

The file is LoopAI's: it is never made, nor are its tables or its journal mode changed. Every write is one transaction
that takes the lock before it reads, so that fields which somebody else writes meanwhile are kept.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from loopai_trainer.errors import TaskStoreError
from loopai_trainer.rules import wrapped

NODE = "trainer"
"""Our name among the nodes of a task (spec/001, TaskRuntimeItem `node_name`), and that of our section."""

WAIT_S = 10.0
"""How long another writer's lock is waited for."""

_DEFAULT_SECTION = "default"
"""LoopAI's name for the fields beside the sections."""

_RUNTIME_COLUMNS = ("id", "task_id", "node_name", "version", "state", "status", "createdAt", "updatedAt")
_RUNTIME_STATUSES = {"queued": "running", "running": "running", "finalizing": "running", "completed": "completed"}
"""Our statuses -> two of the three that TaskRuntimeItem knows; everything else is `failed` (interface section 5)."""


class Runtime(NamedTuple):
    """The row of a version in `taskruntime`. `status` is one of ours; `fields` of the trainer section stand in it."""

    version: str
    status: str
    fields: Mapping[str, Any]


class TaskStore:
    """LoopAI's database at `path`, opened for each call; `wait_s`: how long another writer may hold its lock."""

    def __init__(self, path: str, wait_s: float = WAIT_S) -> None:
        self.path = os.path.abspath(path)
        self.wait_s = wait_s

    def section(self, task_id: str, name: str) -> dict[str, Any]:
        """The plain values of a section of the task's state, {} if it has none.

        Raises TaskStoreError: TASK_UNKNOWN, TASK_STORE_MISSING, TASK_STORE_UNUSABLE or TASK_STORE_BUSY.
        """
        with self._opened("ro") as connection:
            _, state = self._task(connection, task_id)
        return wrapped.unwrapped(_section(state, name))

    def mapped_file(self, task_id: str, agent: str) -> str | None:
        """What another agent has made of the task's data: `mapping_results.output_file`; nothing else of it is read."""
        with self._opened("ro") as connection:
            _, state = self._task(connection, task_id)
        return wrapped.output_file(_section(state, agent).get("mapping_results"))

    def write(self, task_id: str, section: str, fields: Mapping[str, Any], runtime: Runtime | None = None) -> list[str]:
        """Set these fields of the section, and the version's runtime row, in one transaction; the rest stays.

        Returns what could not be written, in words: a field whose value is no JSON does not lose the others. Raises
        TaskStoreError as `section`.
        """
        texts, left_out = _serialised(fields)
        with self._opened("rw") as connection:
            connection.execute("begin immediate")  # before reading: nobody can write between
            row_id, state = self._task(connection, task_id)
            _merge(state, section, {name: json.loads(text) for name, text in texts.items()})
            _update(connection, "taskmodel", row_id, {"state": _text(state)})
            if runtime is not None:
                left_out += _try_runtime(connection, task_id, runtime)
            connection.execute("commit")
        return left_out

    def runtimes(self, task_id: str, node: str = NODE) -> list[dict[str, Any]]:
        """The task's rows of that node as LoopAI's TaskRuntimeItem, newest first; a column that is missing is null."""
        with self._opened("ro") as connection:
            there = _columns(connection, "taskruntime")
            if not there:
                return []
            names = ", ".join(name for name in _RUNTIME_COLUMNS if name in there)
            query = f"select {names} from taskruntime where task_id=? and node_name=? order by updatedAt desc, id desc"
            rows = connection.execute(query, (task_id, node)).fetchall()
        return [{name: dict(row).get(name) for name in _RUNTIME_COLUMNS} for row in rows]

    @contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        if not os.path.isfile(self.path):
            raise TaskStoreError(
                f"there is no task store {self.path}",
                code="TASK_STORE_MISSING",
                hint="name LoopAI's database by DB_PATH or --db-path, or name none to do without",
            )
        connection: sqlite3.Connection | None = None
        try:
            uri = f"{Path(self.path).as_uri()}?mode={mode}"
            connection = sqlite3.connect(uri, uri=True, timeout=self.wait_s, isolation_level=None)
            connection.row_factory = sqlite3.Row
            yield connection
        except (sqlite3.Error, RecursionError, UnicodeEncodeError) as error:
            raise _refusal(self.path, error, self.wait_s) from None
        finally:
            if connection is not None:
                connection.close()  # rolls back what was not committed

    def _task(self, connection: sqlite3.Connection, task_id: str) -> tuple[int, dict[str, Any]]:
        row = connection.execute("select id, state from taskmodel where task_id=? order by id", (task_id,)).fetchone()
        if row is None:
            raise TaskStoreError(
                f"the task store {self.path} has no task '{task_id}'",
                code="TASK_UNKNOWN",
                hint="name a task that LoopAI has made, or do without DB_PATH",
            )
        try:
            state = json.loads(row["state"] or "{}")
        except (ValueError, RecursionError, TypeError):
            state = None
        if not isinstance(state, dict):
            raise TaskStoreError(
                f"the state of task '{task_id}' in {self.path} is not a JSON object", hint="mend it in LoopAI"
            )
        return row["id"], state


def _section(state: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if name == _DEFAULT_SECTION:
        return {key: value for key, value in state.items() if not isinstance(wrapped.unwrap(value), Mapping)}
    section = state.get(name)
    return section if isinstance(section, Mapping) else {}


def _merge(state: dict[str, Any], section: str, fields: Mapping[str, Any]) -> None:
    if section == _DEFAULT_SECTION:
        target = state
    else:
        held = state.get(section)
        if held is not None and not isinstance(held, dict):
            raise TaskStoreError(
                f"'{section}' of the task's state is no section but a value, which a section would replace",
                hint="name a section, such as trainer; a value beside the sections is a field of 'default'",
            )
        target = state[section] = held or {}
    for name, value in fields.items():
        target[name] = wrapped.rewrapped(target.get(name), value)


def _serialised(fields: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """(JSON by field, what is left out and why); a number that is not finite becomes null."""
    texts: dict[str, str] = {}
    left_out = []
    for name, value in fields.items():
        try:
            texts[name] = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)
            texts[name].encode("utf-8")
        except (TypeError, ValueError, RecursionError) as error:
            left_out.append(f"{name}: {error}")
            texts.pop(name, None)
    return texts, left_out


def _text(value: Mapping[str, Any]) -> str:
    """JSON as LoopAI writes it; escaped where somebody's text has no form in UTF-8, which SQLite asks for."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value


def _try_runtime(connection: sqlite3.Connection, task_id: str, runtime: Runtime) -> list[str]:
    """Why the row was left out, if it was: a table of another schema does not lose the section's fields."""
    connection.execute("savepoint runtime")
    try:
        _put_runtime(connection, task_id, runtime)
    except sqlite3.Error as error:
        connection.execute("rollback to runtime")  # fails, and so refuses all, where SQLite has given all of it up
        return [f"taskruntime: {error}"]
    connection.execute("release runtime")
    return []


def _put_runtime(connection: sqlite3.Connection, task_id: str, runtime: Runtime) -> None:
    """Update the version's newest row, else add one. A store without that table, or without `state`, does without."""
    there = _columns(connection, "taskruntime")
    if not there:
        return
    texts, _ = _serialised(runtime.fields)
    fields = {name: wrapped.wrap(json.loads(text)) for name, text in texts.items()}
    values = {"status": _RUNTIME_STATUSES.get(runtime.status, "failed")}
    values["state"] = _text({NODE: fields})
    key = {"task_id": task_id, "node_name": NODE, "version": runtime.version}
    row = connection.execute(
        "select id from taskruntime where task_id=? and node_name=? and version=? order by updatedAt desc, id desc",
        tuple(key.values()),
    ).fetchone()
    if row is not None:
        _update(connection, "taskruntime", row["id"], values)
        return
    wanted = {name: value for name, value in {**key, **values}.items() if name in there}
    marks = ", ".join("?" for _ in wanted)
    connection.execute(
        f"insert into taskruntime({', '.join(wanted)}, createdAt, updatedAt) "
        f"values({marks}, datetime('now'), datetime('now'))",
        tuple(wanted.values()),
    )


def _update(connection: sqlite3.Connection, table: str, row_id: int, values: Mapping[str, str]) -> None:
    there = _columns(connection, table)
    wanted = {name: value for name, value in values.items() if name in there}
    changes = [f"{name}=?" for name in wanted]
    if "updatedAt" in there:
        changes.append("updatedAt=datetime('now')")  # UTC text with seconds, as LoopAI's own statements write it
    connection.execute(f"update {table} set {', '.join(changes)} where id=?", (*wanted.values(), row_id))


def _columns(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    return frozenset(row["name"] for row in connection.execute(f"pragma table_info({table})"))


def _refusal(path: str, error: Exception, waited_s: float) -> TaskStoreError:
    said = str(error)
    if "locked" in said or "busy" in said:
        return TaskStoreError(
            f"the task store {path} is held by another writer, also after {waited_s:g} s: {said}",
            code="TASK_STORE_BUSY",
            hint="try again when the other program is done with it",
        )
    return TaskStoreError(f"the task store {path} cannot be used: {said}", hint="name LoopAI's own database by DB_PATH")
