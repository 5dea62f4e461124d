"""LoopAI's database is read and written as LoopAI itself would understand it, and never changed otherwise."""

import inspect
import json
import os
import sqlite3
import sys
import threading

import pytest
from fakes.loopai import LoopAI, OtherAgent

from loopai_trainer.errors import TaskStoreError
from loopai_trainer.files.task_store import Runtime, TaskStore
from loopai_trainer.rules import wrapped

STATE = {
    "task_id": "demo",
    "language": "zh",
    "trainer": {"train_framework": "llamafactory", "train_input_model_name": wrapped.wrap("/m"), "known_to_nobody": 1},
    "constructor": {"mapping_results": {"output_file": "/made.jsonl"}, "api_key": "never read"},
    "obtainer": {},
}


@pytest.fixture(params=["wal", "rollback journal", "older"])
def database(request, tmp_path):
    made = LoopAI(tmp_path / "loopai db?.sqlite", older=request.param == "older", wal=request.param == "wal")
    made.add_task("other", {"trainer": {"train_framework": "verl"}})
    made.add_task("demo", STATE)
    return made


@pytest.fixture
def store(database):
    return TaskStore(str(database.path), wait_s=60.0)


def test_values_come_without_their_wrappers(store):
    assert store.section("demo", "trainer") == {
        "train_framework": "llamafactory", "train_input_model_name": "/m", "known_to_nobody": 1,
    }  # fmt: skip
    assert store.section("demo", "default") == {"task_id": "demo", "language": "zh"}
    assert store.section("demo", "analyzer") == {}
    assert store.mapped_file("demo", "constructor") == "/made.jsonl"
    assert store.mapped_file("demo", "obtainer") is None


def test_what_is_written_leaves_everything_else_as_it_was(database, store):
    fields = {"update_model_path": "/best", "train_input_model_name": "/other", "trainer_result": {"ok": True}}
    assert store.write("demo", "trainer", fields) == []
    state = database.state("demo")
    assert state["trainer"]["known_to_nobody"] == 1
    assert state["trainer"]["update_model_path"] == "/best"
    assert state["trainer"]["trainer_result"] == {"ok": True}
    assert state["trainer"]["train_input_model_name"] == {**wrapped.wrap("/m"), "value": "/other"}
    assert {name: state[name] for name in ("constructor", "language")} == {
        name: STATE[name] for name in ("constructor", "language")
    }
    assert database.state("other") == {"trainer": {"train_framework": "verl"}}
    store.write("demo", "default", {"output_dir": "/out"})
    assert database.state("demo")["output_dir"] == "/out"


def test_one_bad_field_does_not_lose_the_others(database, store):
    fields = {
        "bad": object(),
        "worse": "\ud800",
        "loss": float("nan"),
        "losses": [{"loss": float("inf")}],
        "good": "值",
    }
    left_out = store.write("demo", "trainer", fields)
    assert [text.split(":")[0] for text in left_out] == ["bad", "worse"]
    trainer = database.trainer("demo")
    assert (trainer["good"], trainer["loss"], trainer["losses"]) == ("值", None, [{"loss": None}])
    assert "bad" not in trainer


def test_text_of_somebody_that_has_no_utf8_form_is_kept(database, store):
    database.do("update taskmodel set state=? where task_id='demo'", json.dumps({**STATE, "odd": "\ud800"}))
    store.write("demo", "trainer", {"a": 1})
    assert database.state("demo")["odd"] == "\ud800"


def test_a_section_that_is_none_becomes_one(database, store):
    database.do("update taskmodel set state=null where task_id='demo'")
    assert store.section("demo", "trainer") == {}
    store.write("demo", "trainer", {"a": 1})
    assert database.state("demo") == {"trainer": {"a": 1}}


def test_the_runtime_row_of_a_version_is_updated_and_others_are_kept(database, store):
    for status in ("queued", "running", "finalizing", "completed"):
        store.write("demo", "trainer", {}, Runtime("v1", status, {"trainer_version_id": "v1"}))
        expected = "completed" if status == "completed" else "running"
        assert database.runtimes("demo") == [("trainer", "v1", expected)]
    for status in ("failed", "cancelled", "orphaned"):
        store.write("demo", "trainer", {}, Runtime("v2", status, {}))
        assert database.runtimes("demo") == [("trainer", "v1", "completed"), ("trainer", "v2", "failed")]
    rows = store.runtimes("demo")
    assert {row["version"] for row in rows} == {"v1", "v2"}
    assert all(
        set(row) == {"id", "task_id", "node_name", "version", "state", "status", "createdAt", "updatedAt"}
        for row in rows
    )
    first = next(row for row in rows if row["version"] == "v1")
    if database.older:
        assert first["state"] is None
    else:
        assert json.loads(first["state"]) == {"trainer": {"trainer_version_id": wrapped.wrap("v1")}}
    assert store.runtimes("demo", "judger") == []


def test_a_store_without_runtimes_takes_the_fields_alone(database, store):
    database.do("drop table taskruntime")
    store.write("demo", "trainer", {"a": 1}, Runtime("v1", "running", {}))
    assert database.trainer("demo")["a"] == 1
    assert store.runtimes("demo") == []


def test_two_writers_lose_nothing(database, store):
    agent = OtherAgent(database, "demo")
    for number in range(1, 21):
        thread = threading.Thread(target=agent.turn)
        thread.start()
        store.write("demo", "trainer", {"ours": number}, Runtime("v1", "running", {}))
        thread.join()
    turns = agent.stop()
    state = database.state("demo")
    assert turns == 21
    assert (state["trainer"]["ours"], state["trainer"]["a_field_of_somebody"], state["analyzer"]["turn"]) == (
        20,
        21,
        21,
    )


def test_a_held_lock_is_waited_for_and_then_said(database):
    connection = sqlite3.connect(database.path, isolation_level=None)
    connection.execute("begin immediate")
    with pytest.raises(TaskStoreError) as caught:
        TaskStore(str(database.path), wait_s=0.05).write("demo", "trainer", {"a": 1})
    assert caught.value.code == "TASK_STORE_BUSY"
    connection.execute("rollback")
    connection.close()
    assert TaskStore(str(database.path), wait_s=0.05).write("demo", "trainer", {"a": 1}) == []


def test_what_is_no_task_store_is_refused_and_never_made(tmp_path, database, store):
    missing = tmp_path / "none.sqlite"
    other = tmp_path / "other.sqlite"
    text = tmp_path / "text.sqlite"
    text.write_text("not a database, and longer than its header would be " * 3)
    sqlite3.connect(other).close()
    other.write_bytes(b"")
    for path, code in ((missing, "TASK_STORE_MISSING"), (other, "TASK_STORE_UNUSABLE"), (text, "TASK_STORE_UNUSABLE")):
        for call in (lambda path=path: TaskStore(str(path)).section("demo", "trainer"),
                     lambda path=path: TaskStore(str(path)).write("demo", "trainer", {})):  # fmt: skip
            with pytest.raises(TaskStoreError) as caught:
                call()
            assert caught.value.code == code
            assert str(path) in caught.value.message
    assert not missing.exists()
    with pytest.raises(TaskStoreError) as caught:
        store.write("nobody's", "trainer", {"a": 1})
    assert caught.value.code == "TASK_UNKNOWN"
    assert database.do("select count(*) from taskmodel") == [(2,)]


@pytest.mark.parametrize("text", ["{", "[1]", '"text"'])
def test_a_damaged_state_is_not_written_over(database, store, text):
    database.do("update taskmodel set state=? where task_id='demo'", text)
    with pytest.raises(TaskStoreError):
        store.section("demo", "trainer")
    with pytest.raises(TaskStoreError):
        store.write("demo", "trainer", {"a": 1})
    assert database.do("select state from taskmodel where task_id='demo'") == [(text,)]


def test_what_no_statement_can_hold_is_refused(database, store):
    with pytest.raises(TaskStoreError):
        store.section("\ud800", "trainer")
    deep = "[" * 900 + "]" * 900
    database.do("update taskmodel set state=? where task_id='demo'", f'{{"trainer": {{}}, "deep": {deep}}}')
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 300)
    try:
        with pytest.raises(TaskStoreError):
            store.write("demo", "trainer", {"a": 1})
    finally:
        sys.setrecursionlimit(limit)


def test_a_store_that_is_spoilt_while_it_is_used(database, store):
    for rest in database.path.parent.glob(database.path.name + "-*"):
        rest.unlink()
    database.path.write_bytes(database.path.read_bytes()[:100] + b"\x00" * 5000)
    with pytest.raises(TaskStoreError) as caught:
        store.write("demo", "trainer", {"a": 1})
    assert caught.value.code == "TASK_STORE_UNUSABLE"


def test_the_journal_mode_stays_what_it_was(database, store):
    before = database.do("pragma journal_mode")
    store.write("demo", "trainer", {"a": 1})
    assert database.do("pragma journal_mode") == before


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everything")
def test_a_store_that_may_only_be_read_says_so(database, store):
    database.path.chmod(0o400)
    with pytest.raises(TaskStoreError, match="cannot be used"):
        store.write("demo", "trainer", {"a": 1})


@pytest.mark.parametrize(
    "statement",
    [
        "alter table taskruntime drop column version",
        "create trigger owned before insert on taskruntime begin select raise(abort, 'owner is missing'); end",
    ],
)
def test_a_runtime_table_of_another_schema_does_not_lose_the_results(tmp_path, statement):
    made = LoopAI(tmp_path / "loopai.sqlite")
    made.add_task("demo", STATE)
    made.do(statement)
    (left_out,) = TaskStore(str(made.path)).write(
        "demo", "trainer", {"update_model_path": "/best"}, Runtime("v1", "completed", {})
    )
    assert left_out.startswith("taskruntime: ")
    assert made.trainer("demo")["update_model_path"] == "/best"
