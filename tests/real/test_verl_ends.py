"""Real GRPO on a CPU that is cancelled, or whose leader is killed: nothing of Ray's stays behind."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fakes.cli import Called, start, trainer
from fakes.grpo_runs import GrpoWorkshop, members

pytestmark = pytest.mark.real

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

    def __init__(self, workshop: GrpoWorkshop, version: str) -> None:
        self.workshop = workshop
        self.prepared = workshop.first(version, task=version)
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


def test_cancel_ends_all_of_rays_processes(workshop):
    with Started(workshop, "cancelled") as run:
        asked = time.monotonic()
        cancelled = trainer("cancel", run.folder, **workshop.environ)
        assert cancelled.data["status"] == "cancelled", cancelled.out
        until(lambda: not members(run.session), GONE_S - (time.monotonic() - asked))
        assert run.answer().code == 13


def test_a_killed_leader_leaves_nobody_behind(workshop):
    with Started(workshop, "killed") as run:
        os.kill(run.leader, signal.SIGKILL)
        until(lambda: not members(run.session), GONE_S)
        ended = run.answer()
        assert (ended.code, ended.error["code"]) == (11, "KILLED_BY_SIGNAL")
