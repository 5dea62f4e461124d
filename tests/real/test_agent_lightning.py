"""Real Agent Lightning 0.3.0 through prepare, approval by hash, run-prepared, cancel, worker kill and adopt."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from fakes.cli import Called, start, trainer
from fakes.prompt_endpoint import GOOD, PromptEndpoint
from fakes.runs import kill, wait_for

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import processes
from loopai_trainer.worker.observe import observe, read_started

pytestmark = pytest.mark.real

EXAMPLES = Path(__file__).parents[2] / "examples"
STARTED_S = 300.0
"""Importing Agent Lightning takes 17 s of CPU; on a busy host many times that."""
GONE_S = 30.0
SEED = "Question: {question}"


class Ended(NamedTuple):
    """A run from prepare to its end."""

    prepared: Called
    ended: Called

    @property
    def folder(self) -> Path:
        return Path(self.prepared.data["run_dir"])

    @property
    def run(self) -> RunDir:
        return RunDir(str(self.folder))

    def stored(self, kind: str) -> list[dict[str, Any]]:
        path = self.folder / "checkpoints" / "store" / f"{kind}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "metrics" / "metrics.jsonl").read_text().splitlines()]

    def survivors(self) -> list[dict[str, Any]]:
        return [one for one in living(self.run) if processes.alive(one)]


def living(run: RunDir) -> list[dict[str, Any]]:
    return [dict(one) for one in processes.marked(run.version_id, run.path)]


class Workshop:
    """Tasks, templates, an output folder, and the user folders of a test user."""

    def __init__(self, root: Path, env: str) -> None:
        self.root = root
        self.env = env
        self.output = root / "out"
        self.environ = {f"LOOPAI_TRAINER_{kind}_DIR": str(root / kind.lower()) for kind in ("STATE", "CACHE", "CONFIG")}

    def tasks(self, name: str, count: int, **more: Any) -> Path:
        path = self.root / f"{name}.jsonl"
        rows = [{"question": f"{n} + {n + 1}", "answer": 2 * n + 1, **more} for n in range(count)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def prepare(self, version: str, stage: str, data: Path, *more: Any, **keys: Any) -> Called:
        template = self.root / f"{version}.yaml"
        base = {
            "agent": {"file": str(EXAMPLES / "sum_agent.py"), "name": "Adder"},
            "tracer": "otel",
            "limits": {"rollout_s": 60, "wall_s": 600},
        }
        template.write_text(yaml.safe_dump({**base, **keys}))
        words = ["prepare", "--framework", "agentlightning", "--stage", stage, "--dataset", data, "--env", self.env]
        words += ["--template", template, "--output-dir", self.output, "--task-id", "sums", "--version-id", version]
        return trainer(*words, *more, **self.environ)

    def run_words(self, prepared: Called) -> list[str]:
        return ["run-prepared", prepared.data["config_path"], "--sha256", prepared.data["config_sha256"]]

    def whole(self, version: str, stage: str, data: Path, *more: Any, **keys: Any) -> Ended:
        prepared = self.prepare(version, stage, data, *more, **keys)
        assert prepared.code == 0, prepared.out + prepared.err
        return Ended(prepared, trainer(*self.run_words(prepared), timeout_s=900, **self.environ))

    def started(self, version: str, data: Path, **keys: Any) -> tuple[Ended, Any]:
        """A run that has begun to make rollouts, and its caller."""
        prepared = self.prepare(version, "dev", data, **keys)
        assert prepared.code == 0, prepared.out + prepared.err
        caller = start(*self.run_words(prepared), **self.environ)
        one = Ended(prepared, prepared)
        wait_for(lambda: len(one.stored("rollouts")) > 0, STARTED_S)
        return one, caller


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, agl_env: str) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("agl"), agl_env)


BASELINE = {"name": "baseline", "polling_interval": 0.5}
SHARED = {"algorithm": BASELINE, "strategy": {"name": "shared_memory"}}
SERVED = {"algorithm": BASELINE, "strategy": {"name": "client_server", "n_runners": 2}}
SPLIT = {"algorithm": BASELINE, "strategy": {"name": "split", "n_runners": 2}}


@pytest.mark.parametrize(("name", "keys"), [("shared", SHARED), ("served", SERVED), ("split", SPLIT)])
def test_a_dry_run_in_every_strategy(workshop, name, keys):
    one = workshop.whole(name, "dev", workshop.tasks(name, 4), **keys)
    assert one.ended.code == 0, one.ended.out
    data = one.ended.data
    assert (data["status"], data["current_step"], data["total_steps"]) == ("completed", 4, 4)
    assert data["update_model_path"] is None
    assert data["result"]["artefact_path"] == str(one.folder / "checkpoints" / "store")
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
    one, caller = workshop.started(name, workshop.tasks(name, 30, wait_s=1), **keys)
    answer = trainer("cancel", one.folder, **workshop.environ)
    assert (answer.code, answer.answer["status"]) == (0, "cancelled"), answer.out
    caller.communicate(timeout=60)
    assert caller.returncode == 13
    assert 0 < len([each for each in one.stored("rollouts") if each["status"] == "succeeded"]) < 30
    wait_for(lambda: one.survivors() == [], GONE_S)


def test_a_run_whose_worker_was_killed_is_adopted_and_completes(workshop):
    one, caller = workshop.started("adopted", workshop.tasks("adopted", 10, wait_s=1), **SPLIT)
    kill(observe(one.run).state["worker"])
    caller.communicate(timeout=60)
    assert caller.returncode == 8
    answer = trainer("recover", one.folder, "--adopt", **workshop.environ)
    assert (answer.code, answer.answer["status"]) == (0, "completed"), answer.out
    assert len(one.stored("rollouts")) == 10
    assert one.survivors() == []


def test_killing_training_leaves_no_runner(workshop):
    one, caller = workshop.started("killed", workshop.tasks("killed", 30, wait_s=1), **SERVED)
    members = living(one.run)
    assert len(members) >= 3  # algorithm and two runners
    kill(read_started(one.run)["training"], signal.SIGKILL)
    caller.communicate(timeout=60)
    assert caller.returncode == 11
    wait_for(lambda: not any(processes.alive(each) for each in members), GONE_S)


# Prompt optimisation

SEARCH = {
    "algorithm": {
        "name": "apo",
        "beam_width": 1,
        "branch_factor": 1,
        "beam_rounds": 1,
        "gradient_batch_size": 2,
        "val_batch_size": 4,
    },
    "resources": {"prompt_template": {"template": SEED, "engine": "f-string"}},
    "strategy": {"name": "client_server", "n_runners": 1},
    "adapter": "messages",
    "val_size": 0.5,
}


def search(workshop: Workshop, version: str, endpoint: PromptEndpoint, count: int = 4, **more: Any) -> Ended:
    llm = {
        "base_url": endpoint.url,
        "gradient_model": "fake-gradient",
        "apply_edit_model": "fake-edit",
        "max_retries": 0,
    }
    keys = {**SEARCH, "llm": llm, "agent": {"file": str(EXAMPLES / "sum_agent.py"), "name": "prompted"}, **more}
    environ = dict(workshop.environ)
    workshop.environ["OPENAI_API_KEY"] = "key-of-the-test"
    try:
        return workshop.whole(version, "apo", workshop.tasks(version, count), **keys)
    finally:
        workshop.environ = environ


@pytest.fixture(scope="module")
def searched(workshop: Workshop):
    with PromptEndpoint() as endpoint:
        return search(workshop, "search", endpoint), endpoint


class TestSearch:
    def test_the_prompt_is_improved_from_nothing_to_all(self, searched):
        one, _ = searched
        assert one.ended.code == 0, one.ended.out
        assert one.ended.data["best_metric"] == {"name": "val/score", "mode": "max", "value": 1.0, "step": 4}
        scores = [row["values"]["val/score"] for row in one.rows() if "val/score" in row["values"]]
        assert scores[0] == 0.0 and max(scores) == 1.0

    def test_the_result_is_a_prompt_and_no_model(self, searched):
        one, _ = searched
        data = one.ended.data
        assert data["update_model_path"] is None
        best = json.loads(Path(data["result"]["artefact_path"]).read_text())
        assert (best["template"], best["score"], best["failed"]) == (GOOD, 1.0, 0)
        chosen = json.loads((Path(data["best_checkpoint"]["path"]) / "prompt.json").read_text())
        assert chosen["template"] == GOOD

    def test_every_version_and_its_score_was_written_as_it_came(self, searched):
        one, _ = searched
        lines = (one.folder / "checkpoints" / "prompts.jsonl").read_text().splitlines()
        entries = [json.loads(line) for line in lines]
        assert [entry["step"] for entry in entries] == list(range(1, len(entries) + 1))
        assert {entry["version"] for entry in entries} == {"v0", "v1"}
        assert entries[0]["template"] == SEED

    def test_the_key_came_by_its_name_alone(self, searched):
        one, endpoint = searched
        assert endpoint.keys == {"Bearer key-of-the-test"}
        for path in one.folder.rglob("*"):
            if path.is_file():
                assert b"key-of-the-test" not in path.read_bytes(), path

    def test_nothing_of_it_is_left(self, searched):
        one, _ = searched
        assert one.survivors() == []


def test_a_failed_optimiser_call_keeps_what_was_measured(workshop):
    with PromptEndpoint() as endpoint:
        endpoint.down_for = {"fake-gradient"}
        one = search(workshop, "no-optimiser", endpoint)
    assert (one.ended.code, one.ended.data["status"]) == (11, "failed"), one.ended.out
    assert "InternalServerError" in one.ended.error["detail"]
    best = json.loads((one.folder / "checkpoints" / "best_prompt.json").read_text())
    assert (best["template"], best["score"]) == (SEED, 0.0)


def test_a_search_stops_at_its_limit_of_calls(workshop):
    with PromptEndpoint() as endpoint:
        limits = {"rollout_s": 60, "wall_s": 600, "llm_calls": 1}
        one = search(workshop, "calls", endpoint, limits=limits)
    assert one.ended.code == 11, one.ended.out
    assert "LIMIT_REACHED: limits.llm_calls" in one.ended.error["detail"]
    assert endpoint.asked["fake-gradient"] + endpoint.asked["fake-edit"] == 1


# What is refused before anything starts


@pytest.mark.parametrize(
    ("name", "agent", "code"), [("no-agent", "_ask", "AGENT_INVALID"), ("broken", "broken", "AGENT_BROKEN")]
)
def test_what_is_no_agent_is_refused_by_prepare(workshop, tmp_path, name, agent, code):
    path = tmp_path / "agent.py"
    path.write_text("_ask = 1\nbroken = 2\n" + ("raise RuntimeError('no import')\n" if name == "broken" else ""))
    keys = {"agent": {"file": str(path), "name": agent}}
    answer = workshop.prepare(f"refused-{name}", "dev", workshop.tasks(name, 2), **{**SHARED, **keys})
    assert (answer.code, answer.error["problems"][0]["code"]) == (3, code), answer.out


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


def test_an_algorithm_that_is_not_fast_is_refused_by_dev(workshop, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(ALGORITHM)
    spec = {"file": str(path), "name": "Slow"}
    answer = workshop.prepare("slow", "dev", workshop.tasks("slow", 2), **{**SHARED, "algorithm": spec})
    assert (answer.code, answer.error["problems"][0]["code"]) == (3, "ALGORITHM_NOT_FAST"), answer.out


def test_without_an_algorithm_runners_wait_for_what_others_queue(workshop, agl_env):
    import socket
    import subprocess

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
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


def test_setup_knows_the_backend():
    begun = time.monotonic()
    answer = trainer("setup", "no-such-backend")
    assert (answer.code, time.monotonic() - begun < 60) == (2, True)
    assert "agentlightning" in answer.error["hint"]
