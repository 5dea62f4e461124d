"""backends.verl_grpo.export and files.exported_model: what a merge would not notice is refused before or after it."""

import json
import shutil
import struct
from pathlib import Path

import pytest
from fakes.safetensors_files import decoder_tensors, write_safetensors
from fakes.tokenizer_files import write_tokenizer
from fakes.verl_runs import GENERATION, save_base_model, save_checkpoint, verl_plan

from loopai_trainer.backends.verl_grpo import checkpoints
from loopai_trainer.backends.verl_grpo.export import export, export_problems, verify_export
from loopai_trainer.files import exported_model

SUP_10A = Path(__file__).parents[3] / "cases" / "results" / "SUP-10A" / "merged"


@pytest.fixture
def base(tmp_path):
    return save_base_model(tmp_path / "base")


@pytest.fixture
def plan(base):
    return verl_plan(model=str(base))


@pytest.fixture
def saved(tmp_path, base):
    save_checkpoint(tmp_path / "checkpoints", 4, world_size=2, base=base)
    (found,) = checkpoints.find_checkpoints(str(tmp_path / "checkpoints"))
    return found


@pytest.fixture
def actor(saved):
    return Path(saved.path) / "actor"


@pytest.fixture
def merged(tmp_path, base):
    """A good export: the base's files with weights in BF16."""
    folder = tmp_path / "merged"
    shutil.copytree(base, folder)
    write_safetensors(folder / "model.safetensors", decoder_tensors())
    return folder


def codes(problems):
    return [problem.code for problem in problems]


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_the_command(plan, saved):
    command = export(plan, saved, "/run/exports/new")
    assert command.argv == (
        "/env/bin/python", "-m", "verl.model_merger", "merge", "--backend", "fsdp",
        "--local_dir", f"{saved.path}/actor", "--target_dir", "/run/exports/new",
    )  # fmt: skip
    assert command.env["CUDA_VISIBLE_DEVICES"] == "" and command.env["HF_HUB_OFFLINE"] == "1"
    assert not {"PYTHONPATH", "VERL_PLATFORM", "VERL_USE_EXTERNAL_MODULES"} & command.env.keys()


class TestBefore:
    def test_a_whole_checkpoint(self, plan, saved):
        assert export_problems(plan, saved) == []

    @pytest.mark.parametrize(
        ("damage", "code"),
        [
            (lambda actor: (actor / "model_world_size_2_rank_1.pt").unlink(), "SHARDS_MISSING"),
            (lambda actor: (actor / "model_world_size_2_rank_1.pt").write_bytes(b"PK\x03\x04 torn"), "SHARD_DAMAGED"),
            (lambda actor: (actor / "fsdp_config.json").unlink(), "FSDP_CONFIG"),
            (lambda actor: (actor / "fsdp_config.json").write_text("{}"), "FSDP_CONFIG"),
            (lambda actor: (actor / "lora_train_meta.json").write_text("{}"), "EXPORT_LORA"),
            (lambda actor: shutil.rmtree(actor / "huggingface"), "EXPORT_CONFIG"),
            (lambda actor: (actor / "huggingface" / "config.json").write_text("{"), "EXPORT_CONFIG"),
            (lambda actor: change(actor / "huggingface" / "config.json", hidden_size=16), "EXPORT_CONFIG"),
            (lambda actor: (actor / "huggingface" / "tokenizer.json").unlink(), "EXPORT_TOKENIZER"),
        ],
    )
    def test_damage_is_refused(self, plan, saved, actor, damage, code):
        damage(actor)
        problems = export_problems(plan, saved)
        assert codes(problems) == [code]
        assert problems[0].severity == "error" and problems[0].hint

    def test_another_worlds_shard(self, plan, saved, actor):
        shutil.copy(actor / "model_world_size_2_rank_0.pt", actor / "model_world_size_4_rank_0.pt")
        (problem,) = export_problems(plan, saved)
        assert "different world sizes: 2, 4" in problem.message

    @pytest.mark.parametrize("model", [{"lora_rank": 8}, {"lora": {"rank": 8}}, {"lora_adapter_path": "/a"}])
    def test_an_adapter_is_refused(self, base, saved, model):
        plan = verl_plan({"actor_rollout_ref": {"model": model}}, model=str(base))
        assert codes(export_problems(plan, saved)) == ["EXPORT_LORA"]

    def test_the_optimizer_is_not_needed(self, plan, saved, actor):
        for path in [*actor.glob("optim*"), *actor.glob("extra*")]:
            path.unlink()
        assert export_problems(plan, saved) == []


class TestAfter:
    def test_a_good_export(self, plan, merged):
        assert verify_export(plan, str(merged)) == []

    def test_no_folder(self, plan, tmp_path):
        assert codes(verify_export(plan, str(tmp_path / "none"))) == ["EXPORT_MISSING"]

    @pytest.mark.parametrize(
        ("damage", "code", "words"),
        [
            (lambda at: (at / "model.safetensors").unlink(), "EXPORT_WEIGHTS", "no safetensors weights"),
            (lambda at: (at / "model.safetensors").write_bytes(b"x"), "EXPORT_WEIGHTS", "no safetensors header"),
            (
                lambda at: write_safetensors(at / "model.safetensors", decoder_tensors(layers=1)),
                "EXPORT_WEIGHTS",
                "8 weights are not those of the base model",
            ),
            (
                lambda at: write_safetensors(at / "model.safetensors", decoder_tensors(width=4)),
                "EXPORT_WEIGHTS",
                "got:      model.embed_tokens.weight [16, 4]",
            ),
            (
                lambda at: write_safetensors(
                    at / "model.safetensors", {**decoder_tensors(), "model.norm.weight": ("BF16", (8,))}
                ),
                "EXPORT_WEIGHTS",
                "expected: model.norm.weight none",
            ),
            (
                lambda at: write_safetensors(at / "model.safetensors", decoder_tensors(dtype="I64")),
                "EXPORT_WEIGHTS",
                "formats I64",
            ),
            (lambda at: change(at / "config.json", vocab_size=7), "EXPORT_CONFIG", "got:      7"),
            (lambda at: (at / "config.json").unlink(), "EXPORT_CONFIG", "is missing"),
            (lambda at: write_tokenizer(at, ("<|im_end|>",)), "EXPORT_TOKENIZER", "257 against 259"),
            (
                lambda at: write_tokenizer(at, chat_template="{{ messages }}"),
                "EXPORT_TOKENIZER",
                "chat template is not the base model's",
            ),
            (lambda at: change(at / "generation_config.json", temperature=1.0), "EXPORT_GENERATION", "in temperature"),
            (lambda at: (at / "generation_config.json").unlink(), "EXPORT_GENERATION", "eos_token_id"),
        ],
    )
    def test_what_a_merger_does_not_notice(self, plan, merged, damage, code, words):
        damage(merged)
        problems = verify_export(plan, str(merged))
        assert codes(problems) == [code], problems
        assert words in problems[0].message and problems[0].hint

    def test_lost_merges_change_every_token(self, plan, base, merged):
        for folder, merges in ((base, ["a b", "b c"]), (merged, [["a", "b"], ["b", "c"]])):
            document = json.loads((folder / "tokenizer.json").read_text())
            document["model"]["merges"] = merges
            (folder / "tokenizer.json").write_text(json.dumps(document))
        assert verify_export(plan, str(merged)) == []  # the same in both forms
        write_tokenizer(merged)
        (problem,) = verify_export(plan, str(merged))
        assert problem.message == "tokenizer.json holds other merges than the base model's: 0 against 2"

    def test_weights_that_are_not_finite(self, plan, merged):
        size = (merged / "model.safetensors").stat().st_size
        with (merged / "model.safetensors").open("r+b") as file:
            file.seek(size - 2)
            file.write(struct.pack("<H", 0x7FC0))
        (problem,) = verify_export(plan, str(merged))
        assert problem.code == "EXPORT_NOT_FINITE" and "model.layers.1.input_layernorm.weight" in problem.message

    def test_versions_of_transformers_may_differ(self, plan, merged):
        change(merged / "config.json", transformers_version="9", dtype="bfloat16")
        change(merged / "generation_config.json", transformers_version="9", use_cache=True)
        assert verify_export(plan, str(merged)) == []

    def test_a_chat_template_may_move_to_its_own_file(self, plan, merged):
        config = json.loads((merged / "tokenizer_config.json").read_text())
        (merged / "chat_template.jinja").write_text(config.pop("chat_template") + "\n")
        (merged / "tokenizer_config.json").write_text(json.dumps(config))
        assert verify_export(plan, str(merged)) == []

    @pytest.mark.parametrize("in_base", [True, False])
    def test_a_tied_head_may_be_written_or_not(self, tmp_path, in_base):
        base = save_base_model(tmp_path / "tied", tie_word_embeddings=True)
        folder = shutil.copytree(base, tmp_path / "tied-merged")
        head = {**decoder_tensors(), "lm_head.weight": ("BF16", (16, 8))}
        write_safetensors((base if in_base else folder) / "model.safetensors", head)
        assert exported_model.problems(str(base), str(folder)) == []

    def test_an_untied_head_may_not_be_lost(self, base, merged):
        write_safetensors(base / "model.safetensors", {**decoder_tensors(), "lm_head.weight": ("BF16", (16, 8))})
        assert codes(exported_model.problems(str(base), str(merged))) == ["EXPORT_WEIGHTS"]

    def test_sharded_weights(self, plan, merged):
        tensors = decoder_tensors()
        (merged / "model.safetensors").unlink()
        names = list(tensors)
        index = {}
        for number, part in enumerate((names[:5], names[5:]), 1):
            name = f"model-0000{number}-of-00002.safetensors"
            write_safetensors(merged / name, {one: tensors[one] for one in part})
            index |= dict.fromkeys(part, name)
        (merged / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
        assert verify_export(plan, str(merged)) == []
        (merged / "model-00002-of-00002.safetensors").unlink()
        (problem,) = verify_export(plan, str(merged))
        assert problem.message == "model-00002-of-00002.safetensors is missing"

    def test_sup_10a_an_empty_tokenizer_is_not_promoted(self, tmp_path):
        base = save_base_model(tmp_path / "base", vocab_size=321, hidden_size=32)
        (base / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0]}))
        found = exported_model.problems(str(base), str(SUP_10A))
        assert any(f"copy the tokenizer's files (tokenizer.json) from {base}" in problem.hint for problem in found)
        assert any("1 against 259" in problem.message for problem in found)
        (base / "tokenizer.json").unlink()
        found = exported_model.problems(str(base), str(SUP_10A))
        assert any("tokenizer.json has 1 entry against vocab_size 321" in problem.message for problem in found)

    def test_generation_settings_that_the_base_does_not_have(self, base, merged):
        (base / "generation_config.json").unlink()
        assert GENERATION and exported_model.problems(str(base), str(merged)) == []
