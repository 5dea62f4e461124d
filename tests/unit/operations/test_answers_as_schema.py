"""Answers of operations that run here, each held against its schema; whole runs are held against theirs in tests/flow."""

import json

import pytest
from fakes.answers import checked
from fakes.finished_runs import FinishedRun

from loopai_trainer.errors import TrainerError
from loopai_trainer.files.event_log import append
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations.analyze import analyze_target
from loopai_trainer.operations.answer import failure
from loopai_trainer.operations.compare import compare
from loopai_trainer.operations.diff import diff
from loopai_trainer.operations.events import events
from loopai_trainer.operations.guide import guide
from loopai_trainer.operations.inspect import inspect
from loopai_trainer.operations.list import list_runs
from loopai_trainer.operations.logs import logs
from loopai_trainer.operations.sources import Request
from loopai_trainer.operations.status import status
from loopai_trainer.operations.targets import Scope
from loopai_trainer.operations.templates import templates


def answered(command, operation):
    """The answer, good or refused, through JSON as a reader gets it."""
    try:
        answer = operation()
    except TrainerError as error:
        answer = failure(command, error)
    return checked(json.loads(answer.json_text()))


@pytest.fixture
def scope(place):
    return Scope(place.environ, str(place.root / "outputs"))


def test_prepare_and_inspect(place):
    prepared = answered("prepare", place.prepare)
    assert prepared["ok"]
    config = prepared["data"]["config_path"]
    inspected = answered("inspect", lambda: inspect(config, place.environ))
    refreshed = answered("inspect", lambda: inspect(config, place.environ, refresh_inputs=True))
    assert inspected["ok"] and refreshed["ok"]
    assert set(inspected["data"]) == set(prepared["data"]) == set(refreshed["data"]) - {"refreshed"}


def test_refusals_of_prepare(place):
    missing = answered("prepare", lambda: place.prepare(train_input_model_name=None))
    assert missing["error"]["code"] == "SETTINGS_MISSING"
    place.write_rows([{"instruction": "a", "output": ""}])
    rows = answered("prepare", place.prepare)
    assert rows["error"]["code"] == "DATA_INVALID"
    assert rows["error"]["counts"]
    assert answered("prepare", lambda: place.prepare(llamafactory_env_path="/nowhere"))["error"]["tried"]


@pytest.mark.parametrize("task_type", ["sft", "grpo"])
def test_guide(place, task_type):
    assert answered("guide", lambda: guide(Request({}, place.environ), task_type))["ok"]
    assert answered("guide", lambda: guide(place.request()))["data"]["ready"]


def test_what_reads_a_prepared_run(place, scope):
    for version in ("v1", "v2"):
        place.prepare(trainer_version_id=version)
    run = RunDir(str(place.run))
    append(run.events, version_id="v1", task_id="default", attempt=1, node="starting", status="running", progress=0.5)
    assert answered("status", lambda: status("v1", scope))["status"] == "prepared"
    assert answered("list", lambda: list_runs(scope, 5))["data"]["count"] == 2
    assert answered("events", lambda: events("v1", scope))["data"]["events"][-1]["progress"] == 0.5
    assert answered("logs", lambda: logs("v1", scope, 5))["data"]["lines"] == []
    assert answered("diff", lambda: diff("v2", scope))["data"]["against"] is None
    assert answered("diff", lambda: diff("v2", scope, against="v1"))["data"]["against"]["round"] is None
    assert answered("compare", lambda: compare(["v1", "v2"], scope, None))["data"]["not_ranked"]
    assert not answered("analyze", lambda: analyze_target("v9", scope))["ok"]


def test_analyze(tmp_path):
    run = FinishedRun(tmp_path)
    scope = Scope({}, str(tmp_path / "outputs"))
    found = answered("analyze", lambda: analyze_target(str(run.path), scope))
    assert found["data"]["best_checkpoint"]["step"] == 30


def test_templates():
    assert answered("templates", lambda: templates("list", None, None, {}))["data"]["templates"]
