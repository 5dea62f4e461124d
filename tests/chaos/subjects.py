"""What chaos is done to: runs of the stand-in backend, and of the real LLaMA-Factory, behind one face."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from fakes.runs import CALLER, PreparedRun, answer

from loopai_trainer.host import processes
from loopai_trainer.worker.observe import living, observe, read_started

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LIMIT_S = 600.0


class StandInRun(PreparedRun):
    """A run of some seconds: `steps` steps, perhaps with a rank in a session of its own that outlives its launcher."""

    def __init__(self, root: Path, chance: random.Random, prefix: tuple[str, ...] = ()) -> None:
        self.pace = 1.0
        self.steps = chance.randint(3, 8)
        self.prefix = prefix
        helper_s = chance.choice([0.0, 2.0, 300.0])
        super().__init__(root, steps=self.steps, pause_s=chance.choice([0.05, 0.2, 0.5]), helper_s=helper_s)

    def first_call(self) -> "subprocess.Popen[bytes]":
        """Start `trainer run-prepared`, with `prefix` before it if there is one."""
        words = ("run-prepared", self.run.config, "--sha256", self.sha256, "--json")
        return subprocess.Popen(
            [*self.prefix, sys.executable, "-c", CALLER, *words],
            env={**self.env, "IGNORED": ""},
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def metric_steps(self) -> list[int]:
        """The steps that training itself logged."""
        return _steps(os.path.join(self.run.checkpoints, "metrics.jsonl"), "step")


class RealRun:
    """A LLaMA-Factory run on the CPU, with one process or with torchrun and two ranks."""

    def __init__(self, shop: "RealShop", chance: random.Random, number: int) -> None:
        self.prefix: tuple[str, ...] = ()
        self.shop = shop
        self.root = shop.root
        self.pace = 20.0  # loading takes that much longer than a stand-in's
        self.steps = 8
        ranks = chance.choice([1, 2])
        document = shop.prepare(f"chaos-{number}", self.steps, ranks)
        from loopai_trainer.files.run_dir import RunDir

        self.run = RunDir(document["run_dir"])
        self.sha256 = document["config_sha256"]

    def call(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start `trainer WORDS`."""
        return self.shop.call(*words)

    def first_call(self) -> "subprocess.Popen[bytes]":
        """Start `trainer run-prepared`."""
        return self.start()

    def start(self) -> "subprocess.Popen[bytes]":
        """Start `trainer run-prepared`."""
        return self.call("run-prepared", self.run.config, "--sha256", self.sha256, "--json")

    def run_to_end(self) -> tuple[int, dict[str, Any]]:
        """One whole `trainer run-prepared`."""
        return answer(self.start(), LIMIT_S)

    @property
    def starts(self) -> int:
        """How often training began: its first logged step occurs once a start, since the log is appended to."""
        return max(1 if read_started(self.run).get("training") else 0, self.metric_steps().count(1))

    @property
    def status(self) -> str:
        return observe(self.run).verdict.status

    def state(self) -> dict[str, Any]:
        return observe(self.run).state

    def result(self) -> dict[str, Any]:
        return observe(self.run).result or {}

    def locked(self) -> tuple[bool, bool]:
        from loopai_trainer.host import locks

        return locks.held(self.run.run_lock), locks.held(self.run.training_lock)

    def living(self) -> list[dict[str, Any]]:
        found = [*living(self.run, self.state()), *processes.marked(self.run.version_id, self.run.path)]
        return [dict(one) for one in found]

    def metric_steps(self) -> list[int]:
        """The training steps that LLaMA-Factory itself logged."""
        return _steps(os.path.join(self.run.checkpoints, "trainer_log.jsonl"), "current_steps", "loss")


class RealShop:
    """A tiny model, small data and an output folder for real runs."""

    def __init__(self, root: Path, lf_env: str) -> None:
        self.root = root
        self.lf_env = lf_env
        self.model, self.data = root / "model", root / "data.jsonl"
        model = [f"{lf_env}/bin/python", str(EXAMPLES / "make_tiny_model.py"), str(self.model)]
        data = [sys.executable, str(EXAMPLES / "make_bilingual_data.py"), str(self.data)]
        for words in (model, data):
            subprocess.run(words, check=True, capture_output=True)

    def call(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start `trainer WORDS` in a session of its own."""
        dirs = {f"LOOPAI_TRAINER_{kind.upper()}_DIR": str(self.root / kind) for kind in ("state", "cache", "config")}
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "loopai_trainer", *words],
            env={**os.environ, **dirs},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def prepare(self, version_id: str, steps: int, ranks: int) -> dict[str, Any]:
        """The data of `trainer prepare --json`."""
        words = ["prepare", "--dataset", str(self.data), "--model", str(self.model), "--template", "cpu_smoke_full"]
        words += ["--task-description", "SFT", "--config-mode", "template", "--env", self.lf_env, "--json"]
        words += ["--output-dir", str(self.root / "out"), "--task-id", "chaos", "--version-id", version_id]
        words += ["--option", f"nproc_per_node={ranks}", "--set", f"max_steps={steps}", "--set", "logging_steps=1"]
        code, document = answer(self.call(*words), LIMIT_S)
        assert code == 0, document
        data: dict[str, Any] = document["data"]
        return data


def _steps(path: str, key: str, needed: str = "loss") -> list[int]:
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the last line of a training that was killed, or that a full disk cut
        if needed in entry:
            found.append(int(entry[key]))
    return found
