"""Real GRPO on a CPU that is tried by trainer dev, then cancelled, or whose leader is killed: nothing is left behind."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from fakes.cli import Called, start, trainer
from fakes.grpo_runs import GrpoWorkshop, members

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

GONE_S = 30.0
"""What a run's processes have to leave. Source: issue C, "Must show"."""
STARTED_S = 600.0


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, verl_env: str) -> GrpoWorkshop:
    return GrpoWorkshop(tmp_path_factory.mktemp("verl"), verl_env)


def until(condition, limit_s):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


class Started:
    """A run whose Ray workers live; what is left of it when the test ends is cancelled."""

    def __init__(self, workshop: GrpoWorkshop, prepared: Called) -> None:
        self.workshop = workshop
        self.prepared = prepared
        self.folder = Path(self.prepared.data["run_dir"])

    def __enter__(self) -> "Started":
        data = self.prepared.data
        words = ["run-prepared", data["config_path"], "--sha256", data["config_sha256"]]
        self.caller = start(*words, **self.workshop.environ)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self) -> None:
        until(lambda: self._says("actor and ref model engine initialized"), STARTED_S)
        self.leader = json.loads((self.folder / "run_state.json").read_text())["training"]["pid"]
        self.session = os.getsid(self.leader)
        assert len(members(self.session)) > 8  # leader, Ray's own, task runner, workers

    def __exit__(self, *_: object) -> None:
        if self.caller.poll() is None:
            trainer("cancel", self.folder, **self.workshop.environ)
            self.caller.communicate()

    def _says(self, words: str) -> bool:
        log = self.folder / "train.log"
        assert self.caller.poll() is None, self.caller.communicate()
        return log.exists() and words.encode() in log.read_bytes()

    def answer(self) -> Called:
        out, err = self.caller.communicate(timeout=300)
        return Called(subprocess.CompletedProcess([], self.caller.returncode, out, err))


@pytest.fixture(scope="module")
def tried(workshop):
    """(a version, what lay in its folder, its dev run): the version itself is run by a later test."""
    prepared = workshop.first("tried", "--set", "trainer.total_training_steps=4", task="tried")
    before = names(prepared.data["run_dir"])
    called = trainer("dev", prepared.data["config_path"], "--limit", "3600", timeout_s=4000, **workshop.environ)
    return prepared, before, called


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))


def outcomes(called):
    return {check["name"]: check["outcome"] for check in called.data["checks"]}


class TestDev:
    def test_it_passes_with_everything_that_can_be_shown_on_a_cpu(self, tried):
        _, _, called = tried
        assert called.code == 0, called.out + called.err
        wanted = ("configuration", "inputs", "composition", "reward", "prompts", "training", "evaluation", "saving")
        assert outcomes(called) == dict.fromkeys(wanted, "passed")

    def test_verl_made_two_steps_of_a_few_prompts(self, tried):
        folder = Path(tried[2].data["dev_dir"])
        state = json.loads((folder / "run_state.json").read_text())
        assert (state["current_step"], state["total_steps"]) == (2, 2)
        assert (state["train_examples"], state["validation_examples"]) == (16, 12)
        composed = yaml.safe_load((folder / "launch" / "resolved.yaml").read_text())
        assert composed["trainer"]["default_local_dir"] == str(folder / "checkpoints")
        assert composed["trainer"]["val_before_train"] is False

    def test_no_weights_are_left_and_the_version_is_as_it_was(self, tried):
        prepared, before, called = tried
        left = [name for name in names(called.data["dev_dir"]) if name.endswith((".safetensors", ".bin", ".pt"))]
        assert left == []
        assert names(prepared.data["run_dir"]) == before


def test_cancel_ends_all_of_rays_processes(workshop, tried):
    with Started(workshop, tried[0]) as run:
        asked = time.monotonic()
        cancelled = trainer("cancel", run.folder, **workshop.environ)
        assert cancelled.data["status"] == "cancelled", cancelled.out
        until(lambda: not members(run.session), GONE_S - (time.monotonic() - asked))
        assert run.answer().code == 13


def test_a_killed_leader_leaves_nobody_behind(workshop):
    with Started(workshop, workshop.first("killed", task="killed")) as run:
        os.kill(run.leader, signal.SIGKILL)
        until(lambda: not members(run.session), GONE_S)
        ended = run.answer()
        assert (ended.code, ended.error["code"]) == (11, "KILLED_BY_SIGNAL")
