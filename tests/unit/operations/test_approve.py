"""approve in a real terminal, by the program itself; what a person cannot do there is tried as well."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes.terminals import Terminal

from loopai_trainer.files import approval_file, atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations.status import status
from loopai_trainer.operations.targets import Scope

QUESTION = "anything else to refuse: "


class Desk:
    """A prepared plan, and an operator at a terminal."""

    def __init__(self, place):
        self.place = place
        self.data = place.prepare().data
        self.run = RunDir(self.data["run_dir"])
        self.sha256 = self.data["config_sha256"]
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "COVERAGE_PROCESS_START") if name in os.environ}
        self.env = {**kept, **place.environ, "HOME": str(place.root), "PYTHONPATH": os.pathsep.join(sys.path)}

    def approve(self, typed, *words, target=None, env=None, **options):
        call = Terminal(["approve", target or self.run.path, *words], {**self.env, **(env or {})}, **options)
        if typed is not None:
            call.wait_for(QUESTION)
            call.type(typed)
        return call.end()

    @property
    def record(self):
        return approval_file.read(self.run)

    @property
    def status(self):
        return status(self.run.path, Scope(self.env)).status


@pytest.fixture
def desk(place):
    return Desk(place)


def test_the_beginning_of_the_hash_approves(desk):
    code, seen = desk.approve(desk.sha256[:8] + "\n", "--note", "as agreed")
    assert code == 0
    record = desk.record
    assert (record["approved_via"], record["config_sha256"], record["note"]) == ("terminal", desk.sha256, "as agreed")
    assert (record["round"], record["previous_round"], record["consumed_at"]) == (1, None, None)
    assert record["approver"]["tty"].startswith("/dev/pts/")
    assert record["approver"]["agent_variables"] == []
    assert record["expires_at"] - record["approved_at"] == 24 * 3600
    assert approval_file.history(desk.run.task) == [record]
    assert f"trainer run-prepared {desk.run.config} --sha256 {desk.sha256}" in seen
    assert desk.status == "approved"


def test_everything_is_shown_flags_first_and_whole(desk):
    call = Terminal(["approve", desk.run.path], desk.env)
    seen = call.wait_for(QUESTION)
    call.type("no\n")
    call.end()
    seen = seen.replace("\n>> ", "")  # a mark stands where a line does not fit
    order = [
        "warning config [save_total_limit]",
        "effective_batch",
        "training_config.yaml\n",
        "\nloopai:",
        "SHA-256  ",
        QUESTION,
    ]
    places = [seen.index(text) for text in order]
    assert places == sorted(places)
    assert desk.data["config_yaml"].rstrip("\n") in seen
    assert f"SHA-256  {desk.sha256}" in seen
    assert "1 warning stands above the YAML." in seen


@pytest.mark.parametrize("typed", ["", "y", "HASH9", "hash7", "UPPER", "wrong123"])
def test_anything_else_refuses_and_writes_nothing(desk, typed):
    words = {"HASH9": desk.sha256[:9], "hash7": desk.sha256[:7], "UPPER": desk.sha256[:8].upper() + "x"}
    code, seen = desk.approve(words.get(typed, typed) + "\n")
    assert code == 4
    assert "NOT_APPROVED" in seen
    assert not os.path.exists(desk.run.approval)
    assert not os.path.exists(desk.run.task.approvals)
    assert desk.status == "prepared"


def test_the_end_of_input_refuses(desk):
    code, seen = desk.approve("\x04")
    assert (code, "nothing was typed" in seen) == (4, True)


def test_an_interrupt_refuses(desk):
    code, _ = desk.approve("\x03")
    assert code == 130
    assert not os.path.exists(desk.run.approval)


def test_the_answer_is_json_on_stdout_and_the_yaml_on_the_terminal(desk, place):
    out = place.root / "answer.json"
    code, seen = desk.approve(desk.sha256[:8] + "\n", "--json", stdout=str(out))
    answer = json.loads(out.read_text())
    assert (code, answer["ok"], answer["status"]) == (0, True, "approved")
    assert answer["data"]["approval"] == desk.record
    assert "SHA-256" in seen


def test_the_difference_to_the_last_approved_round_is_shown_and_recorded(desk, place):
    desk.approve(desk.sha256[:8] + "\n")
    second = place.prepare(("learning_rate=3e-5",), trainer_version_id="v2").data
    assert second["diff"]["changed"] == [{"key": "learning_rate", "kind": "changed", "from": 0.0001, "to": 0.00003}]
    noted = atomic.read_json(RunDir(second["run_dir"]).plan)
    assert noted["diff"] == second["diff"]
    code, seen = desk.approve(second["config_sha256"][:8] + "\n", target=second["run_dir"])
    assert code == 0
    assert "Changed since round 1 (v1), which was approved:\n  ~ learning_rate: 0.0001 -> 3.0e-05\n" in seen
    record = approval_file.read(RunDir(second["run_dir"]))
    assert (record["round"], record["previous_round"]["version_id"]) == (2, "v1")
    assert record["diff_sha256"] == noted["diff_sha256"]


def test_without_a_terminal_it_refuses(desk):
    argv = [sys.executable, "-m", "loopai_trainer", "approve", desk.run.path, "--json"]
    done = subprocess.run(
        argv, env=desk.env, stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True, check=False
    )
    error = json.loads(done.stdout)["error"]
    assert done.returncode == 4
    assert error["code"] in ("NO_TERMINAL", "AGENT_DETECTED")  # the tests may run below an agent
    assert error["next_command"] == f"trainer approve {desk.run.path}"
    assert not os.path.exists(desk.run.approval)


@pytest.mark.parametrize(
    ("env", "parents"),
    [({"CLAUDECODE": "1"}, [["bash"]]), ({}, [["bash"], ["claude"]]), ({"AI_AGENT": "x"}, [])],
)
def test_below_a_coding_agent_it_refuses_and_says_what_that_is_worth(desk, env, parents):
    code, seen = desk.approve(None, env=env, parents=parents)
    assert code == 4
    assert "AGENT_DETECTED" in seen
    assert "advisory" in seen
    assert not os.path.exists(desk.run.approval)


def test_a_yaml_that_changes_while_it_is_read_is_not_approved(desk):
    call = Terminal(["approve", desk.run.path], desk.env)
    call.wait_for(QUESTION)
    path = Path(desk.run.config)
    path.write_text(path.read_text() + "# later\n")
    call.type(desk.sha256[:8] + "\n")
    code, seen = call.end()
    assert (code, "changed while it was read" in seen) == (5, True)
    assert not os.path.exists(desk.run.approval)


def test_nothing_is_held_while_a_person_reads_and_a_start_meanwhile_counts(desk):
    call = Terminal(["approve", desk.run.path], desk.env)
    call.wait_for(QUESTION)
    assert desk.status == "prepared"
    os.makedirs(desk.run.launch)
    Path(desk.run.launch_started).write_text("{}")
    call.type(desk.sha256[:8] + "\n")
    code, seen = call.end()
    assert (code, "VERSION_IN_USE" in seen) == (7, True)
    assert not os.path.exists(desk.run.approval)


def test_an_edited_yaml_is_checked_and_approved_as_it_stands(desk):
    path = Path(desk.run.config)
    path.write_text(path.read_text().replace("seed: 42", "seed: 7"))
    call = Terminal(["approve", desk.run.path], desk.env)
    seen = call.wait_for(QUESTION)
    sha256 = seen.split("SHA-256  ")[1].split()[0]
    assert sha256 != desk.sha256
    call.type(sha256[:8] + "\n")
    assert call.end()[0] == 0
    assert desk.status == "approved"
    path.write_text(path.read_text().replace("seed: 7", "seed: 8"))
    assert desk.status == "prepared"  # an edit makes it void


def test_a_plan_that_is_not_good_is_not_even_asked_about(desk):
    path = Path(desk.run.config)
    path.write_text(path.read_text() + "no_such_key: 1\n")
    code, seen = desk.approve(None)
    assert code == 3
    assert QUESTION not in seen


def test_what_a_terminal_would_not_show_is_spelt_out(desk):
    path = Path(desk.run.config)
    path.write_text(path.read_text() + "# harmless \u202e and \u200bmore\n")
    call = Terminal(["approve", desk.run.path], desk.env)
    seen = call.wait_for(QUESTION)
    call.type("\n")
    call.end()
    assert "# harmless \\u202e and \\u200bmore" in seen
    assert "holds characters that a terminal does not show" in seen


def test_a_run_in_use_or_started_cannot_be_approved(desk):
    from loopai_trainer.host import locks

    fd = locks.try_exclusive(desk.run.run_lock)
    try:
        code, seen = desk.approve(None)
        assert (code, "VERSION_IN_USE" in seen) == (7, True)
    finally:
        os.close(fd)
    os.makedirs(desk.run.launch)
    Path(desk.run.launch_started).write_text("{}")
    assert desk.approve(None)[0] == 7


def test_a_long_note_is_cut_and_a_second_approval_replaces_the_first(desk):
    desk.approve(desk.sha256[:8] + "\n", "--note", "x" * 5000)
    assert len(desk.record["note"]) == 2000
    first = desk.record
    while time.time() <= first["approved_at"]:  # a clock that was set back
        time.sleep(0.01)
    desk.approve(desk.sha256[:8] + "\n")
    assert (desk.record["note"], desk.record["round"]) == ("", 1)
    assert desk.record["approved_at"] > first["approved_at"]
