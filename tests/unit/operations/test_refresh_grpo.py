"""inspect --refresh of a GRPO plan: other data, another reward, a copy that was edited; verl itself is asked nothing."""

import json
import os
from pathlib import Path

import pytest
import yaml
from fakes.verl_runs import save_base_model
from fakes.verl_trees import make_verl, versions_of

from loopai_trainer.backends.verl_grpo import VerlGrpo
from loopai_trainer.errors import InputChanged
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations.inspect import inspect
from loopai_trainer.operations.prepare import prepare
from loopai_trainer.operations.sources import Request

REWARD = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n"
MODEL = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096}


class Prepared:
    """A GRPO plan with a reward of its own."""

    def __init__(self, root, place):
        self.environ = place.environ
        self.reward = root / "my_reward.py"
        self.reward.write_text(REWARD)
        self.data = root / "sums.jsonl"
        self.write_rows(32)
        settings = {
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
            "trainer_version_id": "v1",
        }
        self.run = RunDir(prepare(Request(settings, self.environ)).data["run_dir"])
        self.copy = Path(self.run.inputs) / "reward_function.py"

    def write_rows(self, count):
        rows = [{"problem": f"{n} + {n}?", "answer": str(2 * n)} for n in range(count)]
        self.data.write_text("".join(json.dumps(row) + "\n" for row in rows))

    @property
    def inputs(self):
        return yaml.safe_load(Path(self.run.config).read_text())["loopai"]["inputs"]

    def refresh(self):
        """Keys of the YAML that the refresh rewrote; the plan has to be good afterwards."""
        answer = inspect(self.run.config, self.environ, refresh_inputs=True)
        inspect(self.run.config, self.environ)
        return {change["key"] for change in answer.data["refreshed"]["changed"]}


@pytest.fixture
def plan(tmp_path, place, monkeypatch):
    package = make_verl(tmp_path / "verl")
    monkeypatch.setattr(VerlGrpo, "probe", lambda self, environment: versions_of(package))
    monkeypatch.setattr(VerlGrpo, "resolve", lambda self, native, environment, paths: None)
    monkeypatch.setattr(VerlGrpo, "rehearse", lambda self, plan, versions, paths: None)
    return Prepared(tmp_path, place)


def test_nothing_changed_and_edits_of_native_keys_stay(plan):
    assert plan.refresh() == set()
    path = Path(plan.run.config)
    path.write_text(path.read_text().replace("total_training_steps: 2", "total_training_steps: 3"))
    assert plan.refresh() == set()
    assert "total_training_steps: 3" in path.read_text()


def test_more_data_are_snapshotted_again(plan):
    before = plan.inputs
    plan.write_rows(64)
    assert {"loopai.inputs.train.rows", "loopai.inputs.train.sha256"} <= plan.refresh()
    now = plan.inputs
    rows = [now[split]["rows"] for split in ("train", "validation")]
    assert sum(rows) == 64
    assert now["train"]["path"] == before["train"]["path"]  # verl's snapshots keep their names
    assert now["files"] == before["files"]


def test_a_reward_that_was_rewritten_is_copied_anew(plan):
    before = plan.inputs["files"]
    plan.reward.write_text(REWARD.replace("1.0", "0.5"))
    inspect(plan.run.config, plan.environ)  # the copy is what runs
    assert {key.rpartition(".")[2] for key in plan.refresh()} == {"sha256"}
    assert plan.inputs["files"] != before
    assert plan.copy.read_text() == plan.reward.read_text()


@pytest.mark.parametrize("gone", [False, True])
def test_a_copy_that_was_edited_or_removed_is_as_approved_again(plan, gone):
    good, before = plan.copy.read_bytes(), Path(plan.run.config).read_bytes()
    plan.copy.unlink()
    if not gone:
        plan.copy.write_bytes(good + b"# more\n")
    with pytest.raises(InputChanged):
        inspect(plan.run.config, plan.environ)
    assert plan.refresh() == set()
    assert plan.copy.read_bytes() == good
    assert os.stat(plan.copy).st_mode & 0o777 == 0o444
    assert Path(plan.run.config).read_bytes() == before


def test_an_edited_copy_is_not_tried_before_it_is_refused(plan, monkeypatch):
    """The rehearsal imports the reward: code that no hash covers is refused first."""
    asked = []
    monkeypatch.setattr(VerlGrpo, "rehearse", lambda self, plan, versions, paths: asked.append(plan.sha256))
    inspect(plan.run.config, plan.environ)
    assert len(asked) == 1
    plan.copy.chmod(0o600)
    plan.copy.write_text("raise SystemExit\n")
    with pytest.raises(InputChanged):
        inspect(plan.run.config, plan.environ)
    assert len(asked) == 1


def test_a_copy_that_became_a_link_is_a_file_again(plan):
    good = plan.copy.read_bytes()
    plan.copy.unlink()
    plan.copy.symlink_to(plan.reward)
    plan.refresh()
    assert not plan.copy.is_symlink()
    assert plan.copy.read_bytes() == good
