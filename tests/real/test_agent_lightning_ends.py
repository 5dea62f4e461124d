"""Ends of a real Agent Lightning run: a runner's death, cancel, the worker's and training's death."""

import json
import signal
from pathlib import Path

import pytest
from fakes.agent_runs import EXAMPLES, GONE_S, SERVED, SPLIT, AgentWorkshop, living
from fakes.cli import start, trainer
from fakes.runs import kill, wait_for

from loopai_trainer.host import processes
from loopai_trainer.worker.observe import observe, read_started

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, agl_env: str) -> AgentWorkshop:
    return AgentWorkshop(tmp_path_factory.mktemp("agl"), agl_env)


def test_a_dead_runner_is_missed(workshop):
    keys = {**SERVED, "strategy": {"name": "client_server", "n_runners": 1}}
    one, caller = workshop.started("dead", workshop.tasks("dead", 8, wait_s=1), **keys)
    main = read_started(one.run)["training"]["pid"]
    runner = next(child for child in living(one.run) if child["pid"] != main)
    kill(runner)
    out, _ = caller.communicate(timeout=120)
    assert json.loads(out)["error"]["code"] == "EXIT_STATUS"
    assert "RUNNER_LOST" in json.loads(out)["error"]["detail"]
    assert one.survivors() == []


@pytest.mark.parametrize(("name", "keys"), [("cancel-served", SERVED), ("cancel-split", SPLIT)])
def test_cancel_ends_everything_and_the_store_stays(workshop, name, keys):
    one, caller = workshop.started(name, workshop.tasks(name, 300, wait_s=1), **keys)
    answer = trainer("cancel", one.folder, **workshop.environ)
    assert (answer.code, answer.answer["status"]) == (0, "cancelled"), answer.out
    caller.communicate(timeout=60)
    assert caller.returncode == 13
    assert 0 < len([each for each in one.stored("rollouts") if each["status"] == "succeeded"]) < 300
    wait_for(lambda: one.survivors() == [], GONE_S)


def holding_agent(workshop: AgentWorkshop) -> Path:
    """The example's, whose tasks may name a file that they wait for to go."""
    text, waits = (EXAMPLES / "sum_agent.py").read_text(), 'time.sleep(float(task.get("wait_s", 0)))'
    assert waits in text
    path = workshop.root / "holding_agent.py"
    path.write_text(text.replace(waits, 'while os.path.exists(task.get("hold", "")):\n            time.sleep(0.1)'))
    return path


def test_a_run_whose_worker_was_killed_is_adopted_and_completes(workshop):
    hold = workshop.root / "hold"
    hold.touch()
    tasks = workshop.tasks("adopted", 8, hold=str(hold))
    tasks.write_text(workshop.tasks("free", 2).read_text() + tasks.read_text())
    agent = {"file": str(holding_agent(workshop)), "name": "Adder"}
    one, caller = workshop.started("adopted", tasks, agent=agent, limits={"rollout_s": 600, "wall_s": 600}, **SPLIT)
    worker = observe(one.run).state["worker"]
    kill(worker)
    caller.communicate(timeout=60)
    assert caller.returncode == 8
    adopting = start("recover", one.folder, "--adopt", **workshop.environ)
    wait_for(lambda: observe(one.run).state["worker"] != worker)
    assert len(one.stored("rollouts")) < 10
    hold.unlink()
    out, err = adopting.communicate(timeout=600)
    assert (adopting.returncode, json.loads(out)["status"]) == (0, "completed"), out + err
    assert len(one.stored("rollouts")) == 10
    assert one.survivors() == []


def test_killing_training_leaves_no_runner(workshop):
    one, caller = workshop.started("killed", workshop.tasks("killed", 300, wait_s=1), **SERVED)
    members = living(one.run)
    assert len(members) >= 3  # algorithm and two runners
    kill(read_started(one.run)["training"], signal.SIGKILL)
    caller.communicate(timeout=60)
    assert caller.returncode == 11
    wait_for(lambda: not any(processes.alive(each) for each in members), GONE_S)
