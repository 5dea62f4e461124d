import json
import os
from pathlib import Path

import pytest

from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import waiting
from loopai_trainer.operations.status import describe, sentence, status
from loopai_trainer.operations.targets import Scope
from loopai_trainer.worker.observe import observe

OLD_STATE = {
    "version_id": "v-old",
    "status": "running",
    "worker": {"pid": 4190001, "start_time": 1764400000.0, "boot_id": "00000000-0000-4000-8000-000000000001"},
    "child": {"pid": 4190002},
}
"""Case SUP-02A: the state says running; the process and its boot are gone."""


@pytest.fixture
def run(tmp_path):
    os.makedirs(tmp_path / "v-old" / "launch")
    return RunDir(str(tmp_path / "v-old"))


def test_a_dead_worker_does_not_look_alive(run):
    Path(run.run_state).write_text(json.dumps({**OLD_STATE, "current_step": 40}))
    Path(run.train_log).write_text("one\ntwo\n")
    answer = status(run.path, Scope({}))
    assert (answer.status, answer.data["error"]["code"]) == ("failed", "WORKER_LOST")
    assert answer.data["error"]["recoverable"]
    assert answer.data["error"]["log_tail"] == ["one", "two"]
    assert "step: 40" in answer.data["error"]["detail"]
    Path(run.run_state).write_text(json.dumps(OLD_STATE))
    assert status(run.path, Scope({})).status == "failed"


def test_a_lost_worker_is_told_with_the_call_that_finishes_its_run(run):
    Path(run.run_state).write_text(json.dumps({**OLD_STATE, "config_sha256": "ab" * 32}))
    error = status(run.path, Scope({})).data["error"]
    assert error["hint"].startswith("make the same run-prepared call again")
    refusal = waiting.ended("wait", run, observe(run)).error
    assert error["next_command"] == refusal.next_command


def test_a_failed_training_is_told_with_its_last_lines_and_where_the_others_are(run):
    # Without launch/started.json a recorded refusal is believed: nothing was launched that a result could tell of.
    error = {"code": "EXIT_STATUS", "detail": "exit status 3", "hint": "mend it"}
    atomic.write_json(run.run_state, {**OLD_STATE, "status": "failed", "error": error})
    Path(run.train_log).write_text("".join(f"line {n}\n" for n in range(9)))
    error = status(run.path, Scope({})).data["error"]
    assert error["log_tail"] == [f"line {n}" for n in range(4, 9)]
    assert error["hint"] == "mend it"
    assert error["next_command"] == f"trainer logs {run.path}"


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        '{"status":"completed","result":5,"error":7}',
        '{"checkpoints":5,"best_checkpoint":"x"}',
        '{"status":"failed","error":{"detail":5}}',
        '{"status":"running","total_steps":"x","current_step":[]}',
        '{"status":"running","training":5,"tree":[]}',
        '{"status":{}}',
        "5",
        "",
        "\x00",
    ],
)
def test_any_record_is_survived(run, text, started):
    if started:
        atomic.write_json(run.launch_started, {"keeper": 5, "training": "x"})
        Path(run.launch_exit).write_text("[]")
    Path(run.run_state).write_text(text)
    Path(run.result).write_text(text)
    seen = observe(run)
    data = describe(run, seen)
    assert data["status"] == "failed"
    assert sentence(data)
    assert waiting.ended("wait", run, seen).error is not None
    assert status(run.path, Scope({})).data["error"]["hint"]
