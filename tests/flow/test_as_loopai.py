"""LoopAI's side of a run: its task store and its event file, whoever of the run's processes lives or dies."""

import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest
from fakes.loopai import LoopAI, OtherAgent, read_events, read_result
from fakes.runs import answer, kill, wait_for

pytestmark = pytest.mark.flow

CONSTRUCTOR = {"mapping_results": {"output_file": "/made.jsonl"}}


@pytest.fixture
def database(tmp_path):
    made = LoopAI(tmp_path / "loopai.sqlite")
    made.add_task("task", {"trainer": {"train_stage": "sft"}, "constructor": CONSTRUCTOR})
    return made


@pytest.fixture
def start(prepare, tmp_path, database):
    """A run whose training waits at its end; returns it, its caller and the file that keeps it waiting."""

    def make(**options):
        hold = tmp_path / "hold"
        hold.touch()
        run = prepare(hold_file=str(hold), **options)
        run.extra_env = {"DB_PATH": str(database.path), "TASK_ID": "task"}
        caller = run.start()
        wait_for(lambda: run.state().get("current_step") == 3)
        return run, caller, hold

    return make


def statuses(database):
    return [(version, status) for _, version, status in database.runtimes("task")]


def test_results_come_back_while_another_agent_writes_the_same_task(start, database):
    agent = OtherAgent(database, "task")
    run, caller, hold = start()
    wait_for(lambda: statuses(database) == [("v1", "running")])
    for _ in range(20):
        agent.turn()
    hold.unlink()
    while caller.poll() is None:
        agent.turn()
    code, document = answer(caller)
    turns = agent.stop()
    assert code == 0
    state = database.state("task")
    trainer = state["trainer"]
    assert (state["analyzer"]["turn"], trainer["a_field_of_somebody"]) == (turns, turns)
    assert (state["constructor"], trainer["train_stage"]) == (CONSTRUCTOR, "sft")
    assert trainer["trainer_version_id"] == "v1"
    assert trainer["trainer_training_success"] is True
    assert trainer["trainer_result"]["data"]["best_checkpoint"] == document["data"]["best_checkpoint"]
    assert trainer["training_checkpoints"] == ["checkpoint-1", "checkpoint-2", "checkpoint-3"]
    assert statuses(database) == [("v1", "completed")]
    events = read_events(Path(run.run.event_pickle))
    own = [json.loads(line) for line in Path(run.run.events).read_text().splitlines()]
    assert [event["seq"] for event in own] == list(range(1, len(own) + 1))
    assert (own[-1]["node"], own[-1]["progress"]) == ("completed", 1.0)
    own.sort(key=lambda event: event["time"])  # LoopAI's order; a host's clock may step back while a run lasts
    assert [(e.node, e.status, e.progress) for e in events] == [(e["node"], e["status"], e["progress"]) for e in own]
    assert {event.context_id for event in events} == {"task"}
    assert read_result(Path(run.run.result_pickle))["trainer"]["trainer_training_success"] is True
    for file in (run.run.event_pickle, run.run.result_pickle):
        assert os.stat(file).st_mode & 0o077 == 0


def test_the_worker_tells_it_though_the_caller_is_gone(start, database):
    _, caller, hold = start()
    caller.send_signal(signal.SIGKILL)
    caller.communicate()
    hold.unlink()
    wait_for(lambda: statuses(database) == [("v1", "completed")])
    assert database.trainer("task")["trainer_training_success"] is True


@pytest.mark.parametrize(("options", "code"), [({"exit_code": 3}, "EXIT_STATUS"), ({"nan_at": 2}, "DIVERGED")])
def test_a_failure_comes_back_with_its_reason(start, database, options, code):
    _, caller, hold = start(**options)
    hold.unlink()
    assert answer(caller)[0] == 11
    trainer = database.trainer("task")
    assert trainer["trainer_last_error"]["code"] == code
    assert trainer["training_error"] == trainer["training_final_status"]["error_message"] != ""
    assert statuses(database) == [("v1", "failed")]


def test_no_secret_of_a_failure_reaches_loopai(database, prepare):
    token = "hf_" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1Babcdef"
    words = f"RuntimeError: login with correct-horse-battery and {token} failed"
    run = prepare("v2", exit_code=3, stop_at=2, last_words=words)
    run.extra_env = {"DB_PATH": str(database.path), "MY_API_KEY": "correct-horse-battery"}
    assert run.run_to_end()[0] == 11
    told = [json.dumps(database.state("task")), str(database.do("select * from taskruntime"))]
    told += [Path(file).read_bytes().decode("latin-1") for file in (run.run.event_pickle, run.run.result_pickle)]
    assert "login with [redacted] and [redacted] failed" in told[0]
    for text in told:
        assert token not in text
        assert "correct-horse-battery" not in text


def test_a_cancelled_run_is_failed_with_the_reason(start, database):
    run, caller, _ = start()
    assert answer(run.call("cancel", run.run.path, "--json"))[1]["status"] == "cancelled"
    assert answer(caller)[0] == 13
    assert statuses(database) == [("v1", "failed")]
    trainer = database.trainer("task")
    assert trainer["training_final_status"]["status"] == "cancelled"
    assert trainer["trainer_last_error"]["code"] == "CANCELLED"


def test_an_orphan_is_failed_until_a_new_worker_watches_it(start, database):
    run, caller, hold = start()
    wait_for(lambda: statuses(database) == [("v1", "running")])
    kill(run.state()["worker"])
    assert answer(caller)[0] == 8
    assert statuses(database) == [("v1", "failed")]
    assert database.trainer("task")["trainer_last_error"]["code"] == "ORPHANED_TRAINING"
    adopting = run.call("recover", run.run.path, "--adopt", "--json")
    wait_for(lambda: statuses(database) == [("v1", "running")])
    hold.unlink()
    assert answer(adopting)[0] == 0
    assert statuses(database) == [("v1", "completed")]
    assert database.trainer("task")["trainer_last_error"] is None


def test_a_run_that_ended_unwatched_is_told_by_the_call_that_finishes_it(start, database):
    run, caller, hold = start()
    kill(run.state()["worker"])
    assert answer(caller)[0] == 8
    hold.unlink()
    wait_for(lambda: run.locked() == (False, False))  # the keeper has noted its end
    assert run.run_to_end()[0] == 0
    assert statuses(database) == [("v1", "completed")]


def test_a_store_that_is_held_at_the_end_is_told_by_the_next_call(start, database):
    run, caller, hold = start()
    connection = sqlite3.connect(database.path, isolation_level=None)
    connection.execute("begin immediate")
    hold.unlink()
    code, document = answer(caller)
    assert (code, document["status"]) == (0, "completed")
    assert run.state()["task_store_error"]
    connection.execute("rollback")
    connection.close()
    assert database.trainer("task").get("trainer_training_success") is None
    assert run.run_to_end()[0] == 0
    assert database.trainer("task")["trainer_training_success"] is True
    assert "task_store_error" not in run.state()
    assert run.starts == 1
