"""Files that earlier versions wrote load for ever: the fixtures in format-N are never changed, only added to."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from loopai_trainer.files import event_log, result_file, state_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations.events import events
from loopai_trainer.operations.list import list_runs
from loopai_trainer.operations.status import status
from loopai_trainer.operations.targets import Scope
from loopai_trainer.worker.observe import observe, read_exit, read_started

HERE = Path(__file__).parent
STATES = sorted(path.relative_to(HERE).as_posix() for path in HERE.glob("format-*/run_state.*.json"))
RESULTS = sorted(path.relative_to(HERE).as_posix() for path in HERE.glob("format-*/worker_result*.json"))


def version_of(name):
    return str(json.loads((HERE / name).read_text()).get("version_id", "v1"))


@pytest.fixture
def place(tmp_path):
    def make(version_id):
        run = RunDir(str(tmp_path / "outputs" / "task" / "trainer" / version_id))
        os.makedirs(run.launch)
        os.makedirs(run.metrics)
        return run

    return make


def test_there_are_fixtures_of_every_format():
    assert {name.split("/")[0] for name in STATES} == {f"format-{n}" for n in range(state_file.SCHEMA_VERSION + 1)}


@pytest.mark.parametrize("name", STATES)
def test_a_state_is_read_whole_and_gives_a_verdict(place, name):
    run = place(version_of(name))
    shutil.copy(HERE / name, run.run_state)
    read = state_file.read(run)
    assert read.damaged == ""
    assert read.state["status"] == json.loads((HERE / name).read_text())["status"]
    seen = observe(run)
    assert seen.verdict.status in ("failed", "completed")
    answer = status(run.path, Scope({}))
    assert (answer.ok, answer.data["trainer_version_id"]) == (True, run.version_id)
    assert list_runs(Scope({}, os.path.dirname(os.path.dirname(os.path.dirname(run.path)))), 5).data["count"] == 1


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_read_whole_and_believed(place, name):
    written = json.loads((HERE / name).read_text())
    run = place(written["trainer_version_id"])
    shutil.copy(HERE / name, run.result)
    assert result_file.read(run) == written
    shutil.copy(HERE / "format-1" / "started.json", run.launch_started)
    Path(run.run_state).write_text("{")  # the result is the truth
    seen = observe(run)
    assert (seen.verdict.status, seen.verdict.action) == (written["status"], "answer")
    assert status(run.path, Scope({})).data["result"] == written["result"]


def test_a_running_state_whose_boot_is_over_is_lost_not_running(place):
    run = place("v1")
    for name, path in (("run_state.running.json", run.run_state), ("started.json", run.launch_started)):
        shutil.copy(HERE / "format-1" / name, path)
    seen = observe(run)
    assert (seen.verdict.status, seen.verdict.action, seen.verdict.code) == ("failed", "finish", "WORKER_LOST")
    assert set(read_started(run)) == {"keeper", "training"}
    shutil.copy(HERE / "format-1" / "exit.json", run.launch_exit)
    assert read_exit(run)["returncode"] == 0
    assert observe(run).verdict.action == "finish"


@pytest.mark.parametrize("name", sorted(path.parent.name for path in HERE.glob("format-*/events.jsonl")))
def test_events_are_read_in_order(place, name):
    run = place("v1")
    Path(run.run_state).write_text('{"status": "running"}')
    shutil.copy(HERE / name / "events.jsonl", run.events)
    data = events(run.path, Scope({})).data
    assert data["next_seq"] == len(data["events"]) > 0
    last = data["next_seq"]
    number = event_log.append(run.events, version_id="v1", task_id="t", attempt=1, node="n", status="running")
    assert number == last + 1


def test_the_fixtures_are_those_that_were_written_then():
    for name, digest in json.loads((HERE / "digests.json").read_text()).items():
        assert hashlib.sha256((HERE / name).read_bytes()).hexdigest() == digest, name
