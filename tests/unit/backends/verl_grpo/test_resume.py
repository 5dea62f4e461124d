"""backends.verl_grpo.resume: from which checkpoint GRPO goes on, and what a plan that does so has to keep to."""

import dataclasses
import json
import os
import shutil

import pytest
from fakes.grpo_plans import HOST, make_plan
from fakes.verl_runs import save_checkpoint, verl_plan
from fakes.verl_trees import make_verl, versions_of

from loopai_trainer import backends
from loopai_trainer.backends.verl_grpo.check import check
from loopai_trainer.backends.verl_grpo.checkpoints import find_checkpoints
from loopai_trainer.contract import Resumes
from loopai_trainer.rules import dotted
from loopai_trainer.rules import plan as plans

BACKEND = backends.get("verl", "grpo")
RANKS = 2


def problems(folder, before=None):
    assert isinstance(BACKEND, Resumes)
    return [problem.message for problem in BACKEND.resume_problems(find_checkpoints(folder)[-1], before or verl_plan())]


@pytest.fixture
def saved(tmp_path):
    return save_checkpoint(tmp_path / "checkpoints", 2, world_size=RANKS)


def test_a_whole_checkpoint_is_gone_on_from(saved):
    assert problems(saved.parent) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("data.pt", "data.pt is missing"),
        ("actor/optim_world_size_2_rank_1.pt", "1 of 2 optim shards"),
        ("actor/extra_state_world_size_2_rank_0.pt", "1 of 2 extra_state shards"),
        ("actor/model_world_size_2_rank_0.pt", "1 of 2 model shards"),
        ("actor/fsdp_config.json", "fsdp_config.json is missing"),
    ],
)
def test_what_is_missing_is_said(saved, name, why):
    (saved / name).unlink()
    (message,) = problems(saved.parent)
    assert message.startswith("global_step_2: ") and why in message


@pytest.mark.parametrize("name", ["data.pt", "actor/optim_world_size_2_rank_1.pt"])
def test_a_torn_file_is_no_file(saved, name):
    (saved / name).write_bytes(b"PK\x03\x04 cut off")
    assert problems(saved.parent) == [f"global_step_2: {name} is torn"]


def test_a_pruned_checkpoint_is_none(saved):
    shutil.rmtree(saved / "actor")
    assert "no actor folder" in problems(saved.parent)[0]


def test_shards_of_another_world_are_not_this_trainings(saved):
    before = verl_plan(native={"trainer": {"n_gpus_per_node": 4, "nnodes": 1}})
    assert problems(saved.parent, before) == ["global_step_2: it was saved by 2 ranks, and 4 trained"]


class Resumed:
    """A plan that goes on from the checkpoint of step 2 in its `inputs/`."""

    def __init__(self, tmp_path):
        self.run = tmp_path / "run"
        self.held = save_checkpoint(self.run / "inputs", 2, world_size=RANKS)
        self.package = make_verl(tmp_path / "verl")
        self.block = {"version_id": "v0", "config_sha256": "0" * 64, "step": 2, "path": str(self.held)}

    def codes(self, native=None, *, block=..., pin=True):
        plan = make_plan(self.run, native={**BACKEND.resume_keys(str(self.held)), **(native or {})})
        entries = [
            {"path": os.path.join(root, name), "sha256": "0" * 64}
            for root, _, names in os.walk(self.held)
            for name in names
        ]
        loopai = {**plan.loopai, "resume": self.block if block is ... else block}
        loopai["inputs"] = {
            **loopai["inputs"],
            "files": [*loopai["inputs"]["files"], *(entries if pin else entries[1:])],
        }
        found = check(plans.render(loopai, plan.result, plan.native), versions_of(self.package), HOST)
        return [problem.code for problem in found if problem.severity == "error"]


@pytest.fixture
def resumed(tmp_path):
    return Resumed(tmp_path)


def test_a_pinned_checkpoint_may_be_continued(resumed):
    assert resumed.codes() == []


@pytest.mark.parametrize("block", [None, {}, {"step": 2}, {"step": 2, "path": "/elsewhere/global_step_2"}, "x"])
def test_a_checkpoint_that_nobody_checked_is_refused(resumed, block):
    assert "UNCOVERED_INPUT" in resumed.codes(block=block)


def test_a_path_elsewhere_is_refused(resumed):
    assert resumed.codes({"trainer.resume_from_path": "/elsewhere/global_step_2"}) == ["UNCOVERED_INPUT"]
    assert resumed.codes({"trainer.resume_from_path": None}) == ["UNCOVERED_INPUT"]


@pytest.mark.parametrize("mode", ["auto", "disable"])
def test_another_mode_would_not_continue_it(resumed, mode):
    assert resumed.codes({"trainer.resume_mode": mode}) == ["RESUME_MODE"]


def test_every_file_has_to_be_pinned(resumed):
    assert resumed.codes(pin=False) == ["UNCOVERED_INPUT"]
    shutil.rmtree(resumed.held)
    assert resumed.codes() == ["UNCOVERED_INPUT"]


def test_another_world_size_is_refused(resumed):
    (resumed.held / "actor" / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": 4}))
    assert resumed.codes() == ["RESUME_WORLD_SIZE"]


def test_shards_of_another_strategy_are_refused(resumed):
    strategy = {"actor_rollout_ref.actor.strategy": "fsdp", "actor_rollout_ref.actor.fsdp_config.strategy": "fsdp"}
    assert "RESUME_STRATEGY" in resumed.codes(strategy)


def test_a_training_without_a_step_left_is_refused_until_more_is_asked_for(resumed):
    assert resumed.codes({"trainer.total_training_steps": 2}) == ["RESUME_FINISHED"]
    assert resumed.codes({"trainer.total_training_steps": 3}) == []


def test_the_keys_are_what_verl_reads():
    keys = BACKEND.resume_keys("/run/inputs/global_step_2")
    assert keys == {"trainer.resume_mode": "resume_path", "trainer.resume_from_path": "/run/inputs/global_step_2"}


def test_it_is_the_first_thing_that_an_approver_sees():
    native = {"trainer": {"n_gpus_per_node": 2}}
    dotted.put(native, "trainer.resume_from_path", "/run/inputs/global_step_2")
    flags = BACKEND.red_flags(dataclasses.replace(verl_plan(native=native)))
    assert "trainer.resume_from_path" in [flag.field for flag in flags]
