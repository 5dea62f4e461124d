"""The stage grpo on real Agent Lightning 0.3.0, its verl a stand-in: the launch as it would be, runners that really run."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from fakes.agent_plans import plan

from loopai_trainer import backends
from loopai_trainer.backends.agentlightning import coverage
from loopai_trainer.records import ApprovedPlan, LaunchPaths

pytestmark = pytest.mark.real

AGENT = """import agentlightning


@agentlightning.rollout
def solve(task, llm):
    agentlightning.emit_message(f"{llm.model} at {task['q']}")
    return 1.0
"""
SITE = Path(__file__).parents[1] / "fakes" / "agl03_site"


def test_the_launch_reaches_verls_training_with_the_merged_plan(tmp_path, agl_env, monkeypatch):
    monkeypatch.setattr("fakes.agent_plans.AGENT", AGENT)
    backend = backends.get("agentlightning", "grpo")
    made = plan("grpo", tmp_path, launch={"devices": "0,1"}, strategy={"name": "cs", "n_runners": 2, "port": 0})
    for split, rows in (("train", 4), ("validation", 2)):
        path = Path(made.native["tasks"][split])
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps({"q": f"{split} {row}"}) + "\n" for row in range(rows)))
    folders = {name: tmp_path / name for name in ("launch", "checkpoints", "metrics", "cache", "tmp", "inputs")}
    for folder in folders.values():
        folder.mkdir()
    for name, source in coverage.input_files("grpo").items():
        shutil.copy(source, folders["inputs"] / name)
    paths = LaunchPaths(str(tmp_path), *map(str, folders.values()))
    launch = backend.launch(ApprovedPlan(made, made.sha256), paths, {})
    for name, text in launch.files.items():
        (folders["launch"] / name).write_text(text)
    # As it is started, but by the environment at hand and, instead of -I, with the stand-in for verl on its path.
    _, isolated, *argv = launch.main.argv
    assert isolated == "-I"
    env = {**launch.main.env, "PYTHONPATH": str(SITE)}
    done = subprocess.run(
        [f"{agl_env}/bin/python", *argv], env=env, cwd=launch.main.cwd, capture_output=True, text=True, timeout=300
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    given = json.loads(said.partition("run_ppo ")[2].splitlines()[0])
    block = made.native["verl"]
    assert given["config"]["trainer"] == {"project_name": "theirs", **block["trainer"]}
    assert given["config"]["agentlightning"] == {"port": 9999, **block["agentlightning"]}
    assert given["config"]["actor_rollout_ref"] == block["actor_rollout_ref"]
    assert [task["q"] for task in given["train"]] == [f"train {row}" for row in range(4)]
    assert [task["q"] for task in given["val"]] == ["validation 0", "validation 1"]
    assert given["classes"] == ["AgentLightningTrainer", "AgentModeDaemon"]
    assert given["devices"] == "0,1"
    assert given["proxy"] is False  # none was asked for: the training makes its own
    assert given["adapter"] == "TracerTraceToTriplet"
    rows = backend.read_metrics(Path(backend.metrics_file(paths)).read_bytes().splitlines())
    assert [(row.step, row.kind, row.values["training/reward"]) for row in rows] == [
        (n, "train", 1.0) for n in (1, 2, 3, 4)
    ]
    assert all(row.values["training/spans"] >= 1 for row in rows)
    stored = [
        json.loads(line) for line in (folders["checkpoints"] / "store" / "rollouts.jsonl").read_text().splitlines()
    ]
    assert [(one["status"], one["reward"]) for one in stored] == [("succeeded", 1.0)] * 4
    assert (folders["checkpoints"] / "store" / "closed.json").exists()
