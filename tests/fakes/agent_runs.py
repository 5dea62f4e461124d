"""Real Agent Lightning runs from prepare to their end: tasks, plans of every strategy, and who of a run still lives."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fakes.cli import Called, start, trainer
from fakes.runs import wait_for
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import processes

EXAMPLES = Path(__file__).parents[2] / "examples"
STARTED_S = 300.0
"""Importing Agent Lightning takes 17 s of CPU; on a busy host many times that."""
GONE_S = 30.0

BASELINE = {"name": "baseline", "polling_interval": 0.5}
SHARED = {"algorithm": BASELINE, "strategy": {"name": "shared_memory"}}
SERVED = {"algorithm": BASELINE, "strategy": {"name": "client_server", "n_runners": 2}}
SPLIT = {"algorithm": BASELINE, "strategy": {"name": "split", "n_runners": 2}}
EAGER = {"name": "agent", "poll_interval": 0.5}
"""Agent Lightning's own runner, which by default looks for work every 5 s."""


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


class AgentWorkshop:
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
        prepared = self.prepare(version, "dev", data, **{"runner": EAGER, **keys})
        assert prepared.code == 0, prepared.out + prepared.err
        caller = start(*self.run_words(prepared), **self.environ)
        one = Ended(prepared, prepared)
        wait_for(lambda: len(one.stored("rollouts")) > 0, STARTED_S)
        return one, caller
