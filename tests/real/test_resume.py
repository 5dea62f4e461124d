"""A cancelled LLaMA-Factory training is continued by a new round, from its newest checkpoint to its last step."""

import json
import os
from pathlib import Path

import pytest
from fakes.cli import start, trainer
from fakes.runs import wait_for

pytestmark = pytest.mark.real


def losses(folder):
    lines = (folder / "checkpoints" / "trainer_log.jsonl").read_text().splitlines()
    return {entry["current_steps"]: entry["loss"] for entry in map(json.loads, lines) if "loss" in entry}


def test_a_new_round_ends_where_an_undisturbed_one_would(workshop):
    # Far more steps than one makes while a cancel is on its way.
    steps = ("--set", "max_steps=60", "--set", "save_steps=3", "--set", "eval_steps=3", "--set", "logging_steps=1")
    keep = ("--set", "save_total_limit=20")
    whole = workshop.whole("undisturbed", *steps, *keep)
    assert whole.ended.code == 0
    prepared = workshop.prepare("stopped", *steps, *keep)
    folder = Path(prepared.data["run_dir"])
    words = ["run-prepared", prepared.data["config_path"], "--sha256", prepared.data["config_sha256"]]
    caller = start(*words, **workshop.environ)
    wait_for(lambda: (folder / "checkpoints" / "checkpoint-3" / "trainer_state.json").exists(), 300.0)
    assert trainer("cancel", folder, **workshop.environ).data["status"] == "cancelled"
    caller.communicate(timeout=60)
    more = ["prepare", "--resume", folder, "--version-id", "resumed", "--output-dir", workshop.output]
    resumed = trainer(*more, **workshop.environ)
    assert resumed.code == 0, resumed.out + resumed.err
    assert "resume_from_checkpoint" in resumed.data["config_yaml"]
    ended = workshop.run(resumed)
    assert (ended.code, ended.data["status"], ended.data["current_step"]) == (0, "completed", 60)
    own, undisturbed = losses(Path(ended.data["run_dir"])), losses(whole.folder)
    first = min(own)
    assert first > 3
    assert own == pytest.approx({step: undisturbed[step] for step in own}, rel=1e-3)
    analysis = trainer("analyze", ended.data["run_dir"], **workshop.environ)
    trained = [row["step"] for row in analysis.data["metrics"] if row["kind"] == "train"]
    assert trained == list(range(1, 61))
    assert os.path.isdir(folder / "checkpoints" / "checkpoint-3")
