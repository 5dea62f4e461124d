"""Real GRPO on a CPU, from records to an exported model and on to a second round; few launches, each made once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet
import pytest
import yaml
from fakes.cli import Called, start, trainer

pytestmark = pytest.mark.real

EXAMPLES = Path(__file__).parents[2] / "examples"
GONE_S = 30.0
"""What a run's processes have to leave. Source: issue C, "Must show"."""
STARTED_S = 600.0
REWARD = ("--reward-mode", "custom", "--reward-function", EXAMPLES / "digit_reward.py")
VALIDATION = "actor_rollout_ref.rollout.val_kwargs"
METRIC = "val-core/generated/acc/mean@1"
LOAD = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
prompt = tokenizer.apply_chat_template([{"role": "user", "content": "1 + 1?"}], add_generation_prompt=True, tokenize=True, return_dict=False)
out = model.generate(torch.tensor([prompt]), max_new_tokens=4, do_sample=False)
base = AutoModelForCausalLM.from_pretrained(sys.argv[2], dtype=model.dtype)
moved = any(not torch.equal(a, b) for a, b in zip(model.parameters(), base.parameters(), strict=True))
print(json.dumps({"new": out.shape[1] - len(prompt), "tokens": len(tokenizer), "dtype": str(model.dtype), "moved": moved}))
"""


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


class Workshop:
    """Tiny model, sums, an output folder, and the user folders of a test user."""

    def __init__(self, root: Path, verl_env: str) -> None:
        self.verl_env = verl_env
        self.model = root / "model"
        self.data = root / "sums.jsonl"
        self.output = root / "out"
        self.environ = {f"LOOPAI_TRAINER_{kind}_DIR": str(root / kind.lower()) for kind in ("STATE", "CACHE", "CONFIG")}

    def prepare(self, version: str, *more: Any, task: str = "sums") -> Called:
        words = ["prepare", "--framework", "verl", "--stage", "grpo", "--dataset", self.data, "--env", self.verl_env]
        words += ["--task-description", "Add two numbers", "--output-dir", self.output, "--task-id", task]
        prepared = trainer(*words, "--version-id", version, *more, **self.environ)
        assert prepared.code == 0, prepared.out + prepared.err
        return prepared

    def first(self, version: str, task: str = "sums") -> Called:
        words = ["--model", self.model, "--template", "verl_grpo_cpu_smoke", "--config-mode", "template"]
        words += REWARD
        # Sampled replies to a dozen prompts: else all steps of a model this small score the same.
        words += [
            "--validation-ratio",
            "0.2",
            "--set",
            f"{VALIDATION}.do_sample=true",
            "--set",
            f"{VALIDATION}.temperature=1.0",
        ]
        return self.prepare(version, *words, task=task)

    def run(self, prepared: Called) -> Round:
        data = prepared.data
        words = ["run-prepared", data["config_path"], "--sha256", data["config_sha256"]]
        return Round(prepared, trainer(*words, timeout_s=900, **self.environ))


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, verl_env: str) -> Workshop:
    made = Workshop(tmp_path_factory.mktemp("verl"), verl_env)
    make_model = [f"{verl_env}/bin/python", str(EXAMPLES / "make_tiny_model.py"), str(made.model)]
    subprocess.run(make_model, check=True, capture_output=True)
    subprocess.run([sys.executable, str(EXAMPLES / "make_grpo_data.py"), str(made.data)], check=True)
    return made


@pytest.fixture(scope="module")
def first(workshop: Workshop) -> Round:
    return workshop.run(workshop.first("first"))


@pytest.fixture(scope="module")
def second(workshop: Workshop, first: Round) -> Round:
    """The round that follows: of the first one the reward alone is named again, and there are two ranks now."""
    assert first.ended.code == 0, first.ended.out
    return workshop.run(workshop.prepare("second", *REWARD, "--option", "nproc_per_node=2"))


@pytest.fixture(scope="module")
def resumed(workshop: Workshop, first: Round) -> Round:
    """The first round with one step more, from its newest checkpoint."""
    assert first.ended.code == 0, first.ended.out
    words = ["prepare", "--resume", first.folder, "--version-id", "resumed", "--output-dir", workshop.output]
    prepared = trainer(*words, "--set", "trainer.total_training_steps=3", **workshop.environ)
    assert prepared.code == 0, prepared.out + prepared.err
    return workshop.run(prepared)


def loaded(verl_env: str, model: str, base: "str | Path") -> dict[str, Any]:
    """What transformers, in verl's own environment, makes of a model folder, compared with the one it comes from."""
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    argv = [f"{verl_env}/bin/python", "-c", LOAD, model, str(base)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=env)
    return json.loads(done.stdout.splitlines()[-1])


class TestFirstRound:
    def test_it_completes(self, first):
        assert first.ended.code == 0, first.ended.out
        data = first.ended.data
        assert (data["status"], data["current_step"], data["total_steps"]) == ("completed", 2, 2)

    def test_training_read_what_was_approved(self, first):
        plan = first.plan
        state = json.loads((first.folder / "run_state.json").read_text())
        for split, kind in (("train", "train_examples"), ("validation", "validation_examples")):
            told = plan["loopai"]["inputs"][split]
            assert state[kind] == told["rows"] == pyarrow.parquet.read_metadata(told["path"]).num_rows
        resolved = yaml.safe_load((first.folder / "launch" / "resolved.yaml").read_text())
        assert resolved["data"]["train_files"] == plan["loopai"]["inputs"]["train"]["path"]
        request = json.loads((first.folder / "launch" / "request.json").read_text())
        assert request["env"]["PYTHONPATH"] == str(first.folder / "inputs")
        assert "RAY_ADDRESS" not in request["env"]

    def test_every_step_is_measured_and_validated(self, first):
        assert [row["step"] for row in first.rows("train")] == [1, 2]
        assert [row["step"] for row in first.rows("val")] == [0, 1, 2]
        assert all(METRIC in row["values"] for row in first.rows("val"))
        assert all(row["values"]["actor/grad_norm"] > 0 for row in first.rows("train"))

    def test_the_best_step_is_chosen(self, first):
        values = {row["step"]: row["values"][METRIC] for row in first.rows("val") if row["step"] > 0}
        best = first.ended.data["best_checkpoint"]
        wanted = max(values, key=lambda step: (values[step], -step))
        assert (best["step"], best["exact"]) == (wanted, True)
        assert first.ended.data["best_metric"]["value"] == values[wanted] > 0
        assert [(one["step"], one["complete"]) for one in first.ended.data["checkpoints"]] == [(1, True), (2, True)]

    def test_its_model_is_exported_and_loads(self, first, workshop, verl_env):
        path = first.ended.data["update_model_path"]
        assert Path(path) == first.folder / "exports" / first.ended.data["best_checkpoint"]["name"]
        found = loaded(verl_env, path, workshop.model)
        assert found["new"] > 0 and found["tokens"] == 259
        assert found["dtype"] == "torch.bfloat16" and found["moved"]

    def test_export_again_takes_what_is_there(self, first, workshop):
        again = trainer("export", first.folder, **workshop.environ)
        assert again.code == 0, again.out
        assert again.data["path"] == first.ended.data["update_model_path"] and again.data["verified"]

    def test_nothing_of_it_is_left(self, first):
        state = json.loads((first.folder / "run_state.json").read_text())
        assert members(state["training"]["pid"]) == []
        assert not (first.folder / "launch" / "cache").exists()
        assert not os.path.exists(state["tmp_dir"])
        assert (first.folder / "rollouts" / "2.jsonl").is_file()


class TestSecondRound:
    def test_it_inherits_the_first_ones_settings_and_model(self, first, second):
        before, after = first.plan, second.plan
        assert after["actor_rollout_ref"]["model"]["path"] == first.ended.data["update_model_path"]
        assert after["loopai"]["reward"] == before["loopai"]["reward"]
        for group in ("actor", "rollout"):
            assert after["actor_rollout_ref"][group] == before["actor_rollout_ref"][group]
        assert after["data"]["train_batch_size"] == before["data"]["train_batch_size"]
        assert after["trainer"]["default_local_dir"] == str(second.folder / "checkpoints")

    def test_the_validation_data_stay_the_same(self, first, second):
        files = [one.plan["loopai"]["inputs"]["validation"] for one in (first, second)]
        assert files[0]["sha256"] == files[1]["sha256"]

    def test_its_difference_to_the_first_is_shown(self, second):
        changed = {entry["key"] for entry in second.prepared.data["diff"]["changed"]}
        assert "actor_rollout_ref.model.path" in changed and "trainer.n_gpus_per_node" in changed

    def test_two_ranks_train_and_save_together(self, second):
        assert second.ended.code == 0, second.ended.out
        assert second.ended.data["status"] == "completed"
        actor = Path(second.ended.data["best_checkpoint"]["path"]) / "actor"
        assert sorted(path.name for path in actor.glob("model_*.pt")) == [
            f"model_world_size_2_rank_{rank}.pt" for rank in range(2)
        ]

    def test_its_model_loads(self, first, second, verl_env):
        found = loaded(verl_env, second.ended.data["update_model_path"], first.ended.data["update_model_path"])
        assert found["new"] > 0 and found["moved"]


class TestResumedRound:
    def test_it_begins_with_the_pinned_checkpoint_and_everything_else_as_it_was(self, first, resumed):
        before, after = first.plan, resumed.plan
        held = resumed.folder / "inputs" / "global_step_2"
        assert after["trainer"]["resume_from_path"] == after["loopai"]["resume"]["path"] == str(held)
        assert after["trainer"]["resume_mode"] == "resume_path"
        pinned = {entry["path"] for entry in after["loopai"]["inputs"]["files"]}
        assert {str(path) for path in held.rglob("*") if path.is_file()} <= pinned
        for split in ("train", "validation"):
            assert after["loopai"]["inputs"][split]["sha256"] == before["loopai"]["inputs"][split]["sha256"]
        assert after["actor_rollout_ref"] == before["actor_rollout_ref"]

    def test_the_step_goes_on(self, resumed):
        assert resumed.ended.code == 0, resumed.ended.out
        data = resumed.ended.data
        assert (data["status"], data["current_step"], data["total_steps"]) == ("completed", 3, 3)
        assert [row["step"] for row in resumed.rows("train")] == [3]
        assert [row["step"] for row in resumed.rows("val")] == [2, 3]  # verl scores what it goes on from once more
        assert [one["step"] for one in data["checkpoints"]] == [3]
        assert (data["best_checkpoint"]["step"], data["best_checkpoint"]["exact"]) == (3, True)

    def test_both_rounds_are_one_curve(self, resumed, workshop):
        analysis = trainer("analyze", resumed.folder, **workshop.environ)
        assert [row["step"] for row in analysis.data["metrics"] if row["kind"] == "train"] == [1, 2, 3]

    def test_without_a_step_left_it_is_refused(self, first, resumed, workshop):
        words = ["prepare", "--resume", first.folder, "--version-id", "again", "--output-dir", workshop.output]
        refused = trainer(*words, **workshop.environ)
        assert refused.code != 0
        assert "RESUME_FINISHED" in refused.out


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


def until(condition, limit_s):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


class Started:
    """A run whose Ray workers live; what is left of it when the test ends is cancelled."""

    def __init__(self, workshop: Workshop, version: str) -> None:
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
