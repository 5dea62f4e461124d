import json
import os
from pathlib import Path

import pytest

from loopai_trainer.errors import Cancelled
from loopai_trainer.files import event_log, state_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.worker import ending
from loopai_trainer.worker.record import Record


@pytest.fixture
def run(tmp_path):
    os.makedirs(tmp_path / "v1" / "launch" / "cache" / "deep")
    return RunDir(str(tmp_path / "v1"))


@pytest.fixture
def record(run):
    return Record(run, {"status": "finalizing", "attempt": 2, "version_id": "v1", "task_id": "task"})


def test_result_then_state(run, record):
    assert ending.conclude(run, record, {"status": "completed", "x": 1}) == "completed"
    result = json.loads(Path(run.result).read_text())
    assert (result["schema_version"], result["attempt"], result["x"]) == (1, 2, 1)
    assert state_file.read(run).state["status"] == "completed"
    assert not os.path.exists(run.cache)


def test_a_whole_result_is_not_written_again(run, record):
    ending.conclude(run, record, {"status": "failed", "error": {"detail": "first"}})
    again = Record(run, {"status": "finalizing", "attempt": 2, "version_id": "v1", "task_id": "task"})
    stored = ending.stored_result(run, 2)
    assert stored is not None
    before = Path(run.result).read_bytes()
    ending.conclude(run, again, stored)
    assert Path(run.result).read_bytes() == before


@pytest.mark.parametrize("text", ["{", "{}", '{"status": "failed"}', '{"attempt": 1, "status": "failed"}'])
def test_a_torn_or_older_result_does_not_count(run, text):
    Path(run.result).write_text(text)
    assert ending.stored_result(run, 2) is None


def test_a_full_disk_is_waited_for(run, record, monkeypatch, capsys):
    turns = iter([OSError(28, "No space left on device"), OSError(28, "No space left on device"), None])
    real = state_file.write

    def sometimes(*args, **kwargs):
        error = next(turns)
        if error:
            raise error
        real(*args, **kwargs)

    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(state_file, "write", sometimes)
    ending.conclude(run, record, {"status": "failed"})
    assert state_file.read(run).state["status"] == "failed"
    assert capsys.readouterr().err.count("No space") == 2
    assert len(event_log.read(run.events)) == 1


def test_a_disk_that_stays_full_is_an_error(run, record, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(state_file, "write", full)
    with pytest.raises(OSError, match="No space"):
        ending.conclude(run, record, {"status": "failed"})


def test_only_the_runs_own_folders_are_removed(run, tmp_path):
    own, other, link = tmp_path / "loopai-1", tmp_path / "other", tmp_path / "loopai-link"
    own.mkdir()
    other.mkdir()
    link.symlink_to(other)
    for path in (own, other, link):
        ending.remove_caches(run, {"tmp_dir": str(path)})
    assert not own.exists()
    assert other.exists()
    assert link.is_symlink()


def test_what_cannot_be_removed_is_told(run, record, monkeypatch, capsys):
    def refuse(path, onerror):
        onerror(None, path, (OSError, OSError("busy"), None))

    monkeypatch.setattr("shutil.rmtree", refuse)
    ending.conclude(run, record, {"status": "failed"})
    assert "not removed" in capsys.readouterr().err


def test_a_short_result_has_the_shape_of_a_long_one(record):
    result = ending.short_result(record, "cancelled", Cancelled("stopped", hint="h"))
    assert result["error"]["code"] == "CANCELLED"
    assert result["checkpoints"] == []
