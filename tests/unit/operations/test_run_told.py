"""What a caller tells the task store in a worker's place, and that it never fails the call for it."""

import json
import os
from pathlib import Path

import pytest
from fakes.loopai import LoopAI, read_result

from loopai_trainer.files import atomic, state_file
from loopai_trainer.files.run_dir import TaskDir
from loopai_trainer.host import locks
from loopai_trainer.operations import run_told
from loopai_trainer.worker import handover
from loopai_trainer.worker.ending import conclude
from loopai_trainer.worker.observe import observe
from loopai_trainer.worker.record import Record


@pytest.fixture
def database(tmp_path, monkeypatch):
    made = LoopAI(tmp_path / "loopai.sqlite")
    made.add_task("task", {"trainer": {}})
    monkeypatch.setattr(handover, "_LAST_WAIT_S", 0.1)
    return made


@pytest.fixture
def ended(tmp_path, database, monkeypatch):
    """A completed run whose worker could not tell the store: it was not named then."""
    monkeypatch.delenv("DB_PATH", raising=False)
    run = TaskDir(str(tmp_path / "out"), "task").run("v1")
    os.makedirs(run.launch)
    Path(run.launch_started).write_text("{}")
    record = Record(run, {"status": "finalizing", "attempt": 1, "version_id": "v1", "task_id": "task"})
    record.state["task_store_error"] = "it was held"
    conclude(run, record, {"status": "completed", "update_model_path": None})
    monkeypatch.setenv("DB_PATH", str(database.path))
    return run


def test_a_result_that_has_changed_since(ended, database):
    result = json.loads(Path(ended.result).read_text())
    atomic.write_json(ended.result, {**result, "update_model_path": "/exported"})
    run_told.tell_changed(ended)
    assert database.trainer("task")["update_model_path"] == "/exported"
    assert read_result(Path(ended.result_pickle))["trainer"]["update_model_path"] == "/exported"
    assert database.runtimes("task") == [("trainer", "v1", "completed")]


def test_a_change_that_cannot_be_told_is_only_said(ended, database, capsys):
    database.path.unlink()
    run_told.tell_changed(ended)
    assert "there is no task store" in capsys.readouterr().err


def test_what_was_missing_is_told_once(ended, database):
    lines = []
    run_told.tell_again(ended, observe(ended), lines.append)
    assert database.trainer("task")["trainer_training_success"] is True
    assert lines == []
    assert "task_store_error" not in state_file.read(ended).state


def test_it_is_said_if_it_fails_again(ended, database):
    database.do("drop table taskmodel")
    lines = []
    run_told.tell_again(ended, observe(ended), lines.append)
    assert len(lines) == 1
    assert "no such table" in lines[0]
    assert state_file.read(ended).state["task_store_error"] == "it was held"


def test_somebody_else_at_work_is_left_alone(ended, database):
    fd = locks.try_exclusive(ended.run_lock)
    try:
        run_told.tell_again(ended, observe(ended, holding_run_lock=True), pytest.fail)
    finally:
        os.close(fd)
    assert database.trainer("task") == {}


def test_an_orphan_that_cannot_be_told_is_only_said(ended, database, capsys):
    database.do("drop table taskmodel")
    run_told.tell_orphaned(ended, observe(ended))
    assert "no such table" in capsys.readouterr().err
