"""backends.verl_grpo.checkpoints: which of verl's checkpoints are whole."""

import json
import shutil
from pathlib import Path

import pytest
from fakes.verl_runs import save_checkpoint

from loopai_trainer.backends.verl_grpo.checkpoints import final_artefact, find_checkpoints, resumable

CASES = Path(__file__).parents[3] / "cases" / "results"
SHARD = b"a shard"


@pytest.fixture
def folder(tmp_path):
    actor = tmp_path / "global_step_4" / "actor"
    actor.mkdir(parents=True)
    (actor / "fsdp_config.json").write_text('{"FSDP_version": 2, "world_size": 2}')
    for rank in (0, 1):
        (actor / f"model_world_size_2_rank_{rank}.pt").write_bytes(SHARD)
    return tmp_path


def only(folder):
    (checkpoint,) = find_checkpoints(str(folder))
    return checkpoint


def test_all_shards_make_it_complete(folder):
    assert only(folder).complete


def test_one_rank_without_a_config(folder):
    actor = folder / "global_step_4" / "actor"
    shutil.rmtree(actor)
    actor.mkdir()
    (actor / "model_world_size_1_rank_0.pt").write_bytes(SHARD)
    assert only(folder).complete


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda actor: (actor / "model_world_size_2_rank_1.pt").unlink(), "1 of 2 model shards"),
        (
            lambda actor: (actor / "model_world_size_2_rank_1.pt").write_bytes(b""),
            "model_world_size_2_rank_1.pt is empty",
        ),
        (lambda actor: (actor / "model_world_size_4_rank_0.pt").write_bytes(SHARD), "different world sizes: 2, 4"),
        (shutil.rmtree, "no actor folder"),
        (lambda actor: [path.unlink() for path in actor.iterdir()], "no model shards and no model"),
        (lambda actor: [path.unlink() for path in actor.glob("*.pt")], "0 of 2 model shards"),
    ],
)
def test_damage_is_told(folder, damage, why):
    damage(folder / "global_step_4" / "actor")
    checkpoint = only(folder)
    assert not checkpoint.complete
    assert why in checkpoint.why


@pytest.fixture
def merged(tmp_path):
    shutil.copytree(CASES / "SUP-07A" / "checkpoints" / "global_step_10", tmp_path / "global_step_10")
    return tmp_path


def model(folder):
    return folder / "global_step_10" / "actor" / "huggingface"


def test_a_hugging_face_model_needs_no_shards(merged):
    assert only(merged).complete


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: (path / "config.json").unlink(),
        lambda path: (path / "model.safetensors").write_bytes(b""),
        lambda path: (path / "model.safetensors").write_bytes((path / "model.safetensors").read_bytes()[:-1]),
        lambda path: (path / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {"w": "model-00001-of-00002.safetensors"}})
        ),
    ],
)
def test_a_damaged_model_is_not_complete(merged, damage):
    damage(model(merged))
    assert not only(merged).complete


@pytest.mark.parametrize("index", ["{", "{}", '{"weight_map": {"w": "model.safetensors"}}'])
def test_an_index_that_names_what_is_there_or_nothing(merged, index):
    (model(merged) / "model.safetensors.index.json").write_text(index)
    assert only(merged).complete


@pytest.mark.parametrize("config", ["{", "[]", '{"world_size": "2"}', '{"world_size": 0}'])
def test_without_a_world_size_the_names_of_the_shards_tell_it(folder, config):
    (folder / "global_step_4" / "actor" / "fsdp_config.json").write_text(config)
    assert only(folder).complete


def test_other_names_are_no_checkpoints(tmp_path):
    for name in ("global_step_", "global_step_x", "checkpoint-5"):
        (tmp_path / name).mkdir()
    assert find_checkpoints(str(tmp_path)) == []
    assert find_checkpoints(str(tmp_path / "none")) == []


class TestSavedByVerl:
    """Checkpoints as verl 0.9.1 saves them."""

    @pytest.fixture
    def saved(self, tmp_path):
        for step in (2, 4):
            save_checkpoint(tmp_path, step, world_size=2)
        return tmp_path

    @pytest.mark.parametrize(
        ("damage", "why"),
        [
            (lambda actor: (actor / "fsdp_config.json").unlink(), "fsdp_config.json is missing"),
            (lambda actor: (actor / "huggingface" / "config.json").write_text("{"), "config.json is missing"),
            (lambda actor: (actor / "huggingface" / "tokenizer.json").unlink(), "a tokenizer is missing"),
            (lambda actor: shutil.rmtree(actor / "huggingface"), "a tokenizer, config.json are missing"),
            (lambda actor: (actor / "model_world_size_2_rank_0.pt").unlink(), "1 of 2 model shards"),
        ],
    )
    def test_what_its_neighbours_have_is_asked_of_the_newest(self, saved, damage, why):
        damage(saved / "global_step_4" / "actor")
        earlier, newest = find_checkpoints(str(saved))
        assert earlier.complete
        assert not newest.complete and why in newest.why
        assert final_artefact(str(saved)).path == earlier.path

    def test_the_newest_is_the_artefact(self, saved):
        found = final_artefact(str(saved))
        assert (found.path, found.loadable, found.finite) == (str(saved / "global_step_4"), True, True)

    def test_the_tracker_is_not_believed(self, saved):
        (saved / "latest_checkpointed_iteration.txt").write_text("6")
        assert [checkpoint.step for checkpoint in find_checkpoints(str(saved))] == [2, 4]

    def test_shards_alone_are_no_artefact(self, folder):
        assert only(folder).complete  # as an older verl, which wrote nothing beside them, leaves it
        found = final_artefact(str(folder))
        assert not found.loadable and "config.json" in found.why

    def test_nothing_is_no_artefact(self, tmp_path):
        assert final_artefact(str(tmp_path)).why == "there is no checkpoint"

    @pytest.mark.parametrize(
        ("gone", "why"),
        [
            ("actor/optim_world_size_2_rank_1.pt", "1 of 2 optim shards"),
            ("actor/extra_state_world_size_2_rank_0.pt", "1 of 2 extra_state shards"),
            ("data.pt", "data.pt is missing"),
            ("none", ""),
        ],
    )
    def test_resuming_needs_more_than_an_export(self, saved, gone, why):
        (saved / "global_step_4" / gone).unlink(missing_ok=True)
        newest = find_checkpoints(str(saved))[-1]
        assert newest.complete
        assert why in resumable(newest) and bool(resumable(newest)) == bool(why)
