import json
import struct

import pytest
from fakes.safetensors_files import write_safetensors

from loopai_trainer.backends.llamafactory_sft.checkpoints import final_artefact, find_checkpoints

TENSORS = {"a": ("F32", (4,)), "b": ("BF16", (2, 2))}


def make(folder, *, adapter=False, data=None):
    folder.mkdir(parents=True, exist_ok=True)
    prefix, config = ("adapter_model", "adapter_config.json") if adapter else ("model", "config.json")
    write_safetensors(folder / f"{prefix}.safetensors", TENSORS, data)
    (folder / config).write_text("{}")
    (folder / "trainer_state.json").write_text('{"global_step": 4}')
    return folder


def only(folder):
    (checkpoint,) = find_checkpoints(str(folder))
    return checkpoint


@pytest.mark.parametrize("adapter", [False, True])
def test_whole_checkpoints_come_by_step(tmp_path, adapter):
    for step in (12, 4, 100):
        make(tmp_path / f"checkpoint-{step}", adapter=adapter)
    (tmp_path / "checkpoint-x").mkdir()
    (tmp_path / "runs").mkdir()
    found = find_checkpoints(str(tmp_path))
    assert [(c.name, c.step, c.complete, c.why) for c in found] == [
        ("checkpoint-4", 4, True, ""), ("checkpoint-12", 12, True, ""), ("checkpoint-100", 100, True, ""),
    ]  # fmt: skip


def test_a_copy_without_any_training_state_still_holds_models(tmp_path):
    (make(tmp_path / "checkpoint-4") / "trainer_state.json").unlink()
    assert only(tmp_path).complete
    make(tmp_path / "checkpoint-8")
    assert [c.complete for c in find_checkpoints(str(tmp_path))] == [False, True]


def test_no_folder_has_no_checkpoints(tmp_path):
    assert find_checkpoints(str(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda f: (f / "trainer_state.json").unlink(), "trainer_state.json is missing or torn"),
        (lambda f: (f / "trainer_state.json").write_text('{"global_'), "trainer_state.json is missing or torn"),
        (lambda f: (f / "config.json").unlink(), "config.json is missing or torn"),
        (lambda f: (f / "model.safetensors").unlink(), "no weights"),
        (lambda f: write_safetensors(f / "model.safetensors", TENSORS, cut_bytes=1), "bytes, its header wants"),
        (lambda f: (f / "model.safetensors").write_bytes(b""), "no safetensors header"),
        (
            lambda f: (f / "model.safetensors.index.json").write_text('{"weight_map": {"c": "model-2.safetensors"}}'),
            "is missing",
        ),
        (lambda f: (f / "model.safetensors.index.json").write_text("{"), "model.safetensors.index.json"),
    ],
)
def test_a_checkpoint_that_died_while_it_was_saved_is_not_complete(tmp_path, damage, why):
    (tmp_path / "trainer_state.json").write_text("{}")
    damage(make(tmp_path / "checkpoint-4"))
    assert not only(tmp_path).complete
    assert why in only(tmp_path).why


def test_all_shards_of_an_index_have_to_be_whole(tmp_path):
    folder = make(tmp_path / "checkpoint-4")
    (folder / "model.safetensors").unlink()
    write_safetensors(folder / "m-1.safetensors", TENSORS)
    write_safetensors(folder / "m-2.safetensors", TENSORS)
    (folder / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}'
    )
    assert only(tmp_path).complete
    write_safetensors(folder / "m-2.safetensors", TENSORS, cut_bytes=3)
    assert only(tmp_path).why.startswith("m-2.safetensors: ")


def test_zero3_without_gathered_weights_says_what_to_set(tmp_path):
    folder = make(tmp_path / "checkpoint-4")
    (folder / "model.safetensors").unlink()
    (folder / "global_step4").mkdir()
    assert "stage3_gather_16bit_weights_on_model_save" in only(tmp_path).why


def make_final(folder, **options):
    make(folder, **options)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "all_results.json").write_text(json.dumps({"train_loss": 1.0}))
    return folder


@pytest.mark.parametrize("adapter", [False, True])
def test_a_finished_run(tmp_path, adapter):
    found = final_artefact(str(make_final(tmp_path, adapter=adapter)))
    assert (found.loadable, found.finite, found.why) == (True, True, "")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("all_results.json", "did not reach its end"),
        ("tokenizer.json", "no tokenizer"),
        ("model.safetensors", "no weights"),
    ],
)
def test_an_unfinished_run_is_not_loadable(tmp_path, name, why):
    (make_final(tmp_path) / name).unlink()
    found = final_artefact(str(tmp_path))
    assert not found.loadable and why in found.why


def test_a_folder_that_does_not_exist_is_not_loadable(tmp_path):
    assert not final_artefact(str(tmp_path / "none")).loadable


def test_results_with_a_bare_nan_count_as_an_end(tmp_path):
    (make_final(tmp_path) / "all_results.json").write_text('{"eval_loss": NaN}')
    assert final_artefact(str(tmp_path)).loadable


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite(tmp_path, value):
    make_final(tmp_path, data=struct.pack("<4f", 0, 1, value, 2) + b"\x00" * 8)
    found = final_artefact(str(tmp_path))
    assert found.loadable and not found.finite
    assert found.why == "model.safetensors: the tensor a holds NaN or Inf"
