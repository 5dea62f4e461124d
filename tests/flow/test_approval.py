"""From a person's approval at a terminal to the one training that it allows."""

import json
import os
import shutil
from pathlib import Path

import pytest
from fakes.runs import LIMIT_S, answer
from fakes.terminals import Terminal

from loopai_trainer.files import approval_file
from loopai_trainer.operations import approvals
from loopai_trainer.rules import plan as plans

pytestmark = pytest.mark.flow

QUESTION = "anything else to refuse: "


def demand_terminal(run):
    folder = run.root / "config"
    folder.mkdir(exist_ok=True)
    (folder / "policy.yaml").write_text("approval_require: terminal\n")


def approve(run):
    call = Terminal(["approve", run.run.path], run.env)
    call.wait_for(QUESTION)
    call.type(run.sha256[:8] + "\n")
    code, seen = call.end()
    assert code == 0, seen


def uses(run):
    return [record for record in approval_file.history(run.run.task) if record["consumed_at"]]


def test_where_a_terminal_is_demanded_only_its_approval_starts_anything(prepare):
    run = prepare()
    demand_terminal(run)
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (4, "APPROVAL_MISSING")
    assert document["error"]["next_command"] == f"trainer approve {run.run.path}"
    assert (run.starts, run.status) == (0, "prepared")
    approve(run)
    assert run.status == "approved"
    assert run.run_to_end()[0] == 0
    assert run.starts == 1
    record = approval_file.read(run.run)
    assert (record["approved_via"], uses(run)) == ("terminal", [record])
    # The stored result needs no approval, and neither does another look at it.
    assert run.run_to_end()[0] == 0
    assert run.starts == 1


def test_a_policy_that_cannot_be_read_starts_nothing(prepare):
    run = prepare()
    demand_terminal(run)
    (run.root / "config" / "policy.yaml").write_text("approval_require: termnal\n")
    code, document = run.run_to_end()
    assert (code, document["error"]["code"], run.starts) == (4, "POLICY_INVALID", 0)


def test_an_edit_after_the_approval_starts_nothing(prepare):
    run = prepare()
    demand_terminal(run)
    approve(run)
    path = Path(run.run.config)
    path.write_text(path.read_text() + "# one more line\n")
    code, document = run.run_to_end()
    assert (code, document["error"]["code"], run.starts, run.status) == (5, "CONFIG_HASH_MISMATCH", 0, "prepared")


@pytest.mark.parametrize("terminal", [False, True])
def test_two_calls_at_the_same_instant_use_one_approval_once(prepare, terminal):
    run = prepare(steps=3)
    if terminal:
        demand_terminal(run)
        approve(run)
    callers = [run.start() for _ in range(2)]
    ends = [answer(caller) for caller in callers]
    assert [(code, document["status"]) for code, document in ends] == [(0, "completed")] * 2
    assert run.starts == 1
    assert len(uses(run)) == 1


def die_before_exec(run):
    """What is left of a caller that died between using the approval and starting the worker."""
    plan = plans.read(Path(run.run.config).read_bytes(), run.run.config)
    approvals.consume(run.run, plan, "hash", run.env)


@pytest.mark.parametrize("terminal", [False, True])
def test_the_same_call_may_follow_a_death_before_exec_and_another_hash_may_not(prepare, terminal):
    run = prepare(steps=3)
    if terminal:
        demand_terminal(run)
        approve(run)
    die_before_exec(run)
    assert run.status == "approved"
    path = Path(run.run.config)
    text = path.read_text()
    path.write_text(text + "more: 1\n")
    edited = plans.digest(path.read_bytes())
    note_as_inspected(run, edited)
    code, document = answer(run.call("run-prepared", run.run.config, "--sha256", edited, "--json"))
    assert (code, document["error"]["code"], run.starts) == (5, "CONFIG_HASH_MISMATCH", 0)
    path.write_text(text)
    note_as_inspected(run, run.sha256)
    assert run.run_to_end()[0] == 0
    assert run.starts == 1
    assert approval_file.read(run.run)["approved_via"] == ("terminal" if terminal else "hash")


@pytest.mark.parametrize("terminal", [False, True])
def test_cleaning_up_after_a_training_does_not_give_its_approval_back(prepare, terminal):
    run = prepare()
    if terminal:
        demand_terminal(run)
        approve(run)
        unused = Path(run.run.approval).read_bytes()
    assert run.run_to_end()[0] == 0
    for path in (run.run.launch, run.run.checkpoints, run.run.metrics, os.path.dirname(run.run.approved_config)):
        shutil.rmtree(path, ignore_errors=True)
    for path in (run.run.run_state, run.run.result, run.run.training_lock, run.run.approval):
        Path(path).unlink(missing_ok=True)
    if terminal:
        Path(run.run.approval).write_bytes(unused)  # a copy of the record from before its use
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (4, "APPROVAL_USED")
    assert not os.path.exists(run.run.launch_started)
    if terminal:
        Path(run.run.approval).unlink()
        approve(run)  # a person may approve it anew
        assert run.run_to_end()[0] == 0


def note_as_inspected(run, sha256):
    noted = json.loads(Path(run.run.plan).read_text())
    Path(run.run.plan).write_text(json.dumps({**noted, "config_sha256": sha256}))


def test_an_approval_is_for_one_version(prepare):
    first, second = prepare("v1"), prepare("v2")
    demand_terminal(first)
    approve(first)
    Path(second.run.approval).write_bytes(Path(first.run.approval).read_bytes())
    code, document = second.run_to_end()
    assert (code, second.starts) == (4, 0)
    assert document["error"]["code"] in ("APPROVAL_MISSING", "APPROVAL_INVALID")
    assert first.run_to_end()[0] == 0


def test_a_changed_yaml_is_shown_with_what_changed_and_approval_is_asked_for_anew(prepare):
    run = prepare(steps=3)
    path = Path(run.run.config)
    path.write_text(path.read_text().replace("steps: 3", "steps: 30"))
    code, document = run.run_to_end()
    assert code == 5
    changed = document["error"]["changed"]
    assert changed["config_yaml"] == path.read_text()
    assert "-steps: 3\n+steps: 30\n" in changed["diff"]
    assert document["error"]["next_command"] == f"trainer inspect {run.run.config}"
    caller = run.call("run-prepared", run.run.config, "--sha256", run.sha256)
    _, err = caller.communicate(timeout=LIMIT_S)
    text = err.decode().replace("\n>> ", "")  # a mark stands where a line does not fit
    for said in (
        path.read_text(),
        "-steps: 3\n+steps: 30\n",
        f"its SHA-256: {changed['config_sha256']}",
        "trainer inspect",
    ):
        assert said in text
    inspected = answer(run.call("inspect", run.run.config, "--json"))[1]
    assert inspected["ok"], json.dumps(inspected)
    again = run.call("run-prepared", run.run.config, "--sha256", inspected["data"]["config_sha256"], "--json")
    assert answer(again)[0] == 0
