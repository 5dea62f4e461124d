"""Real GRPO rounds on a CPU from prepare to their end, and who of them still lives."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fakes.cli import Called, trainer

EXAMPLES = Path(__file__).parents[2] / "examples"
REWARD = ("--reward-mode", "custom", "--reward-function", EXAMPLES / "digit_reward.py")
VALIDATION = "actor_rollout_ref.rollout.val_kwargs"


class Round(NamedTuple):
    """A run from prepare to its end."""

    prepared: Called
    ended: Called

    @property
    def folder(self) -> Path:
        return Path(self.prepared.data["run_dir"])

    @property
    def plan(self) -> dict[str, Any]:
        return yaml.safe_load(self.prepared.data["config_yaml"])

    def rows(self, kind: str) -> list[dict[str, Any]]:
        lines = (self.folder / "metrics" / "metrics.jsonl").read_text().splitlines()
        return [row for row in map(json.loads, lines) if row["kind"] == kind]


class GrpoWorkshop:
    """Tiny model, sums, an output folder, and the user folders of a test user."""

    def __init__(self, root: Path, verl_env: str) -> None:
        self.verl_env = verl_env
        self.model = root / "model"
        self.data = root / "sums.jsonl"
        self.output = root / "out"
        self.environ = {f"LOOPAI_TRAINER_{kind}_DIR": str(root / kind.lower()) for kind in ("STATE", "CACHE", "CONFIG")}
        make_model = [f"{verl_env}/bin/python", str(EXAMPLES / "make_tiny_model.py"), str(self.model)]
        subprocess.run(make_model, check=True, capture_output=True)
        subprocess.run([sys.executable, str(EXAMPLES / "make_grpo_data.py"), str(self.data)], check=True)

    def prepare(self, version: str, *more: Any, task: str = "sums") -> Called:
        words = ["prepare", "--framework", "verl", "--stage", "grpo", "--dataset", self.data, "--env", self.verl_env]
        words += ["--task-description", "Add two numbers", "--output-dir", self.output, "--task-id", task]
        prepared = trainer(*words, "--version-id", version, *more, **self.environ)
        assert prepared.code == 0, prepared.out + prepared.err
        return prepared

    def first(self, version: str, *more: Any, task: str = "sums") -> Called:
        words = ["--model", self.model, "--template", "verl_grpo_cpu_smoke", "--config-mode", "template"]
        words += REWARD
        # Sampled replies to a dozen prompts: else all steps of a model this small score the same. Of two replies to
        # each of four prompts, all pairs score alike once in some sixty steps, and such a step has no gradient; of four
        # to each, once in some ten thousand.
        words += ["--validation-ratio", "0.2", "--set", "actor_rollout_ref.rollout.n=4"]
        words += ["--set", f"{VALIDATION}.do_sample=true", "--set", f"{VALIDATION}.temperature=1.0"]
        return self.prepare(version, *words, *more, task=task)

    def run(self, prepared: Called) -> Round:
        data = prepared.data
        words = ["run-prepared", data["config_path"], "--sha256", data["config_sha256"]]
        return Round(prepared, trainer(*words, timeout_s=900, **self.environ))


def members(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.getsid(int(name)) == session and not _is_dead(name):
                found.append(int(name))
        except OSError:
            continue
    return found


def _is_dead(pid: str) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
