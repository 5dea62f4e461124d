"""Cancelling: the whole tree ends, the checkpoints stay, and cancelled is cancelled."""

import signal
import sys

import pytest
from fakes.runs import answer, kill, wait_for

from loopai_trainer.host import processes
from loopai_trainer.worker.cancelling import request_cancel
from loopai_trainer.worker.observe import read_exit

pytestmark = pytest.mark.flow


@pytest.fixture
def held(prepare, tmp_path):
    """A run whose training waits at its end, with a helper in a session of its own."""
    hold = tmp_path / "hold"
    hold.touch()

    def make(**options):
        run = prepare(hold_file=str(hold), helper_s=300.0, **options)
        caller = run.start()
        wait_for(lambda: run.state().get("current_step") == 3)
        return run, caller

    return make


def test_cancel_ends_the_whole_tree(held):
    run, caller = held()
    code, document = answer(run.call("cancel", run.run.path, "--json"))
    assert (code, document["status"]) == (0, "cancelled")
    assert run.living() == []
    wait_for(lambda: run.locked() == (False, False))
    code, document = answer(caller)
    assert (code, document["status"], document["error"]["code"]) == (13, "cancelled", "CANCELLED")
    assert [one["name"] for one in document["data"]["checkpoints"]] == ["checkpoint-1", "checkpoint-2", "checkpoint-3"]
    assert document["data"]["update_model_path"] is None
    assert run.run_to_end()[0] == 13
    assert run.starts == 1


def test_a_deaf_training_is_killed_after_the_grace(held):
    run, caller = held(deaf=True, helper_deaf=True)
    asked, _ = request_cancel(run.run, "the test", grace_s=0.3)
    assert asked
    code, _ = answer(caller)
    assert code == 13
    assert run.living() == []
    assert run.state()["cancel"]["requested_by"] == "the test"


def test_sigterm_to_the_worker_is_a_request_to_cancel(held):
    run, caller = held()
    kill(run.state()["worker"], signal.SIGTERM)
    assert answer(caller)[0] == 13
    assert run.state()["cancel"]["requested_by"] == "SIGTERM to the worker"
    assert run.living() == []


def test_nobody_is_asked_before_the_start_or_after_the_end(prepare):
    run = prepare()
    asked, seen = request_cancel(run.run, "the test")
    assert (asked, seen.verdict.status) == (False, "prepared")
    assert run.run_to_end()[0] == 0
    asked, seen = request_cancel(run.run, "the test")
    assert (asked, seen.verdict.status) == (False, "completed")


@pytest.mark.parametrize("ending", ["run-prepared", "recover"])
def test_a_run_whose_worker_died_while_stopping_it_is_cancelled_though_training_made_exit_0_of_it(
    held, tmp_path, ending
):
    polite = tmp_path / "polite"
    polite.write_text(f'#!/bin/sh\ntrap "kill $!; exit 0" TERM\n{sys.executable} "$@" &\nwait\n')
    polite.chmod(0o755)
    run, caller = held(program=str(polite), helper_deaf=True)  # which keeps the worker stopping for its whole grace
    request_cancel(run.run, "a test")
    wait_for(lambda: read_exit(run.run) and run.state().get("cancel"))
    assert read_exit(run.run)["returncode"] == 0
    kill(run.state()["worker"])
    assert answer(caller)[0] == 8
    if ending == "recover":
        code, document = answer(run.call("recover", run.run.path, "--terminate", "--json"))
        assert (code, document["status"]) == (0, "cancelled")
    else:
        for one in run.living():
            processes.send(one, signal.SIGKILL)  # some end with the one before
        wait_for(lambda: run.locked() == (False, False))
        code, document = run.run_to_end()
        assert (code, document["status"]) == (13, "cancelled")
    assert run.starts == 1
