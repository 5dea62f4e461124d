"""LoopAI's side of the task store and of its pickles: its tables, a writer of its own, and a reader of its events."""

import json
import pickle
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLES = """
create table starterconfig(id integer primary key autoincrement, name varchar(255) not null, config text);
create table taskmodel(id integer primary key autoincrement, task_id varchar(255) not null, name varchar(255) not null,
    config text, state text, ai_thread_id varchar(255), createdAt timestamp not null, updatedAt timestamp not null);
create table taskruntime(id integer primary key autoincrement, task_id varchar(255) not null,
    node_name varchar(255) not null, version varchar(255) not null, state text, status varchar(255) not null,
    createdAt timestamp not null, updatedAt timestamp not null);
"""
OLDER_TABLES = """
create table taskmodel(id integer primary key autoincrement, task_id varchar(255) not null, name varchar(255) not null,
    config text, state text);
create table taskruntime(id integer primary key autoincrement, task_id varchar(255) not null,
    node_name varchar(255) not null, version varchar(255) not null, status varchar(255) not null,
    createdAt timestamp not null, updatedAt timestamp not null);
"""


class LoopAI:
    """A database as LoopAI makes it. `older`: before there were `ai_thread_id` and a runtime's `state`."""

    def __init__(self, path: Path, *, older: bool = False, wal: bool = True) -> None:
        self.path = path
        self.older = older
        with sqlite3.connect(path) as connection:
            if wal:
                connection.execute("pragma journal_mode=wal")
            connection.executescript(OLDER_TABLES if older else TABLES)
        connection.close()

    def do(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path, timeout=30.0)
        try:
            with connection:
                return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    def add_task(self, task_id: str, state: Any) -> None:
        text = state if isinstance(state, str) else json.dumps(state, ensure_ascii=False)
        if self.older:
            self.do("insert into taskmodel(task_id, name, config, state) values(?, 'a task', '{}', ?)", task_id, text)
        else:
            self.do(
                "insert into taskmodel(task_id, name, config, state, createdAt, updatedAt) "
                "values(?, 'a task', '{}', ?, '2026-01-01 00:00:00+00:00', '2026-01-01 00:00:00+00:00')",
                task_id,
                text,
            )

    def state(self, task_id: str) -> dict[str, Any]:
        ((text,),) = self.do("select state from taskmodel where task_id=?", task_id)
        return json.loads(text)

    def trainer(self, task_id: str) -> dict[str, Any]:
        return self.state(task_id)["trainer"]

    def runtimes(self, task_id: str) -> list[tuple[str, str, str]]:
        """(node, version, status) of each row, oldest first."""
        return self.do("select node_name, version, status from taskruntime where task_id=? order by id", task_id)


WRITER = """
import json, sqlite3, sys
path, task_id, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(1, limit + 1):
    connection = sqlite3.connect(path, timeout=30.0, isolation_level=None)
    connection.execute("begin immediate")
    (text,) = connection.execute("select state from taskmodel where task_id=?", (task_id,)).fetchone()
    state = json.loads(text)
    state.setdefault("analyzer", {})["turn"] = number
    state["trainer"]["a_field_of_somebody"] = number
    connection.execute("update taskmodel set state=? where task_id=?", (json.dumps(state), task_id))
    connection.execute("commit")
    connection.close()
    print(number, flush=True)
    if sys.stdin.readline() == "":
        break
"""


class OtherAgent:
    """A process of LoopAI's that changes the same task, one turn for each call of `turn`."""

    def __init__(self, database: LoopAI, task_id: str) -> None:
        self.turns = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(database.path), task_id, "1000000"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._told()

    def turn(self) -> None:
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._told()

    def stop(self) -> int:
        """Ends it; returns how many turns it has made."""
        self._process.stdin.close()
        self._process.wait(timeout=30.0)
        self._process.stdout.close()
        return self.turns

    def _told(self) -> None:
        self.turns = int(self._process.stdout.readline())


@dataclass
class StreamEvent:
    """The fields that LoopAI's own class has; a mapping with any other is not taken for an event."""

    current: str
    progress: float | None = None
    progress_num: int | None = None
    total: int | None = None
    message: str | None = None
    data: Any | None = None
    time: str | None = None
    version_id: str | None = None
    node: str | None = None
    status: str | None = None
    context_id: str | None = None
    error: Any | None = None


def read_events(path: Path) -> list[StreamEvent]:
    """The events of a task's file as LoopAI reads them: groups by agent, ordered by time."""
    groups = pickle.loads(path.read_bytes())
    assert isinstance(groups, dict)
    found = [StreamEvent(**item) for items in groups.values() for item in items]
    return sorted(found, key=lambda event: event.time or "")


def read_result(path: Path) -> dict[str, Any]:
    """The state of a run that has ended, as LoopAI's caller reads it."""
    payload = pickle.loads(path.read_bytes())
    assert payload["ok"] is True
    return payload["state"]
