"""What the worker asks the installed package before training and after it, as its processes really behave."""

import json
import os
from pathlib import Path

import pytest
from fakes.runs import answer, kill, wait_for

from loopai_trainer.files import event_log

pytestmark = pytest.mark.flow


def test_the_resolved_configuration_is_kept_beside_the_launch(prepare):
    run = prepare(resolve="whole: 1\n")
    assert run.run_to_end()[0] == 0
    assert Path(run.run.launch_resolved).read_text() == "whole: 1\n"


def test_another_configuration_than_the_approved_one_is_refused_and_nothing_starts(prepare):
    run = prepare(approved_resolve="then: 1\n", resolve="now: 2\n")
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (11, "RESOLVED_CHANGED")
    assert run.starts == 0
    wait_for(lambda: run.locked() == (False, False))


def test_cancelled_while_the_package_is_asked(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(resolve="a: 1\n", resolve_hold=str(hold))
    caller = run.start()
    wait_for(lambda: run.status == "running")
    code, document = answer(run.call("cancel", run.run.path, "--json"))
    assert (code, document["data"]["status"]) == (0, "cancelled")
    assert answer(caller)[0] == 13
    assert run.starts == 0
    assert run.living() == []


def test_a_worker_killed_while_the_package_is_asked_leaves_nothing(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(resolve="a: 1\n", resolve_hold=str(hold))
    caller = run.start()
    wait_for(lambda: run.status == "running" and run.state().get("worker"))
    first = run.state()["worker"]
    kill(first)
    # Training was not exec'd: the caller starts another worker, which asks again.
    wait_for(lambda: (run.state().get("worker") or first) != first)
    hold.unlink()
    code, document = answer(caller)
    assert (code, document["status"], run.starts) == (0, "completed", 1)


def test_a_lost_run_is_stopped(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(steps=2, lost_at=1, hold_file=str(hold))  # training would go on for ever
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (11, "DIVERGED")
    assert "step 1 is lost" in document["error"]["detail"]
    assert run.living() == []


def test_what_is_said_of_a_step_reaches_events_and_result(prepare):
    run = prepare(steps=3, remark_at=2)
    code, document = run.run_to_end()
    assert code == 0
    assert "step 2 is odd (said of 1 steps)" in document["data"]["result"]["warnings"]
    assert [event["message"] for event in event_log.read(run.run.events)].count("step 2 is odd") == 1


def test_the_chosen_checkpoint_is_exported(prepare):
    run = prepare(steps=2, export="good")
    code, document = run.run_to_end()
    assert (code, document["data"]["result"]["export"]) == (0, "done")
    path = document["data"]["update_model_path"]
    assert path == os.path.join(run.run.path, "exports", "checkpoint-2")
    assert json.loads(Path(path, "model.json").read_text()) == {"sound": True}
    assert os.listdir(run.run.exports) == ["checkpoint-2"]
    code, document = answer(run.call("export", run.run.path, "--json"))
    assert (code, document["data"]["path"]) == (0, path)
    code, document = answer(run.call("export", run.run.path, "--step", "1", "--json"))
    assert (code, os.path.basename(document["data"]["path"])) == (0, "checkpoint-1")
    assert run.result()["update_model_path"] == path  # another step's model is no result


@pytest.mark.parametrize(("how", "said"), [("bad", "model.json is not sound"), ("fail", "RuntimeError: no room")])
def test_a_failed_export_hides_no_checkpoint_and_can_be_repeated(prepare, tmp_path, how, said):
    run = prepare(steps=2, export=how)
    code, document = run.run_to_end()
    assert (code, document["ok"], document["status"]) == (12, False, "completed")
    assert said in document["error"]["detail"]
    assert document["error"]["next_command"].startswith("trainer export ")
    data = document["data"]
    assert (data["result"]["export"], data["update_model_path"]) == ("failed", None)
    assert data["best_checkpoint"]["name"] == "checkpoint-2"
    assert os.listdir(run.run.exports) == []
    code, document = answer(run.call("export", run.run.path, "--json"))
    assert (code, document["error"]["code"]) == (12, "EXPORT_FAILED")
    assert run.run_to_end()[0] == 12  # the same call again: the stored result


def test_an_export_after_a_failed_one_completes_the_result(prepare, tmp_path):
    run = prepare(steps=2, export="good", export_hold=str(tmp_path / "hold"))
    (tmp_path / "hold").touch()
    caller = run.start()
    wait_for(lambda: os.path.isdir(os.path.join(run.run.exports, ".partial-checkpoint-2")))
    assert answer(run.call("cancel", run.run.path, "--json"))[1]["status"] == "completed"
    assert answer(caller)[0] == 12
    (tmp_path / "hold").unlink()
    code, document = answer(run.call("export", run.run.path, "--json"))
    assert code == 0
    assert run.result()["update_model_path"] == document["data"]["path"]
    code, document = run.run_to_end()
    assert (code, document["data"]["result"]["export"]) == (0, "done")


def test_a_worker_killed_while_it_exports_is_followed_by_the_next_call(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(steps=2, export="good", export_hold=str(hold))
    caller = run.start()
    partial = os.path.join(run.run.exports, ".partial-checkpoint-2")
    wait_for(lambda: os.path.isdir(partial))
    kill(run.state()["worker"])
    hold.unlink()
    code, document = answer(caller)
    if code not in (0,):
        code, document = run.run_to_end()
    assert (code, document["status"], run.starts) == (0, "completed", 1)
    assert document["data"]["result"]["export"] == "done"
    assert not os.path.exists(partial)


def test_there_is_nothing_to_export_of_what_was_never_started(prepare):
    run = prepare()
    code, document = answer(run.call("export", run.run.path, "--json"))
    error = document["error"]
    assert (code, error["code"], error["next_command"]) == (2, "NOT_STARTED", f"trainer inspect {run.run.config}")


def test_there_is_nothing_to_export_before_the_end(prepare):
    run = prepare()
    Path(run.run.result).unlink(missing_ok=True)
    Path(run.run.run_state).write_text(json.dumps({"format": 1, "status": "running", "attempt": 1}))
    code, document = answer(run.call("export", run.run.path, "--json"))
    assert (code, document["error"]["code"]) == (2, "NOT_ENDED")


def test_a_step_without_a_checkpoint(prepare):
    run = prepare(steps=2, export="good")
    assert run.run_to_end()[0] == 0
    code, document = answer(run.call("export", run.run.path, "--step", "7", "--json"))
    assert (code, document["error"]["hint"]) == (2, "complete are the steps 1, 2")


def test_a_model_folder_is_named_as_it_is(prepare):
    run = prepare(steps=2)
    assert run.run_to_end()[0] == 0
    code, document = answer(run.call("export", run.run.path, "--json"))
    assert (code, document["data"]["path"]) == (0, os.path.join(run.run.checkpoints, "checkpoint-2"))
