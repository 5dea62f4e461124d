"""Real GRPO as a subject of chaos: verl on the CPU, whose leader, Ray processes or worker are harmed in turn."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from fakes.runs import answer

from chaos.subjects import EXAMPLES, LIMIT_S, RealRun, RealShop
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import processes
from loopai_trainer.worker.observe import read_started

_LEADER_S = "Started a local Ray instance"


class VerlRun(RealRun):
    """Two steps of GRPO with one rank: about twenty processes in one session. `who`: whom this round may harm."""

    def __init__(self, shop: "VerlShop", chance: random.Random, number: int) -> None:
        self.prefix: tuple[str, ...] = ()
        self.shop = shop
        self.root = shop.root
        self.pace = 100.0  # Ray and its workers take minutes to start
        self.seen_s = LIMIT_S
        self.steps = 2
        self.who = (("training",), ("rank",), ("worker",))[number % 3]
        self.stages = ("started", "started", "step")
        document = shop.prepare(f"chaos-{number}", self.steps, 1)
        self.run = RunDir(document["run_dir"])
        self.sha256 = document["config_sha256"]

    @property
    def starts(self) -> int:
        """How often training began: verl truncates its metrics at every start, so Ray's own greeting is counted."""
        log = Path(self.run.train_log)
        greeted = log.read_text(errors="replace").count(_LEADER_S) if log.exists() else 0
        return max(1 if read_started(self.run).get("training") else 0, greeted)

    def living(self) -> list[dict[str, Any]]:
        """Everything in the leader's session too: Ray's two agents hide their environment."""
        known = {one["pid"]: one for one in super().living()}
        leader = (read_started(self.run).get("training") or {}).get("pid")
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            identity = processes.identify(pid) if leader and _session(pid) == leader else None
            if identity and processes.alive(identity):
                known[pid] = dict(identity)
        return list(known.values())

    def metric_steps(self) -> list[int]:
        """The training steps that verl itself logged."""
        found = []
        for path in sorted(Path(self.run.metrics).glob("verl_metrics-*.jsonl")):
            for line in path.read_bytes().splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue  # the last line of a training that was killed
                if "actor/grad_norm" in entry["data"]:
                    found.append(int(entry["step"]))
        return found


class VerlShop(RealShop):
    """A tiny model, sums and an output folder for real GRPO; `lf_env` is verl's environment here."""

    def __init__(self, root: Path, verl_env: str) -> None:
        self.root = root
        self.lf_env = verl_env
        self.model, self.data = root / "model", root / "sums.jsonl"
        model = [f"{verl_env}/bin/python", str(EXAMPLES / "make_tiny_model.py"), str(self.model)]
        data = [sys.executable, str(EXAMPLES / "make_grpo_data.py"), str(self.data)]
        for words in (model, data):
            subprocess.run(words, check=True, capture_output=True)

    def prepare(self, version_id: str, steps: int, ranks: int) -> dict[str, Any]:
        """The data of `trainer prepare --json`."""
        words = ["prepare", "--framework", "verl", "--stage", "grpo", "--dataset", str(self.data)]
        words += ["--model", str(self.model), "--template", "verl_grpo_cpu_smoke", "--config-mode", "template"]
        words += ["--reward-mode", "custom", "--reward-function", str(EXAMPLES / "digit_reward.py")]
        words += ["--task-description", "Add two numbers", "--env", self.lf_env, "--json"]
        words += ["--output-dir", str(self.root / "out"), "--task-id", version_id, "--version-id", version_id]
        words += ["--option", f"nproc_per_node={ranks}", "--set", f"trainer.total_training_steps={steps}"]
        code, document = answer(self.call(*words), LIMIT_S)
        assert code == 0, document
        data: dict[str, Any] = document["data"]
        return data


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
