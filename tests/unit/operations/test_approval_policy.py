import json
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes.runs import PreparedRun

from loopai_trainer.errors import ApprovalError
from loopai_trainer.files import policy_files
from loopai_trainer.operations import approval_policy
from loopai_trainer.rules import plan as plans

TERMINAL = "approval_require: terminal\n"


@pytest.fixture(autouse=True)
def account(tmp_path, monkeypatch):
    """The account's own config folder, on a host without a policy."""
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=str(tmp_path / "account")))
    monkeypatch.setattr(policy_files, "SYSTEM", str(tmp_path / "etc.yaml"))
    folder = tmp_path / "account" / ".config" / "loopai-trainer"
    folder.mkdir(parents=True)
    return folder


def required(prepared, environ=None):
    plan = plans.read(Path(prepared.run.config).read_bytes(), prepared.run.config)
    found = approval_policy.required(plan, prepared.run, environ or {})
    return found.level, found.origin


def note(prepared, **values):
    noted = json.loads(Path(prepared.run.plan).read_text())
    Path(prepared.run.plan).write_text(json.dumps({**noted, **values}))


def test_the_default_is_the_hash(tmp_path):
    assert required(PreparedRun(tmp_path)) == ("hash", "default")


def test_nothing_lowers_what_the_host_or_the_account_demands(tmp_path, account):
    prepared = PreparedRun(tmp_path, loopai={"approval": {"require": "hash"}})
    note(prepared, settings={"approval_require": {"value": "hash", "origin": "--option approval_require"}})
    lax = tmp_path / "lax"
    (lax / "loopai-trainer").mkdir(parents=True)
    for folder in (lax, lax / "loopai-trainer"):
        (folder / "policy.yaml").write_text("approval_require: hash\n")
    passed = {
        "LOOPAI_TRAINER_CONFIG_DIR": str(lax),
        "XDG_CONFIG_HOME": str(lax),
        "HOME": str(lax),
        "approval_require": "hash",
    }
    assert required(prepared, passed)[0] == "hash"
    (account / "policy.yaml").write_text(TERMINAL)
    assert required(prepared, passed) == ("terminal", str(account / "policy.yaml"))
    (account / "policy.yaml").write_text("approval_require: hash\n")
    Path(policy_files.SYSTEM).write_text(TERMINAL)
    assert required(prepared, passed) == ("terminal", policy_files.SYSTEM)


def test_what_the_plan_demands_stands_in_it_and_in_plan_json(tmp_path):
    in_plan = PreparedRun(tmp_path, "v1", loopai={"approval": {"require": "terminal"}})
    assert required(in_plan) == ("terminal", in_plan.run.config)
    edited_out = PreparedRun(tmp_path, "v2")
    note(edited_out, settings={"approval_require": {"value": "terminal", "origin": "state.trainer"}})
    assert required(edited_out) == ("terminal", edited_out.run.plan)


@pytest.mark.parametrize("block", ["hash", {}, {"require": "Hash"}, {"require": None}, []])
def test_a_damaged_demand_is_the_strictest(tmp_path, block):
    assert required(PreparedRun(tmp_path, loopai={"approval": block}))[0] == "terminal"


@pytest.mark.parametrize("settings", [[], {"approval_require": 3}, {"approval_require": {"value": "x"}}, None])
def test_a_plan_json_that_says_nothing_demands_nothing(tmp_path, settings):
    prepared = PreparedRun(tmp_path)
    note(prepared, settings=settings)
    assert required(prepared)[0] == "hash"
    Path(prepared.run.plan).write_text("{")
    assert required(prepared)[0] == "hash"


def test_an_unreadable_policy_is_no_policy_at_all(tmp_path, account):
    (account / "policy.yaml").mkdir()
    prepared = PreparedRun(tmp_path)
    with pytest.raises(ApprovalError) as caught:
        required(prepared)
    assert (caught.value.code, caught.value.exit_code) == ("POLICY_INVALID", 4)
    plan = plans.read(Path(prepared.run.config).read_bytes(), prepared.run.config)
    assert approval_policy.next_command(plan, prepared.run, {}).startswith("trainer approve ")


def test_the_next_command_is_the_approval_that_is_demanded(tmp_path, account):
    prepared = PreparedRun(tmp_path)
    plan = plans.read(Path(prepared.run.config).read_bytes(), prepared.run.config)
    run = f"trainer run-prepared {prepared.run.config} --sha256 {plan.sha256}"
    assert approval_policy.next_command(plan, prepared.run, {}) == run
    (account / "policy.yaml").write_text(TERMINAL)
    assert approval_policy.next_command(plan, prepared.run, {}) == f"trainer approve {prepared.run.path}"
    assert approval_policy.next_command(plan, prepared.run, {}, approved=True) == run
