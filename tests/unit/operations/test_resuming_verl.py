"""prepare --resume for GRPO: the same way as for SFT, with verl's own keys; verl itself is asked nothing here."""

import json
import os
import shutil
from pathlib import Path

import pytest
from fakes.verl_runs import save_base_model, save_checkpoint
from fakes.verl_trees import make_verl, versions_of

from loopai_trainer.backends.verl_grpo import VerlGrpo
from loopai_trainer.errors import ConfigError
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations.inspect import inspect
from loopai_trainer.operations.prepare import prepare
from loopai_trainer.operations.sources import Request
from loopai_trainer.results.metric_files import normalised_rows
from loopai_trainer.rules import plan as plans

REWARD = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n"


class Stopped:
    """A GRPO round that was approved, trained and saved two steps of more, and failed."""

    def __init__(self, root, place):
        self.root, self.environ = root, place.environ
        self.reward = root / "my_reward.py"
        self.reward.write_text(REWARD)
        self.data = root / "sums.jsonl"
        rows = [{"problem": f"{n} + {n}?", "answer": str(2 * n)} for n in range(32)]
        self.data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.settings = {
            "train_framework": "verl",
            "train_stage": "grpo",
            "train_input_dataset_path": str(self.data),
            "train_input_model_name": str(save_base_model(root / "base", **MODEL)),
            "train_input_task_description": "add",
            "train_input_config_template_path": "verl_grpo_cpu_smoke",
            "config_mode": "template",
            "verl_env_path": str(place.env),
            "verl_reward_mode": "custom",
            "verl_reward_function_path": str(self.reward),
            "verl_validation_ratio": 0.25,
            "output_dir": str(root / "outputs"),
        }
        self.prepared = self.prepare("v1")
        self.run = RunDir(self.prepared.data["run_dir"])
        self.stop(self.run, self.prepared)

    def prepare(self, version, *overrides, **settings):
        keyword = {**self.settings, "trainer_version_id": version, **settings}
        return prepare(Request(keyword, self.environ, overrides=overrides))

    def stop(self, run, prepared, steps=(1, 2)):
        os.makedirs(os.path.dirname(run.approved_config))
        shutil.copy(run.config, run.approved_config)
        for folder in (run.metrics, run.launch):
            os.makedirs(folder, exist_ok=True)
        Path(run.launch_started).write_text("{}")
        told = {"status": "failed", "attempt": 1, "config_sha256": prepared.data["config_sha256"]}
        version = run.version_id
        atomic.write_json(run.run_state, {**told, "version_id": version})
        atomic.write_json(run.result, {**told, "trainer_version_id": version, "checkpoints": [], "result": told})
        rows = [{"step": n, "attempt": 1, "kind": "train", "values": {"actor/loss": 0.1}} for n in (1, 2, 3)]
        Path(run.metric_rows).write_text("".join(json.dumps(row) + "\n" for row in rows))
        for step in steps:
            save_checkpoint(Path(run.checkpoints), step)

    def resume(self, *overrides, version="v1", new="v2", **settings):
        keyword = {"trainer_version_id": new, "output_dir": str(self.root / "outputs"), **settings}
        return prepare(
            Request(keyword, self.environ, overrides=("trainer.total_training_steps=4", *overrides), resume=version)
        )


MODEL = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096}


@pytest.fixture
def stopped(tmp_path, place, monkeypatch):
    package = make_verl(tmp_path / "verl")
    monkeypatch.setattr(VerlGrpo, "probe", lambda self, environment: versions_of(package))
    monkeypatch.setattr(VerlGrpo, "resolve", lambda self, native, environment, paths: None)
    monkeypatch.setattr(VerlGrpo, "rehearse", lambda self, plan, versions, paths: None)
    return Stopped(tmp_path, place)


def read(answer):
    return plans.read(answer.data["config_yaml"].encode(), "x")


def test_a_new_round_goes_on_from_the_newest_checkpoint(stopped):
    answer = stopped.resume()
    plan, before = read(answer), read(stopped.prepared)
    run = RunDir(answer.data["run_dir"])
    held = run.at("inputs", "global_step_2")
    assert plan.native["trainer"]["resume_mode"] == "resume_path"
    assert plan.native["trainer"]["resume_from_path"] == held
    assert (plan.loopai["resume"]["step"], plan.loopai["resume"]["path"]) == (2, held)
    pinned = {entry.path for entry in plans.inputs(plan)}
    assert {os.path.join(root, name) for root, _, names in os.walk(held) for name in names} <= pinned
    assert plan.native["actor_rollout_ref"] == before.native["actor_rollout_ref"]
    for split in ("train", "validation"):
        assert plan.loopai["inputs"][split]["sha256"] == before.loopai["inputs"][split]["sha256"]
    assert [row.step for row in normalised_rows(run.earlier_metrics)] == [1, 2]
    assert "trainer.resume_from_path" in [warning["field"] for warning in answer.data["warnings"]]


def test_a_round_that_goes_on_can_be_gone_on_from(stopped):
    second = stopped.resume()
    run = RunDir(second.data["run_dir"])
    stopped.stop(run, second, steps=(3,))
    third = read(stopped.resume(version="v2", new="v3"))
    assert (third.loopai["resume"]["version_id"], third.loopai["resume"]["step"]) == ("v2", 3)
    assert "global_step_2" not in json.dumps(third.native)


def test_a_newest_checkpoint_that_was_not_saved_to_its_end_is_passed_over(stopped):
    os.unlink(os.path.join(stopped.run.checkpoints, "global_step_2", "data.pt"))
    assert read(stopped.resume()).loopai["resume"]["step"] == 1
    shutil.rmtree(os.path.join(stopped.run.checkpoints, "global_step_1"))
    with pytest.raises(ConfigError) as refused:
        stopped.resume(new="v3")
    assert refused.value.code == "RESUME_NO_CHECKPOINT"
    assert "data.pt is missing" in refused.value.message


def test_another_world_size_is_refused(stopped):
    with pytest.raises(ConfigError) as refused:
        stopped.resume(nproc_per_node=2)
    assert "RESUME_WORLD_SIZE" in [problem.code for problem in refused.value.problems]


def test_an_edited_reward_is_refused_unless_it_is_named(stopped):
    stopped.reward.write_text(REWARD.replace("1.0", "0.5"))
    with pytest.raises(ConfigError) as refused:
        stopped.resume()
    assert (refused.value.code, "the reward" in refused.value.message) == ("RESUME_INPUT_CHANGED", True)
    assert stopped.resume(new="v3", verl_reward_function_path=str(stopped.reward)).ok


def test_validation_data_of_a_round_before_stay(stopped):
    """The round that goes on had taken its validation file over; a split made anew would hold out other rows."""
    result = json.loads(Path(stopped.run.result).read_text())
    ended = {"schema_version": 1, "finished_at": "2026-01-01T00:00:00Z", "update_model_path": None}
    atomic.write_json(stopped.run.result, {**result, **ended, "status": "completed"})
    second = stopped.prepare("v2", "trainer.total_training_steps=3", verl_use_previous_best_model=False)
    held = read(second).loopai["inputs"]["validation"]
    assert held["source"]["path"] == read(stopped.prepared).loopai["inputs"]["validation"]["path"]
    stopped.stop(RunDir(second.data["run_dir"]), second)
    third = read(stopped.resume(version="v2", new="v3"))
    assert third.loopai["inputs"]["validation"]["sha256"] == held["sha256"]
    assert third.loopai["inputs"]["train"]["sha256"] == read(second).loopai["inputs"]["train"]["sha256"]


def test_a_refresh_keeps_the_pins(stopped):
    answer = stopped.resume()
    run = RunDir(answer.data["run_dir"])
    lr = "lr: 0.001"
    assert lr in answer.data["config_yaml"]
    Path(run.config).write_text(answer.data["config_yaml"].replace(lr, "lr: 0.002"))
    refreshed = read(inspect(run.config, stopped.environ, refresh_inputs=True))
    assert refreshed.loopai["inputs"]["files"] == read(answer).loopai["inputs"]["files"]
    assert refreshed.native["trainer"]["resume_from_path"] == run.at("inputs", "global_step_2")
