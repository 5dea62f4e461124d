"""Processes that a launch starts beside training: supervised with it, ended with it, and missed when they are gone."""

import json
from pathlib import Path

import pytest
from fakes.runs import answer, kill, wait_for

from loopai_trainer.host import processes

pytestmark = pytest.mark.flow


def test_a_helper_that_would_live_for_ever_is_ended_with_training(prepare):
    run = prepare(companion_s=300.0)
    code, document = run.run_to_end()
    assert (code, document["status"]) == (0, "completed")
    assert run.living() == []
    request = json.loads(Path(run.run.launch_request).read_text())
    assert request["helpers"][0]["argv"][-1] == "import time; time.sleep(300.0)"
    assert not Path(run.run.launch_helper_ended).exists()


def test_a_helper_that_ends_early_fails_the_run(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(companion_s=0.2, hold_file=str(hold))
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (11, "HELPER_LOST")
    assert "exit status 0" in document["error"]["detail"]
    assert run.living() == []


def test_a_helper_that_cannot_be_started_fails_the_run(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(companion_s=300.0, companion_program="/bin/does-not-exist", hold_file=str(hold))
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (11, "HELPER_LOST")
    assert "No such file" in document["error"]["detail"]
    assert run.living() == []


@pytest.fixture
def held(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(companion_s=300.0, hold_file=str(hold))
    caller = run.start()
    wait_for(lambda: run.state().get("current_step") == 3)
    wait_for(lambda: len(run.living()) == 2)  # training and its helper carry the run's mark
    return run, caller, hold


def test_cancel_ends_helpers_too(held):
    run, caller, _ = held
    assert answer(run.call("cancel", run.run.path, "--json"))[1]["status"] == "cancelled"
    assert answer(caller)[0] == 13
    assert run.living() == []


def test_helpers_die_with_the_keeper(held):
    run, caller, _ = held
    helper = run.living()
    kill(run.state()["keeper"])
    assert answer(caller)[0] == 11
    assert not any(processes.alive(one) for one in helper)


def test_an_adopted_run_still_misses_its_helper(held):
    run, caller, _ = held
    training, first = run.state()["training"], run.state()["worker"]
    kill(first)
    assert answer(caller)[0] == 8
    (helper,) = [one for one in run.living() if one["pid"] != training["pid"]]
    adopting = run.call("recover", run.run.path, "--adopt", "--json")
    wait_for(lambda: run.state()["worker"] != first)
    kill(helper)
    code, document = answer(adopting)
    assert (code, document["error"]["code"]) == (11, "HELPER_LOST")
    assert run.living() == []


def test_the_backends_own_records_can_fail_a_run_that_ended_well(prepare):
    run = prepare(own_verdict="two of four attempts failed")
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (11, "NOT_GOOD")
    assert "two of four attempts failed" in document["error"]["detail"]
    assert document["data"]["update_model_path"] is None
