"""Real LLaMA-Factory runs, each made once a session; most assertions are fed by one of them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fakes.cli import Called, trainer
from fakes.ray_cluster import RayCluster

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDER = Path(__file__).parent
LONGEST = (
    "test_verl_runs.py",
    "test_agent_lightning.py",
    "test_agent_lightning_ends.py",
    "test_verl_ends.py",
    "test_agent_lightning_search.py",
    "test_agent_lightning_parts.py",
    "test_ray_training.py",
    "test_token_lengths.py",
    "test_ray_jobs.py",
    "test_whole_runs.py",
)


class Run(NamedTuple):
    """A run from prepare to its end."""

    prepared: Called
    ended: Called

    @property
    def folder(self) -> Path:
        return Path(self.prepared.data["run_dir"])


class Workshop:
    """Tiny model, small data, an output folder, and the user folders of a test user."""

    def __init__(self, root: Path, lf_env: str) -> None:
        self.root = root
        self.lf_env = lf_env
        self.model = root / "model"
        self.data = root / "data.jsonl"
        self.output = root / "out"
        self.environ = {f"LOOPAI_TRAINER_{kind}_DIR": str(root / kind.lower()) for kind in ("STATE", "CACHE", "CONFIG")}

    def prepare(self, version: str, *more: Any, template: str = "cpu_smoke_full", data: Path | None = None) -> Called:
        words = ["prepare", "--dataset", data or self.data, "--model", self.model, "--template", template]
        words += ["--task-description", "SFT a bilingual assistant", "--config-mode", "template", "--env", self.lf_env]
        words += ["--output-dir", self.output, "--task-id", "real", "--version-id", version, *more]
        return trainer(*words, **self.environ)

    def run(self, prepared: Called, *more: Any) -> Called:
        data = prepared.data
        return trainer("run-prepared", data["config_path"], "--sha256", data["config_sha256"], *more, **self.environ)

    def whole(self, version: str, *more: Any, **kwargs: Any) -> Run:
        prepared = self.prepare(version, *more, **kwargs)
        assert prepared.code == 0, prepared.out + prepared.err
        return Run(prepared, self.run(prepared))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, those that start Ray far from each other: processes take whole files in this order."""
    items.sort(key=_order)


def _order(item: pytest.Item) -> int:
    longest = item.path.parent == FOLDER and item.path.name in LONGEST
    return LONGEST.index(item.path.name) if longest else len(LONGEST)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory, lf_env: str) -> Workshop:
    made = Workshop(tmp_path_factory.mktemp("workshop"), lf_env)
    make_model = [f"{lf_env}/bin/python", str(EXAMPLES / "make_tiny_model.py"), str(made.model)]
    subprocess.run(make_model, check=True, capture_output=True)
    subprocess.run(
        [sys.executable, str(EXAMPLES / "make_bilingual_data.py"), str(made.data)], check=True, capture_output=True
    )
    return made


@pytest.fixture(scope="session")
def full_run(workshop: Workshop) -> Run:
    return workshop.whole("full")


@pytest.fixture(scope="session")
def lora_run(workshop: Workshop) -> Run:
    """In a run directory of its own, outside the task's folder, with a blank in its path."""
    elsewhere = workshop.root / "a place of its own"
    return workshop.whole("lora", "--trainer-output-dir", elsewhere, template="cpu_smoke_lora")


@pytest.fixture(scope="session")
def ranks_run(workshop: Workshop) -> Run:
    """Two gloo ranks through torchrun."""
    return workshop.whole("ranks", "--option", "nproc_per_node=2")


@pytest.fixture(scope="module")
def cluster(verl_env: str) -> Iterator[RayCluster]:
    """Two nodes on loopback, for one file's tests."""
    made = RayCluster(f"{verl_env}/bin/ray")
    try:
        yield made.up()
    finally:
        made.down()
