"""Callers, workers, keepers and trainings that die: one training a version, and the right end at the next call."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from fakes.runs import LIMIT_S, answer, kill, wait_for

from loopai_trainer.host import processes
from loopai_trainer.worker.observe import read_exit, read_started

pytestmark = pytest.mark.flow

CALLER_KILLS = 24


@pytest.mark.parametrize("seed", range(CALLER_KILLS))
def test_the_caller_is_killed_at_a_random_moment(prepare, seed):
    run = prepare(steps=3, pause_s=0.05)
    caller = run.start()
    time.sleep(random.Random(seed).uniform(0.0, 1.2))
    caller.kill()
    caller.communicate(timeout=LIMIT_S)
    code, document = run.run_to_end()
    assert (code, document["status"]) == (0, "completed")
    assert run.starts == 1


def test_eight_callers_at_once_make_one_training_and_eight_equal_answers(prepare):
    run = prepare(steps=5, pause_s=0.1)
    callers = [run.start() for _ in range(8)]
    answers = [answer(caller, 120.0) for caller in callers]
    assert [code for code, _ in answers] == [0] * 8
    assert all(document["data"] == answers[0][1]["data"] for _, document in answers)
    assert run.starts == 1


def test_a_refused_start_is_refused_for_all_and_frees_the_lock(prepare, tmp_path):
    run = prepare()
    Path(run.run.path, "train.jsonl").write_text("another\n")
    callers = [run.start() for _ in range(3)]
    answers = [answer(caller) for caller in callers]
    assert [(code, document["error"]["code"]) for code, document in answers] == [(6, "INPUT_CHANGED")] * 3
    assert run.starts == 0
    wait_for(lambda: run.locked() == (False, False))


def test_a_rank_that_outlives_worker_and_launcher_keeps_others_out(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold), helper_s=300.0)
    caller = run.start()
    wait_for(lambda: run.state().get("training"))
    rank = rank_of(run)
    kill(run.state()["worker"])
    kill(run.state()["training"])
    wait_for(lambda: read_exit(run.run))
    caller_code, _ = answer(caller)
    assert caller_code == 8
    assert run.status == "orphaned"
    assert run.locked() == (False, True)
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (8, "ORPHANED_TRAINING")
    assert rank["pid"] in [one["pid"] for one in document["error"]["processes"]]
    assert processes.alive(rank)
    assert run.starts == 1
    kill(rank)
    wait_for(lambda: run.locked() == (False, False))
    code, document = run.run_to_end()
    assert (code, document["status"], document["error"]["code"]) == (11, "failed", "KILLED_BY_SIGNAL")
    assert run.starts == 1


def test_a_rank_that_outlives_worker_and_keeper_is_found_by_its_mark(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold), helper_s=300.0)
    caller = run.start()
    wait_for(lambda: run.state().get("training"))
    rank = rank_of(run)
    kill(run.state()["worker"])
    kill(read_started(run.run)["keeper"])
    caller.communicate(timeout=LIMIT_S)
    wait_for(lambda: not processes.alive(read_started(run.run)["training"]))  # it dies with its keeper
    wait_for(lambda: run.locked() == (False, False))
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (8, "ORPHANED_TRAINING")
    assert [one["pid"] for one in document["error"]["processes"]] == [rank["pid"]]
    kill(rank)
    wait_for(lambda: not processes.alive(rank))
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (11, "WORKER_LOST")
    assert run.starts == 1


def test_the_keeper_is_killed(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold), helper_s=300.0)
    caller = run.start()
    wait_for(lambda: run.state().get("training"))
    rank = rank_of(run)
    kill(read_started(run.run)["keeper"])
    code, document = answer(caller)
    assert (code, document["error"]["code"]) == (11, "KEEPER_LOST")
    assert not processes.alive(rank)
    assert run.living() == []
    assert run.run_to_end()[1]["error"]["code"] == "KEEPER_LOST"
    assert run.starts == 1


def test_the_worker_is_killed_after_training_ended(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold))
    caller = run.start()
    wait_for(lambda: run.state().get("current_step") == 3)
    worker = run.state()["worker"]
    kill(worker, signal.SIGSTOP)
    hold.unlink()
    wait_for(lambda: read_exit(run.run) and run.locked() == (True, False))
    kill(worker)
    code, document = answer(caller)  # this caller is attached: it starts the worker that finishes
    assert (code, document["status"]) == (0, "completed")
    assert run.run_to_end()[1]["data"]["best_checkpoint"]["name"] == "checkpoint-3"
    assert run.starts == 1


def test_worker_and_caller_are_killed_after_training_ended(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold), steps=4)
    caller = run.start()
    wait_for(lambda: run.state().get("training"))
    caller.kill()
    caller.communicate(timeout=LIMIT_S)
    worker = run.state()["worker"]
    kill(worker, signal.SIGSTOP)
    hold.unlink()
    wait_for(lambda: read_exit(run.run) and run.locked() == (True, False))
    kill(worker)
    wait_for(lambda: run.locked() == (False, False))
    assert run.status == "failed"  # readers are told that the same call finishes it
    code, document = run.run_to_end()
    assert (code, document["status"]) == (0, "completed")
    assert [row["step"] for row in metric_rows(run)] == [1, 2, 3, 4]
    assert run.starts == 1


def test_the_worker_is_killed_while_training_lives(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold))
    caller = run.start()
    wait_for(lambda: run.state().get("training"))
    kill(run.state()["worker"])
    code, document = answer(caller)
    assert (code, document["status"]) == (8, "orphaned")
    assert processes.alive(read_started(run.run)["training"])
    hold.unlink()
    wait_for(lambda: run.locked() == (False, False))
    assert run.run_to_end()[0] == 0
    assert run.starts == 1


@pytest.mark.parametrize("seed", range(8))
def test_worker_killed_at_a_random_moment_never_makes_a_second_training(prepare, seed):
    run = prepare(steps=3, pause_s=0.05)
    caller = run.start()
    worker = wait_for(lambda: run.state().get("worker"))
    time.sleep(random.Random(seed).uniform(0.0, 0.6))
    processes.send(worker, signal.SIGKILL)
    caller.communicate(timeout=LIMIT_S)
    wait_for(lambda: run.locked() == (False, False))
    code, document = run.run_to_end()
    assert (code, document["status"]) == (0, "completed")
    assert run.starts == 1


def rank_of(run):
    path = os.path.join(run.run.checkpoints, "helper.pid")
    return processes.identify(int(wait_for(lambda: os.path.exists(path) and Path(path).read_text())))


def metric_rows(run):
    import json

    return [json.loads(line) for line in Path(run.run.metric_rows).read_text().splitlines()]
