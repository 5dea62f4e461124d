"""Real Agent Lightning 0.3.0 through prepare, approval by hash, run-prepared and dev, in every strategy."""

import json
import time
from pathlib import Path

import pytest
from fakes.agent_runs import SERVED, SHARED, SPLIT, AgentWorkshop
from fakes.cli import trainer

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, agl_env: str) -> AgentWorkshop:
    return AgentWorkshop(tmp_path_factory.mktemp("agl"), agl_env)


@pytest.mark.parametrize(("name", "keys"), [("shared", SHARED), ("served", SERVED), ("split", SPLIT)])
def test_a_dry_run_in_every_strategy(workshop, name, keys):
    one = workshop.whole(name, "dev", workshop.tasks(name, 4), **keys)
    assert one.ended.code == 0, one.ended.out
    data = one.ended.data
    assert (data["status"], data["current_step"], data["total_steps"]) == ("completed", 4, 4)
    assert data["update_model_path"] is None
    assert data["result"]["artefact_path"] == str(one.folder / "checkpoints" / "store")
    assert "A dry run makes no checkpoint" in (one.folder / "training_report.md").read_text()
    rollouts, spans = one.stored("rollouts"), one.stored("spans")
    assert [(each["status"], each["reward"]) for each in rollouts] == [("succeeded", 1.0)] * 4
    assert {each["rollout_id"] for each in spans} == {each["rollout_id"] for each in rollouts}
    assert "agentlightning.message" in {each["name"] for each in spans}
    assert len(one.stored("attempts")) == 4
    assert all(row["values"]["reward"] == 1.0 and row["values"]["spans"] >= 2 for row in one.rows())
    assert one.survivors() == []


def test_trainer_dev_tries_a_plan_on_a_few_tasks(workshop):
    prepared = workshop.prepare("tried", "dev", workshop.tasks("tried", 20), **SHARED)
    assert prepared.code == 0, prepared.out
    answer = trainer("dev", prepared.data["config_path"], **workshop.environ)
    assert answer.code == 0, answer.out + answer.err
    checks = {check["name"]: check for check in answer.data["checks"]}
    assert "16 of 16 steps" in checks["training"]["detail"]
    assert any("the agent is code of your own: Adder" in flag for flag in answer.data["red_flags"])
    assert "red flag: the agent is code of your own: Adder" in answer.err
    assert not (Path(prepared.data["run_dir"]) / "checkpoints").exists()


def test_one_rollout_that_raises_fails_the_run_and_the_others_are_still_made(workshop):
    path = workshop.tasks("failing", 3)
    path.write_text(path.read_text() + json.dumps({"question": "9 + 9", "answer": 18, "fail": True}) + "\n")
    one = workshop.whole("failing", "dev", path, **SHARED)
    assert (one.ended.code, one.ended.error["code"]) == (11, "ROLLOUTS_FAILED"), one.ended.out
    assert "1 of 4 rollouts did not succeed" in one.ended.error["detail"]
    assert sorted(each["status"] for each in one.stored("rollouts")) == ["failed", *["succeeded"] * 3]


def test_a_rollout_that_hangs_is_ended_by_its_limit(workshop):
    data = workshop.tasks("hanging", 1, wait_s=300)
    one = workshop.whole("hanging", "dev", data, **SERVED, limits={"rollout_s": 3, "wall_s": 300})
    assert (one.ended.code, one.ended.data["status"]) == (11, "failed"), one.ended.out
    assert one.survivors() == []


def test_setup_knows_the_backend():
    begun = time.monotonic()
    answer = trainer("setup", "no-such-backend")
    assert (answer.code, time.monotonic() - begun < 60) == (2, True)
    assert "agentlightning" in answer.error["hint"]
