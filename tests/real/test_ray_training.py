"""Real trainings as jobs of a Ray cluster of two nodes on loopback: LLaMA-Factory over both, verl with two ranks."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from fakes.cli import start, trainer

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        find_spec("ray") is None, reason="needs Ray beside the tests: pip install 'loopai-trainer[ray]'"
    ),
]

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_llamafactory_over_both_nodes(cluster, lf_env, tmp_path):
    model, data = tmp_path / "model", tmp_path / "data.jsonl"
    make = [f"{lf_env}/bin/python", str(EXAMPLES / "make_tiny_model.py"), str(model)]
    subprocess.run(make, check=True, capture_output=True)
    subprocess.run([sys.executable, str(EXAMPLES / "make_bilingual_data.py"), str(data)], check=True)
    environ = users(tmp_path) | cluster.environ
    words = ["prepare", "--dataset", data, "--model", model, "--template", "cpu_smoke_full", "--env", lf_env]
    words += ["--task-description", "SFT", "--config-mode", "template", "--output-dir", tmp_path / "out"]
    words += ["--executor", "ray_jobs", "--ray-address", cluster.address, "--nodes", "2", "--version-id", "both"]
    prepared = trainer(*words, **environ)
    assert prepared.code == 0, prepared.out + prepared.err
    launch = yaml.safe_load(prepared.data["config_yaml"])["loopai"]["launch"]
    assert (launch["executor"], launch["address"], launch["nodes"]) == ("ray_jobs", cluster.address, 2)
    assert prepared.data["summary"]["world_size"] == 2
    ended = trainer("run-prepared", prepared.data["config_path"], "--sha256", prepared.data["config_sha256"], **environ)
    assert (ended.code, ended.answer["status"]) == (0, "completed"), ended.out + ended.err
    folder = Path(prepared.data["run_dir"])
    log = (folder / "train.log").read_text()
    assert "num nodes: 2, node rank: 0" in log
    assert "num nodes: 2, node rank: 1" in (folder / "train-node-1.log").read_text()
    assert (folder / "checkpoints" / "model.safetensors").exists()


def test_verl_with_two_ranks_on_two_nodes(cluster, verl_env, tmp_path):
    model, data = tmp_path / "model", tmp_path / "sums.jsonl"
    make = [f"{verl_env}/bin/python", str(EXAMPLES / "make_tiny_model.py"), str(model)]
    subprocess.run(make, check=True, capture_output=True)
    subprocess.run([sys.executable, str(EXAMPLES / "make_grpo_data.py"), str(data)], check=True)
    environ = users(tmp_path) | cluster.environ
    words = [
        "prepare",
        "--framework",
        "verl",
        "--stage",
        "grpo",
        "--dataset",
        data,
        "--env",
        verl_env,
        "--model",
        model,
    ]
    words += ["--template", "verl_grpo_cpu_smoke", "--config-mode", "template", "--task-description", "Add two numbers"]
    words += ["--reward-mode", "custom", "--reward-function", EXAMPLES / "digit_reward.py", "--validation-ratio", "0.2"]
    words += ["--executor", "ray_jobs", "--ray-address", cluster.address, "--nodes", "2", "--version-id", "both"]
    prepared = trainer(*words, "--output-dir", tmp_path / "out", **environ)
    assert prepared.code == 0, prepared.out + prepared.err
    plan = yaml.safe_load(prepared.data["config_yaml"])
    assert plan["trainer"]["nnodes"] == 2
    calling = start("run-prepared", prepared.data["config_path"], "--sha256", prepared.data["config_sha256"], **environ)
    out, err = calling.communicate(timeout=800)  # below pytest's own limit, which would show no output
    document = json.loads(out)
    assert (calling.returncode, document["status"]) == (0, "completed"), out + err
    actor = Path(document["data"]["best_checkpoint"]["path"]) / "actor"
    assert {f"model_world_size_2_rank_{rank}.pt" for rank in (0, 1)} <= {one.name for one in actor.iterdir()}
    assert document["data"]["update_model_path"]


def users(root: Path) -> dict[str, str]:
    return {f"LOOPAI_TRAINER_{kind}_DIR": str(root / kind.lower()) for kind in ("STATE", "CACHE", "CONFIG")}
