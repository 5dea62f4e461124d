"""Transcripts: an agent that does what SKILL.md says, word by word, in the situations that it will be in."""

import os
import re
import shlex
import signal

import pytest
from fakes.runs import LIMIT_S, kill, wait_for
from fakes.skill import SKILL, section
from fakes.skill_session import Session, reference_line
from fakes.terminals import Terminal

from loopai_trainer.host import processes

pytestmark = pytest.mark.flow

PREPARE, STOP, RUN, WAIT = "1. Prepare", "3. Stop", "4. Run", "5. Wait"
TEXT = (SKILL / "SKILL.md").read_text()
SOON = {"540": "0.5"}
"""The skill has agents choose a limit below that of their shell; this one is short of patience."""


@pytest.fixture
def agent(tmp_path):
    session = Session(tmp_path)
    yield session
    left = session.leave()
    processes.terminate(lambda: [one for one in left if processes.alive(one)], grace_s=0.0)
    assert left == []


def shown(agent):
    """What step 2 says is shown to the user, from the last answer; each of it has to be there."""
    fields = re.findall(r"`data\.(\w+)`", section(TEXT, "### 2. Show").partition("Offer a trial")[0])
    assert {"config_path", "config_yaml", "config_sha256", "summary", "counts", "warnings", "train_stage"} <= set(
        fields
    )
    return {name: agent.data[name] for name in fields}


def test_prepare_stop_approve_run_wait_report(agent):
    agent.hold.touch()
    assert agent.step(PREPARE) == 0
    seen = shown(agent)
    assert seen["config_yaml"] == agent.config.read_text()
    assert seen["counts"]["train"]["usable"] + seen["counts"]["validation"]["usable"] == 8
    # Stop: whatever time passes until the user answers, nothing has started.
    assert agent.type("trainer status VERSION --json".replace("VERSION", agent.names["VERSION"])) == 0
    assert (agent.data["status"], agent.starts) == ("prepared", 0)
    # The user approves the hash that was shown.
    assert agent.names["HASH"] == seen["config_sha256"]
    assert agent.step(RUN, SOON) == 75
    assert (agent.document["ok"], agent.document["error"]) == (True, None)
    assert agent.data["status"] in ("queued", "running")
    wait_for(lambda: agent.starts)
    for _ in range(2):
        assert agent.step(WAIT, SOON) == 75
    agent.hold.unlink()
    assert agent.step(WAIT) == 0
    report = {name: agent.data[name] for name in ("status", "best_checkpoint", "best_metric", "update_model_path")}
    assert report["status"] == "completed"
    assert report["update_model_path"] == report["best_checkpoint"]["path"] == f"{agent.run.checkpoints}/checkpoint-2"
    assert report["best_metric"]["name"] == "eval_loss"
    assert agent.data["result"]["reason"]
    # "The same call again re-attaches; it never starts a second training."
    assert agent.step(RUN) == 0
    assert (agent.data["best_checkpoint"], agent.starts) == (report["best_checkpoint"], 1)


def test_the_user_wants_a_change(agent):
    assert agent.step(PREPARE) == 0
    old = dict(agent.names)
    agent.config.write_text(agent.config.read_text().replace("learning_rate: 1.0e-05", "learning_rate: 2.0e-05"))
    # An agent that forgets to inspect, with the old hash and with one that it computed itself.
    assert agent.step(RUN) == 5
    changed = agent.error["changed"]
    assert changed["config_yaml"] == agent.config.read_text()
    assert "-learning_rate: 1.0e-05\n+learning_rate: 2.0e-05\n" in changed["diff"]
    assert agent.step(RUN, {"HASH": changed["config_sha256"]}) == 4
    assert agent.error["code"] == "NOT_INSPECTED"
    assert agent.starts == 0
    # As step 3 says: inspect, show, wait for the user, run.
    assert agent.step(STOP) == 0
    assert shown(agent)["config_yaml"] == agent.config.read_text()
    assert agent.names["HASH"] == changed["config_sha256"] != old["HASH"]
    assert agent.step(RUN) == 0
    assert (agent.data["status"], agent.starts) == ("completed", 1)


@pytest.mark.parametrize("number", [0, 63])
def test_a_wrong_hash(agent, number):
    assert agent.step(PREPARE) == 0
    right = agent.names["HASH"]
    wrong = right[:number] + ("0" if right[number] != "0" else "1") + right[number + 1 :]
    assert agent.step(RUN, {"HASH": wrong}) == 5
    assert (agent.error["code"], agent.error["expected"], agent.error["got"]) == ("CONFIG_HASH_MISMATCH", wrong, right)
    assert agent.starts == 0
    assert not os.path.exists(agent.run.run_state)
    assert agent.step(RUN) == 0  # nothing was used up by it


def test_an_approval_of_an_earlier_round(agent):
    assert agent.step(PREPARE) == 0
    first = agent.names["HASH"]
    assert agent.step(RUN) == 0
    assert agent.step(PREPARE) == 0  # the next round: a version of its own
    assert agent.data["diff"]["against"]["config_sha256"] == first
    assert agent.step(RUN, {"HASH": first}) == 5
    assert agent.starts == 1


def test_where_a_terminal_is_demanded_the_person_approves_and_the_agent_cannot(agent):
    (agent.root / "config").mkdir()
    (agent.root / "config" / "policy.yaml").write_text("approval_require: terminal\n")
    assert agent.step(PREPARE) == 0
    assert agent.step(RUN) == 4
    assert agent.error["code"] == "APPROVAL_MISSING"
    command = agent.error["next_command"]
    assert command.startswith("trainer approve ")
    # What the rules forbid does not work either.
    for line in (f"{command} --json", f"printf %s\\\\n {agent.names['HASH'][:8]} | {command} --json"):
        assert agent.type(line) == 4
        assert agent.error["code"] == "NO_TERMINAL"
    assert agent.starts == 0
    person = Terminal(shlex.split(command)[1:], agent.env)
    person.wait_for("anything else to refuse: ")
    person.type(agent.names["HASH"][:8] + "\n")
    assert person.end()[0] == 0
    assert agent.step(RUN) == 0
    assert agent.starts == 1


def test_an_orphan_goes_to_the_operator(agent):
    agent.hold.touch()
    assert agent.step(PREPARE) == 0
    shell = agent.start(agent.line_of(RUN))
    wait_for(lambda: agent.starts)
    wait_for(lambda: agent.state().get("worker") and agent.state().get("status") == "running")
    first = agent.state()["worker"]
    kill(first)
    assert agent.answer(shell) == 8
    for step in (RUN, WAIT):
        assert agent.step(step) == 8
        assert agent.error["code"] == "ORPHANED_TRAINING"
        for one in agent.error["processes"]:
            assert one.keys() == {"pid", "age_s", "command"}
        assert agent.error["processes"]
    assert agent.starts == 1
    # The operator's choice, as recovery.md has it.
    recovery = (SKILL / "references" / "recovery.md").read_text()
    assert "- `trainer recover VERSION --adopt` " in recovery
    adopting = agent.start(agent.fill("trainer recover VERSION --adopt --json"))
    wait_for(lambda: agent.state()["worker"] != first)
    agent.hold.unlink()
    assert agent.answer(adopting) == 0
    assert agent.step(WAIT) == 0
    assert (agent.data["status"], agent.starts) == ("completed", 1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_lost_session(agent, number):
    agent.hold.touch()
    assert agent.step(PREPARE) == 0
    shell = agent.start(agent.line_of(RUN))
    wait_for(lambda: agent.starts)
    os.killpg(shell.pid, number)
    shell.communicate(timeout=LIMIT_S)
    # The next session, as recovery.md has it.
    listing, look = reference_line("recovery", "## First look").splitlines()
    assert agent.type(listing) == 0
    assert [run["trainer_version_id"] for run in agent.data["runs"]] == [agent.names["VERSION"]]
    assert agent.type(agent.fill(look)) == 0
    assert agent.data["status"] == "running"
    agent.hold.unlink()
    assert agent.step(WAIT) == 0
    assert (agent.data["status"], agent.starts) == ("completed", 1)


def test_a_second_call_instead_of_a_wait(agent):
    agent.hold.touch()
    assert agent.step(PREPARE) == 0
    assert agent.step(RUN, SOON) == 75
    assert agent.step(RUN, SOON) == 75
    agent.hold.unlink()
    assert agent.step(RUN) == 0
    assert agent.starts == 1


def test_an_input_that_changed_since_the_approval(agent):
    assert agent.step(PREPARE) == 0
    config = agent.model / "config.json"
    config.write_text(config.read_text() + "\n")
    assert agent.step(RUN) == 6
    assert agent.error["code"] == "INPUT_CHANGED"
    assert str(agent.model) in agent.error["detail"]
    assert agent.starts == 0
    # As approval.md has it: take the inputs in as they are now, show, ask again.
    assert agent.type(agent.fill("trainer inspect CONFIG_PATH --refresh --json")) == 0
    assert shown(agent)
    assert agent.step(RUN) == 0
    assert agent.starts == 1


def test_rows_that_cannot_be_trained_on(agent):
    agent.write_rows([{"instruction": "a", "output": "b"}, {"instruction": "c", "output": ""}])
    assert agent.step(PREPARE) == 3
    (problem,) = agent.error["problems"]
    assert (problem["code"], problem["line"]) == ("OUTPUT_EMPTY", 2)
    assert problem["hint"]


def test_run_is_refused_in_a_conversation(agent):
    line = agent.line_of(PREPARE, {"trainer prepare": "trainer run"})
    assert agent.type(line) == 4
    assert agent.error["code"] == "APPROVAL_MISSING"
    assert agent.starts == 0


def test_cancelled_on_the_users_word(agent):
    agent.hold.touch()
    assert agent.step(PREPARE) == 0
    assert agent.step(RUN, SOON) == 75
    wait_for(lambda: agent.starts)
    assert agent.type(agent.fill("trainer cancel VERSION --json")) in (0, 13)
    assert agent.step(WAIT) == 13
    assert agent.document["status"] == "cancelled"


def test_the_call_of_the_sft_reference(agent):
    (agent.root / "eval.jsonl").write_text('{"instruction": "another question", "output": "another answer"}\n')
    assert agent.type(agent.fill(reference_line("sft", "## Call"))) == 0
    # What the reference says that the summary holds, for the user.
    summary = agent.data["summary"]
    needed = {
        "train_data",
        "model",
        "learning_rate",
        "epochs",
        "per_device_batch",
        "lora_rank",
        "devices",
        "output_dir",
    }
    assert summary.keys() >= needed | {"save_total_limit", "effective_batch"}
    assert (summary["learning_rate"], summary["epochs"], summary["method"]) == (1e-4, 3.0, "lora")
