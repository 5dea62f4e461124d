"""The scripts of docs/scripts.md, run as they stand there: their exit codes, what they start, and what they never do."""

import json
import subprocess
import sys

import pytest
from fakes.runs import wait_for
from fakes.skill import ROOT, blocks, section
from fakes.skill_session import Session
from fakes.terminals import Terminal

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import processes

pytestmark = pytest.mark.flow

PAGE = (ROOT / "docs" / "scripts.md").read_text()
AT_TERMINAL, UNATTENDED, NOBODY = "## A person at this terminal", "## Approved elsewhere, run unattended", "## Nobody"
QUESTION = "anything else to refuse: "
PLAIN = f"""#!{sys.executable} -P
import sys
from loopai_trainer.host import ancestry
ancestry.command_lines = lambda: [["bash"]]  # the tests themselves may run below a coding agent
from loopai_trainer.cli.fast import main
sys.exit(main())
"""


@pytest.fixture
def session(tmp_path):
    made = Session(tmp_path)
    (tmp_path / "bin" / "trainer").write_text(PLAIN)
    for heading in (AT_TERMINAL, UNATTENDED, NOBODY):
        (script,) = blocks(section(PAGE, heading))
        (tmp_path / heading.split()[1].lower()).write_text(script.replace("540", "0.5"))
    yield made
    left = made.leave()
    processes.terminate(lambda: [one for one in left if processes.alive(one)], grace_s=0.0)
    assert left == []


def version_of(session):
    (config,) = session.root.glob("outputs/default/trainer/*/training_config.yaml")
    session.names["VERSION"] = config.parent.name
    return RunDir(str(config.parent), config.parent.name)


def begun(session, name, *words):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    command = ["bash", name, *words]
    return subprocess.Popen(command, cwd=session.root, env=session.env, text=True, start_new_session=True, **pipes)


def called(session, name, *words):
    script = begun(session, name, *words)
    out, err = script.communicate(timeout=120)
    return script.returncode, out, err


def at_terminal(session):
    terminal = Terminal(["bash", "a"], session.env, program=True, cwd=str(session.root))
    seen = terminal.wait_for(QUESTION)
    return terminal, seen, version_of(session)


def test_a_person_approves_and_it_trains(session):
    with open(session.root / "template.yaml", "a") as file:
        file.write("seed: 7\n")
    terminal, seen, run = at_terminal(session)
    assert "seed: 7" in seen
    assert session.starts == 0
    sha256 = subprocess.run(["sha256sum", run.config], capture_output=True, text=True, check=True).stdout.split()[0]
    terminal.type(sha256[:8] + "\n")
    code, seen = terminal.end()
    assert (code, session.starts) == (0, 1), seen
    assert f"{run.version_id} is completed" in seen
    with open(run.approval) as file:
        assert json.load(file)["approved_via"] == "terminal"


def test_a_person_who_does_not_approve_ends_the_script(session):
    terminal, _, _ = at_terminal(session)
    terminal.type("no\n")
    code, seen = terminal.end()
    assert (code, session.starts) == (4, 0), seen
    assert "NOT_APPROVED" in seen


def test_refused_data_end_the_script_before_anybody_is_asked(session):
    session.write_rows([{"instruction": "a question", "output": ""}])
    code, out, err = called(session, "a")
    assert (code, out, session.starts) == (3, "", 0)
    assert "data.jsonl:1" in err


def prepared(session):
    assert session.step("1. Prepare") == 0
    return str(session.config), session.names["HASH"]


def test_unattended_waits_on_and_gives_the_model(session):
    session.hold.touch()
    config, approved = prepared(session)
    script = begun(session, "approved", config, approved)
    answer_file = session.root / "answer.json"
    wait_for(lambda: answer_file.exists() and '"command": "wait"' in answer_file.read_text())
    session.hold.unlink()
    out, err = script.communicate(timeout=120)
    assert (script.returncode, session.starts) == (0, 1), err
    assert out.strip() == f"{session.run.checkpoints}/checkpoint-2"
    # The same call again: the stored result, and no second training.
    assert called(session, "approved", config, approved)[:2] == (0, out)
    assert session.starts == 1


def test_unattended_tells_what_to_do_about_a_refusal(session):
    config, approved = prepared(session)
    with open(config, "a") as file:
        file.write("\n")
    code, out, err = called(session, "approved", config, approved)
    assert (code, out, session.starts) == (5, "", 0)
    assert "approve its present hash" in err.splitlines()[-1]


def test_nobody_is_asked_where_the_script_says_so(session):
    code, out, err = called(session, "nobody")
    assert (code, out, err, session.starts) == (0, "", "", 1)
    with open(version_of(session).approval) as file:
        assert json.load(file)["approved_via"] == "auto"


def test_what_the_page_says_of_a_policy_holds(session):
    (session.root / "config").mkdir()
    (session.root / "config" / "policy.yaml").write_text("approval_require: terminal\n")
    code, _, _ = called(session, "nobody")
    assert (code, session.starts) == (4, 0)
