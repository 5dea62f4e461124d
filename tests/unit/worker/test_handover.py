"""What a worker tells LoopAI, and that nothing of it can do harm to a run."""

import json
import os
from pathlib import Path

import pytest
from fakes.loopai import LoopAI, read_events, read_result

from loopai_trainer.errors import Orphaned, TaskStoreError
from loopai_trainer.files import state_file, task_store
from loopai_trainer.files.run_dir import TaskDir
from loopai_trainer.rules import task_fields
from loopai_trainer.worker import handover
from loopai_trainer.worker.ending import conclude
from loopai_trainer.worker.handover import Handover, store_address
from loopai_trainer.worker.record import Record


@pytest.fixture
def database(tmp_path, monkeypatch):
    made = LoopAI(tmp_path / "loopai.sqlite")
    made.add_task("task", {"trainer": {"somebody": 1}})
    monkeypatch.setenv("DB_PATH", str(made.path))
    monkeypatch.setattr(handover, "_LAST_WAIT_S", 0.1)
    return made


@pytest.fixture
def run(tmp_path):
    made = TaskDir(str(tmp_path / "out"), "task").run("v1")
    os.makedirs(made.path)
    return made


@pytest.fixture
def record(run):
    made = Record(run, {"status": "", "attempt": 1, "version_id": "v1", "task_id": "task"})
    made.move("running", "starting")
    return made


def follow(run, record):
    made = Handover(run, record)
    record.follow(made.changed)
    return made


def test_a_run_is_told_from_its_start_to_its_end(run, record, database):
    follow(run, record)
    assert database.runtimes("task") == [("trainer", "v1", "running")]
    assert database.trainer("task")["current_training_status"] == "running"
    record.move("finalizing", "finalizing")
    assert database.trainer("task")["trainer_training_progress"]["phase"] == "finalizing"
    os.makedirs(run.swanlab)
    conclude(run, record, {"status": "completed", "update_model_path": "/best"})
    trainer = database.trainer("task")
    assert (trainer["training_success"], trainer["update_model_path"], trainer["somebody"]) == (True, "/best", 1)
    assert trainer["train_output_swanlab_log_path"] == run.swanlab
    assert database.runtimes("task") == [("trainer", "v1", "completed")]
    assert [event.node for event in read_events(Path(run.event_pickle))] == ["starting", "finalizing", "completed"]
    result = read_result(Path(run.result_pickle))
    assert (result["task_id"], result["trainer"]["update_model_path"]) == ("task", "/best")
    assert "task_store_error" not in state_file.read(run).state


def test_all_is_told_before_the_last_state_is_written(run, record, database, monkeypatch):
    seen = []
    real = state_file.write

    def spy(target, state, **more):
        if state["status"] == "completed":
            seen.append((database.trainer("task")["training_success"], os.path.exists(run.result_pickle)))
        return real(target, state, **more)

    record.move("finalizing", "finalizing")
    monkeypatch.setattr(state_file, "write", spy)
    conclude(run, record, {"status": "completed"})
    assert seen == [(True, True)]


def test_phases_and_steps_are_told_now_and_then(run, record, database, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    follow(run, record)
    record.phase("loading_data")
    assert database.trainer("task")["trainer_training_progress"]["phase"] == "starting"
    clock[0] += handover._PAUSE_S
    record.note(current_step=3, total_steps=12)
    record.phase("training")
    progress = database.trainer("task")["trainer_training_progress"]
    assert (progress["phase"], progress["progress"]) == ("training", 0.25)


def test_a_busy_store_is_tried_again_and_leaves_the_run_alone(run, record, database, capsys):
    connection = __import__("sqlite3").connect(database.path, isolation_level=None)
    connection.execute("begin immediate")
    follow(run, record)
    record.move("finalizing", "finalizing")
    assert conclude(run, record, {"status": "completed"}) == "completed"
    assert "held by another writer" in capsys.readouterr().err
    state = state_file.read(run).state
    assert "held by another writer" in state["task_store_error"]
    assert (
        task_fields.ended(run, {"status": "completed"}, state)["trainer_state_update_error"]
        == state["task_store_error"]
    )
    assert state["status"] == "completed"
    connection.execute("rollback")
    connection.close()
    assert database.runtimes("task") == []
    handover.tell_again(run, state)
    assert database.trainer("task")["training_success"] is True
    assert database.trainer("task")["trainer_state_update_error"] is None
    assert database.runtimes("task") == [("trainer", "v1", "completed")]
    assert "task_store_error" not in state_file.read(run).state


def test_what_another_agent_writes_over_is_written_again(run, record, database, monkeypatch):
    before = json.dumps(database.state("task"))
    real = task_store.TaskStore.write
    writes = []

    def overwritten(store, *words):
        found = real(store, *words)
        writes.append(words)
        if len(writes) == 1:
            database.do("update taskmodel set state=?", before)  # read before our write, written after it
        return found

    record.move("finalizing", "finalizing")
    monkeypatch.setattr(task_store.TaskStore, "write", overwritten)
    conclude(run, record, {"status": "completed"})
    assert len(writes) == 2
    assert database.trainer("task")["training_success"] is True


def test_a_task_that_is_not_there_is_said_once(run, record, database, capsys):
    database.do("delete from taskmodel")
    follow(run, record)
    record.move("finalizing", "finalizing")
    conclude(run, record, {"status": "completed"})
    assert capsys.readouterr().err.count("has no task 'task'") == 2  # by the worker while it ran, and at the end
    assert "task_store_error" not in state_file.read(run).state


def test_files_that_cannot_be_written_are_only_said(run, record, monkeypatch, capsys):
    monkeypatch.delenv("DB_PATH", raising=False)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("loopai_trainer.files.legacy_pickle.EventPickle.write", full)
    monkeypatch.setattr("loopai_trainer.files.legacy_pickle.write_result", full)
    follow(run, record)
    record.move("finalizing", "finalizing")
    assert conclude(run, record, {"status": "completed"}) == "completed"
    assert capsys.readouterr().err.count("No space left") == 4


def test_a_dev_run_is_none_of_loopais_business(tmp_path, database):
    run = TaskDir(str(tmp_path / "out"), "task").dev_run("v1", "dev-1")
    os.makedirs(run.path)
    record = Record(run, {"status": "", "attempt": 1, "version_id": "dev-1", "task_id": "task"})
    record.move("running", "starting")
    follow(run, record)
    record.move("finalizing", "finalizing")
    conclude(run, record, {"status": "completed"})
    assert database.state("task") == {"trainer": {"somebody": 1}}
    assert database.runtimes("task") == []
    assert not os.path.exists(run.event_pickle)
    assert not os.path.exists(run.result_pickle)


@pytest.mark.parametrize(
    ("noted", "expected"),
    [
        ({"settings": {"db_path": {"value": "/noted"}, "task_id": {"origin": "--task-id"}}}, "/noted"),
        ({"settings": {"db_path": {"value": None}, "task_id": {"origin": "TASK_ID"}}}, "/variable"),
        ({"settings": {"db_path": {"value": "/noted"}, "task_id": {"origin": "default"}}}, ""),
        ({"settings": {"db_path": 3}}, "/variable"),
        ({"settings": [1]}, "/variable"),
        ({}, "/variable"),
        (None, "/variable"),
    ],
)
def test_the_store_is_the_one_of_prepare_else_the_variables(run, noted, expected):
    if noted is not None:
        Path(run.plan).write_text(json.dumps(noted))
    assert store_address(run, {"DB_PATH": "/variable"}) == expected


def test_a_damaged_plan_leaves_the_variable(run):
    Path(run.plan).write_text("{")
    assert store_address(run, {"DB_PATH": "/variable"}) == "/variable"
    assert store_address(run, {}) == ""


def test_an_orphan_is_failed_with_its_reason(run, database):
    error = Orphaned("training of v1 lives, but its worker is gone", hint="recover it")
    handover.tell_orphaned(run, {"status": "running", "task_id": "task", "current_step": 2, "total_steps": 4}, error)
    assert database.runtimes("task") == [("trainer", "v1", "failed")]
    trainer = database.trainer("task")
    assert trainer["trainer_last_error"]["code"] == "ORPHANED_TRAINING"
    assert "worker is gone" in trainer["training_error"]
    assert trainer["trainer_training_progress"]["progress"] == 0.5


def test_without_a_store_nothing_is_asked_for(run, record, monkeypatch):
    monkeypatch.delenv("DB_PATH", raising=False)
    handover.tell_orphaned(run, {}, Orphaned("x"))
    handover.tell_again(run, {})
    record.move("finalizing", "finalizing")
    conclude(run, record, {"status": "failed"})
    handover.tell_again(run, state_file.read(run).state)
    assert read_result(Path(run.result_pickle))["trainer"]["trainer_training_success"] is False


def test_a_store_that_is_gone_is_an_error_of_the_retelling(run, record, database):
    record.move("finalizing", "finalizing")
    conclude(run, record, {"status": "completed"})
    database.path.unlink()
    with pytest.raises(TaskStoreError):
        handover.tell_again(run, state_file.read(run).state)


def test_another_versions_outcome_is_not_taken_for_this_ones(run, record, database):
    task_store.TaskStore(str(database.path)).write(
        "task",
        "trainer",
        {"trainer_training_success": True, "training_success": True, "trainer_best_checkpoint_path": "/earlier",
         "trainer_training_final_status": {"status": "completed"}, "train_output_config_path": "/other.yaml"},
    )  # fmt: skip
    follow(run, record)
    trainer = database.trainer("task")
    assert trainer["trainer_training_success"] is trainer["training_success"] is None
    assert trainer["trainer_training_final_status"] is None
    assert trainer["trainer_best_checkpoint_path"] == "/earlier"
    assert trainer["train_output_config_path"] == run.config


def test_the_result_for_loopai_says_what_was_prepared_too(run, record, database):
    os.makedirs(os.path.dirname(run.approved_config))
    config = "loopai: {framework: llamafactory, inputs: {train: {rows: 3, source: {path: /d/made.jsonl}}}}\nseed: 7\n"
    Path(run.approved_config).write_text(config)
    record.move("finalizing", "finalizing")
    conclude(run, record, {"status": "completed"})
    for trainer in (read_result(Path(run.result_pickle))["trainer"], database.trainer("task")):
        assert trainer["train_config"]["seed"] == 7
        assert trainer["trainer_data_check_result"]["train"] == {"input": 3, "usable": 3, "rejected": 0}
        assert (trainer["dataset_name"], trainer["trainer_data_check_passed"]) == ("made", True)
