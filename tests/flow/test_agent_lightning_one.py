"""Agent Lightning 1.x with stand-ins: server, controller and training find each other, on the loopback, by a fresh key."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.runs import LIMIT_S, wait_for

from loopai_trainer.backends.agentlightning import coverage

pytestmark = pytest.mark.flow

SITE = Path(__file__).parents[1] / "fakes" / "agl1_site"
AGENT = "class Solver:\n    def run(self):\n        return 'ran'\n"


@pytest.fixture
def place(tmp_path):
    """A run's folders with the driver's copies, and a plan; what was started is ended."""
    inputs, launch = tmp_path / "inputs", tmp_path / "launch"
    inputs.mkdir()
    launch.mkdir()
    for name, path in coverage.input_files("grpo").items():
        shutil.copy(path, inputs / name)
    (inputs / "agent.file.py").write_text(AGENT)
    for split in ("train", "validation"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps({"split": split}) + "\n")
    native = {
        "agent": {"file": str(inputs / "agent.file.py"), "name": "Solver"},
        "tasks": {split: str(tmp_path / f"{split}.jsonl") for split in ("train", "validation")},
        "strategy": {"name": "split", "n_runners": 3, "port": 0},
        "limits": {"rollout_s": 60, "wall_s": 600},
        "verl": {"agentlightning": {"trace_aggregator": {"level": "transition"}}, "trainer": {"epochs": 2}},
    }
    paths = {"inputs": str(inputs), "exit": str(launch / "exit.json"), "store_port": str(launch / "store_port")}
    files = {native["agent"]["file"]: hashlib.sha256(AGENT.encode()).hexdigest()}
    document = {"stage": "grpo", "native": native, "paths": paths, "files": files, "secrets": []}
    (launch / "agl_plan.json").write_text(json.dumps(document))
    started = []

    def start(role):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(inputs), str(SITE)))}
        env["LOOPAI_AGENT_PLAN"] = str(launch / "agl_plan.json")
        log = open(tmp_path / f"{role}.log", "wb")  # noqa: SIM115 - the process's own
        argv = [sys.executable, "-B", str(inputs / "agl_one.py"), str(launch / "agl_plan.json"), role]
        process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, env=env, cwd=launch)
        log.close()
        started.append(process)
        return process

    yield tmp_path, start
    for process in started:
        process.kill()
        process.wait()


def said(folder, role):
    return (folder / f"{role}.log").read_text()


def test_the_three_programs_find_each_other_and_leave_with_training(place):
    folder, start = place
    helpers = [start("server"), start("controller")]
    training = start("algorithm")
    assert training.wait(timeout=LIMIT_S) == 0, said(folder, "algorithm")
    wait_for(lambda: "agent ran" in said(folder, "controller"))
    host, key = wait_for(lambda: re.search(r"server \[.*\] (\S+) (\S+)\n", said(folder, "server"))).groups()
    assert host == "127.0.0.1" and len(key) == 32
    assert "controller local http://127.0.0.1:" in said(folder, "controller")
    assert said(folder, "controller").count(key) == 1
    given = json.loads(said(folder, "algorithm").partition("run_ppo ")[2].splitlines()[0])
    own = given["config"]["agentlightning"]
    assert own["agl_key"] == key and own["local"] == {"agent_class": "agl_agent:Agent"}
    assert own["rollout_timeout_seconds"] == 60.0
    assert own["trace_aggregator"] == {"level": "transition"}
    assert given["config"]["trainer"] == {"epochs": 2}
    assert (given["train"], given["val"]) == ([{"split": "train"}], [{"split": "validation"}])
    assert not any(key in Path(f"/proc/{one.pid}/cmdline").read_text() for one in helpers)
    (folder / "launch" / "exit.json").write_text("{}")
    assert [one.wait(timeout=LIMIT_S) for one in helpers] == [0, 0]
