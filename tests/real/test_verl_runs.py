"""Real GRPO on a CPU, from records to an exported model and on to a second round; few launches, each made once."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import yaml
from fakes.cli import trainer
from fakes.grpo_runs import REWARD, GrpoWorkshop, Round, members

pytestmark = pytest.mark.real

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


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, verl_env: str) -> GrpoWorkshop:
    return GrpoWorkshop(tmp_path_factory.mktemp("verl"), verl_env)


@pytest.fixture(scope="module")
def first(workshop: GrpoWorkshop) -> Round:
    return workshop.run(workshop.first("first"))


@pytest.fixture(scope="module")
def second(workshop: GrpoWorkshop, first: Round) -> Round:
    """The round that follows: of the first one the reward alone is named again, and there are two ranks now."""
    assert first.ended.code == 0, first.ended.out
    return workshop.run(workshop.prepare("second", *REWARD, "--option", "nproc_per_node=2"))


@pytest.fixture(scope="module")
def resumed(workshop: GrpoWorkshop, first: Round) -> Round:
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
