"""Users' own agents and algorithms with real Agent Lightning 0.3.0, what is refused of them, and no algorithm at all."""

import os
from pathlib import Path

import pytest
from fakes.agent_runs import GONE_S, SHARED, STARTED_S, AgentWorkshop, Ended
from fakes.cli import start, trainer
from fakes.ports import free_port
from fakes.runs import wait_for

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, agl_env: str) -> AgentWorkshop:
    return AgentWorkshop(tmp_path_factory.mktemp("agl"), agl_env)


# What is refused before anything starts


@pytest.mark.parametrize(
    ("name", "agent", "code"), [("no-agent", "_ask", "AGENT_INVALID"), ("broken", "broken", "AGENT_BROKEN")]
)
def test_what_is_no_agent_is_refused_by_prepare_and_so_is_what_would_call_something(
    workshop, tmp_path, name, agent, code
):
    """One rehearsal tells all of it: importing Agent Lightning takes long."""
    path, mark = tmp_path / "agent.py", tmp_path / "mark"
    path.write_text("_ask = 1\nbroken = 2\n" + ("raise RuntimeError('no import')\n" if name == "broken" else ""))
    mine = tmp_path / "mine.py"
    mine.write_text(f"from os import system as lent\n{ALGORITHM}\ndef factory():\n    open({str(mark)!r}, 'w')\n")
    keys = {
        "agent": {"file": str(path), "name": agent},
        "tracer": {"name": "os:system", "command": f"touch {mark}"},
        "adapter": {"name": "subprocess:Popen", "args": ["touch", str(mark)]},
        "store": {"name": "agentlightning.trainer.init_utils:inspect.os.mkdir", "path": str(mark)},
        "runner": {"file": str(mine), "name": "factory"},
        "llm_proxy": {"file": str(mine), "name": "lent", "command": f"touch {mark}"},
        "algorithm": {"file": str(mine), "name": "Slow"},
    }
    answer = workshop.prepare(f"refused-{name}", "dev", workshop.tasks(name, 2), **{**SHARED, **keys})
    found = {problem["field"]: problem["code"] for problem in answer.error["problems"]}
    invalid = dict.fromkeys(("tracer", "adapter", "store", "llm_proxy"), "COMPONENT_INVALID")
    assert (answer.code, found) == (3, {"agent": code, **invalid, "algorithm": "ALGORITHM_NOT_FAST"}), answer.out
    assert not mark.exists()


ALGORITHM = """
from agentlightning.algorithm import Algorithm, FastAlgorithm

class Slow(Algorithm):
    async def run(self, train_dataset=None, val_dataset=None):
        pass

class Mine(FastAlgorithm):
    def __init__(self, greeting="none"):
        super().__init__()
        self.greeting = greeting

    async def run(self, train_dataset=None, val_dataset=None):
        import asyncio
        store = self.get_store()
        assert self.get_adapter() is not None and self.get_initial_resources() == {} and self.get_llm_proxy() is None
        resources = await store.update_resources("mine", {})
        asked = [await store.enqueue_rollout(input=task, mode="train") for task in train_dataset]
        done = []
        while len(done) < len(asked):
            done = await store.wait_for_rollouts(rollout_ids=[one.rollout_id for one in asked], timeout=0.0)
            await asyncio.sleep(0.2)
        print("greeting", self.greeting, flush=True)

class Sync(FastAlgorithm):
    def run(self, train_dataset=None, val_dataset=None):
        import asyncio, threading
        assert self.get_adapter() is not None and self.get_initial_resources() == {} and self.get_llm_proxy() is None
        async def work():
            store = self.get_store()
            asked = [await store.enqueue_rollout(input=task, mode="train") for task in train_dataset]
            done = []
            while len(done) < len(asked):
                done = await store.wait_for_rollouts(rollout_ids=[one.rollout_id for one in asked], timeout=0.0)
                await asyncio.sleep(0.2)
        worker = threading.Thread(target=lambda: asyncio.run(work()))
        worker.start()
        worker.join()
"""


@pytest.mark.parametrize("name", ["Mine", "Sync"])
def test_an_algorithm_of_the_users_own(workshop, tmp_path, name):
    path = tmp_path / "mine.py"
    path.write_text(ALGORITHM)
    spec = {"file": str(path), "name": name, **({"greeting": "hello"} if name == "Mine" else {})}
    one = workshop.whole(f"own-{name}", "dev", workshop.tasks(f"own-{name}", 2), **{**SHARED, "algorithm": spec})
    assert one.ended.code == 0, one.ended.out
    assert len(one.stored("rollouts")) == 2
    if name == "Mine":
        assert "greeting hello" in (one.folder / "train.log").read_text()


def test_without_an_algorithm_runners_wait_for_what_others_queue(workshop, agl_env):
    import subprocess

    port = free_port()
    keys = {"algorithm": {"name": "none"}, "strategy": {"name": "client_server", "port": port}}
    prepared = workshop.prepare("waiting", "dev", workshop.tasks("waiting", 2), **keys)
    assert prepared.code == 0, prepared.out
    caller = start(*workshop.run_words(prepared), **workshop.environ)
    one = Ended(prepared, prepared)
    queue = (
        "import asyncio\nfrom agentlightning.store.client_server import LightningStoreClient\n"
        "async def main():\n"
        f"    store = LightningStoreClient('http://127.0.0.1:{port}')\n"
        "    await store.enqueue_rollout(input={'question': '1 + 2', 'answer': 3}, mode='train')\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    wait_for(lambda: "phase training" in _text(one.folder / "train.log"), STARTED_S)
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run([f"{agl_env}/bin/python", "-c", queue], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wait_for(lambda: len(one.stored("rollouts")) == 1, STARTED_S)
    assert trainer("cancel", one.folder, **workshop.environ).code == 0
    caller.communicate(timeout=60)
    assert one.stored("rollouts")[0]["reward"] == 1.0
    wait_for(lambda: one.survivors() == [], GONE_S)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
