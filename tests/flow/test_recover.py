"""A training that lives without its worker: adopted, ended, or refused; never a second training, never a lost result."""

import json
import os
import signal
from pathlib import Path

import pytest
from fakes.runs import answer, kill, wait_for

from loopai_trainer.files import event_log
from loopai_trainer.host import processes
from loopai_trainer.worker.observe import read_exit, read_started

pytestmark = pytest.mark.flow


@pytest.fixture
def orphan(prepare, tmp_path):
    """A run whose training waits at its end while its worker is dead, and the file that keeps it waiting."""
    hold = tmp_path / "hold"
    hold.touch()

    def make(**options):
        run = prepare(hold_file=str(hold), **options)
        caller = run.start()
        wait_for(lambda: run.state().get("current_step") == 3)
        kill(run.state()["worker"])
        assert answer(caller)[0] == 8
        return run, hold

    return make


def test_adopt_watches_it_to_its_end(orphan):
    run, hold = orphan()
    training = read_started(run.run)["training"]
    first = run.state()["worker"]
    adopting = run.call("recover", run.run.path, "--adopt", "--json")
    wait_for(lambda: run.state()["worker"] != first)  # its locks alone may be those of the caller that starts it
    again = run.start()  # attaches to the new worker
    wait_for(lambda: run.status == "running")
    assert processes.alive(training)
    hold.unlink()
    for caller in (adopting, again):
        code, document = answer(caller)
        assert (code, document["status"]) == (0, "completed")
        assert document["data"]["best_checkpoint"]["name"] == "checkpoint-3"
    rows = [json.loads(line) for line in Path(run.run.metric_rows).read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert "adopted" in [event["node"] for event in event_log.read(run.run.events)]
    assert run.starts == 1


def test_an_adopted_run_can_be_cancelled_and_waited_for_in_pieces(orphan):
    run, _ = orphan(helper_s=300.0)
    code, document = answer(run.call("recover", run.run.path, "--adopt", "--wait-timeout", "0.3", "--json"))
    assert (code, document["ok"], document["status"]) == (75, True, "running")
    code, document = answer(run.call("wait", run.run.path, "--timeout", "0.1", "--json"))
    assert code == 75
    assert answer(run.call("cancel", run.run.path, "--json"))[1]["status"] == "cancelled"
    assert run.living() == []


def test_the_second_worker_may_die_too(orphan):
    run, hold = orphan()
    first = run.call("recover", run.run.path, "--adopt", "--json")
    wait_for(lambda: processes.alive(run.state()["worker"]) and run.status == "running")
    second = run.state()["worker"]
    kill(second)
    assert answer(first)[0] == 8
    again = run.call("recover", run.run.path, "--adopt", "--json")
    wait_for(lambda: run.state()["worker"] != second)
    hold.unlink()
    assert answer(again)[0] == 0
    assert run.starts == 1


@pytest.mark.parametrize("deaf", [False, True])
def test_terminate_ends_the_whole_tree(orphan, deaf):
    """Deaf: the launcher is dead, a rank ignores SIGTERM."""
    run, _ = orphan(helper_s=300.0, helper_deaf=deaf)
    if deaf:
        kill(read_started(run.run)["training"])
        wait_for(lambda: read_exit(run.run))
    code, document = answer(run.call("recover", run.run.path, "--terminate", "--json"))
    assert code == 0
    assert document["status"] == ("failed" if deaf else "cancelled")
    assert run.living() == []
    wait_for(lambda: run.locked() == (False, False))
    assert not processes.alive(read_started(run.run)["keeper"])
    if not deaf:
        assert "recover --terminate" in run.state()["cancel"]["requested_by"]
    assert [one["name"] for one in document["data"]["checkpoints"]] == ["checkpoint-1", "checkpoint-2", "checkpoint-3"]
    assert run.run_to_end()[0] == (11 if deaf else 13)
    assert run.starts == 1


def test_terminate_keeps_the_outcome_of_a_training_that_has_ended(orphan):
    """Its launcher has ended well; a helper alone is left."""
    run, hold = orphan(helper_s=300.0)
    hold.unlink()
    wait_for(lambda: read_exit(run.run))
    assert run.status == "orphaned"
    code, document = answer(run.call("recover", run.run.path, "--terminate", "--json"))
    assert (code, document["status"]) == (0, "completed")
    assert run.living() == []


def test_without_the_keeper_it_can_only_be_ended(orphan):
    run, _ = orphan(helper_s=300.0)
    kill(read_started(run.run)["keeper"])
    wait_for(lambda: not processes.alive(read_started(run.run)["training"]))
    code, document = answer(run.call("recover", run.run.path, "--adopt", "--json"))
    assert (code, document["error"]["code"]) == (8, "NOT_ADOPTABLE")
    assert document["error"]["next_command"] == f"trainer recover {run.run.path} --terminate"
    assert len(run.living()) == 1
    code, document = answer(run.call("recover", run.run.path, "--terminate", "--json"))
    assert (code, document["status"], document["data"]["error"]["code"]) == (0, "failed", "KEEPER_LOST")
    assert run.living() == []


def test_a_lost_state_does_not_hinder_it(orphan):
    run, hold = orphan()
    Path(run.run.run_state).write_text("{")
    adopting = run.call("recover", run.run.path, "--adopt", "--json")
    wait_for(lambda: run.state().get("worker"))
    hold.unlink()
    code, document = answer(adopting)
    assert (code, document["status"]) == (0, "completed")
    assert run.starts == 1


def test_nothing_happens_without_one_of_the_two(orphan):
    run, hold = orphan()
    for words in ((), ("--adopt", "--terminate")):
        code, document = answer(run.call("recover", run.run.path, *words, "--json"))
        assert (code, document["error"]["code"]) == (2, "USAGE")
        assert "--adopt or --terminate" in document["error"]["detail"]
    assert run.locked() == (False, True)
    assert processes.alive(read_started(run.run)["training"])
    hold.unlink()
    wait_for(lambda: run.locked() == (False, False))
    assert run.run_to_end()[0] == 0


def test_a_run_that_is_no_orphan_is_refused(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold))

    def refused():
        code, document = answer(run.call("recover", run.run.path, "--terminate", "--json"))
        assert (code, document["error"]["code"]) == (2, "NOT_ORPHANED")
        return document["error"]["detail"], document["error"]["next_command"]

    assert refused()[0].startswith("v1 is prepared")
    caller = run.start()
    wait_for(lambda: run.state().get("current_step") == 3)
    assert refused() == (
        "v1 is running, and a worker watches it; nothing was started or stopped",
        f"trainer wait {run.run.path}",
    )
    assert not os.path.exists(run.run.cancel_request)
    hold.unlink()
    assert answer(caller)[0] == 0
    assert refused()[1] == f"trainer status {run.run.path}"


def test_the_refusal_of_run_prepared_says_what_lives_and_what_to_do(orphan):
    run, _ = orphan()
    code, document = run.run_to_end()
    error = document["error"]
    assert (code, error["code"]) == (8, "ORPHANED_TRAINING")
    assert error["next_command"] == f"trainer recover {run.run.path} --adopt"
    shown = {one["pid"]: one for one in error["processes"]}[read_started(run.run)["training"]["pid"]]
    assert shown["age_s"] >= 0
    assert "train.py" in shown["command"]
    assert f"pid {shown['pid']}" in error["detail"]
    code, document = answer(run.call("cancel", run.run.path, "--json"))
    assert (code, document["error"]["next_command"]) == (8, f"trainer recover {run.run.path} --terminate")
    assert answer(run.call("status", run.run.path, "--json"))[1]["status"] == "orphaned"
    kill(read_started(run.run)["training"], signal.SIGKILL)
    wait_for(lambda: run.locked() == (False, False))
    assert run.run_to_end()[1]["error"]["code"] == "KILLED_BY_SIGNAL"


def test_whoever_waits_for_an_orphan_is_told_what_it_is_and_what_to_do(orphan):
    run, hold = orphan()
    code, document = answer(run.call("wait", run.run.path, "--json"))
    error = document["error"]
    assert (code, error["next_command"]) == (8, f"trainer recover {run.run.path} --adopt")
    assert [one["pid"] for one in error["processes"]] == [read_started(run.run)["training"]["pid"]]
    _, document = answer(run.call("status", run.run.path, "--json"))
    assert "--adopt" in document["data"]["error"]["hint"]
    hold.unlink()
    wait_for(lambda: not run.locked()[1])
    code, document = answer(run.call("wait", run.run.path, "--json"))  # ended, and nobody has looked at its results
    error = document["error"]
    assert (code, error["code"]) == (11, "WORKER_LOST")
    assert error["next_command"] == f"trainer run-prepared {run.run.config} --sha256 {run.sha256}"
    assert run.run_to_end()[0] == 0
