"""backends.llamafactory_sft.export: what a merge would not notice is refused before or after it."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from fakes.finished_runs import save_model
from fakes.safetensors_files import decoder_tensors, write_safetensors
from fakes.sft_plans import make_model_folder, make_plan
from fakes.tokenizer_files import write_tokenizer

from loopai_trainer.backends.llamafactory_sft import export as exporting
from loopai_trainer.records import Checkpoint


def lora_plan(run, **native):
    return make_plan(run, {"finetuning_type": "lora", **native})


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def base(tmp_path):
    return tmp_path / "model"


@pytest.fixture
def saved(run):
    path = save_model(run / "checkpoints" / "checkpoint-20", adapter=True)
    return Checkpoint("checkpoint-20", 20, str(path), True)


@pytest.fixture
def plan(run):
    return lora_plan(run)


@pytest.fixture
def merged(tmp_path, plan, base):
    folder = tmp_path / "merged"
    shutil.copytree(base, folder)
    return folder


def codes(problems):
    return [problem.code for problem in problems]


class TestTheCommand:
    def test_an_adapter(self, plan, saved):
        command = exporting.export(plan, saved, "/run/exports/.partial-checkpoint-20")
        assert command.argv == (
            "/env/bin/python", "/env/bin/llamafactory-cli", "export", "/run/exports/checkpoint-20.export.yaml",
        )  # fmt: skip
        assert command.env["CUDA_VISIBLE_DEVICES"] == "" and command.env["HF_HUB_OFFLINE"] == "1"
        assert command.env["PATH"].startswith("/env/bin:")

    def test_a_full_checkpoint_is_a_model_folder_already(self, run):
        path = save_model(run / "checkpoints" / "checkpoint-20")
        assert exporting.export(make_plan(run), Checkpoint("checkpoint-20", 20, str(path), True), "/d") is None

    def test_its_yaml(self, run, base, saved):
        plan = lora_plan(run, trust_remote_code=True, learning_rate=1.0e-4)
        ((name, text),) = exporting.export_files(plan, saved, "/run/exports/.partial-checkpoint-20").items()
        assert name == "checkpoint-20.export.yaml"
        assert yaml.safe_load(text) == {
            "model_name_or_path": str(base),
            "adapter_name_or_path": saved.path,
            "finetuning_type": "lora",
            "template": "qwen",
            "trust_remote_code": True,
            "export_dir": "/run/exports/.partial-checkpoint-20",
            "export_size": 5,
            "export_device": "cpu",
            "export_legacy_format": False,
            "infer_dtype": "bfloat16",
        }

    @pytest.mark.parametrize(("dtype", "told"), [("F32", "float32"), ("F16", "float16"), ("I64", "auto")])
    def test_the_weights_keep_the_format_of_the_base(self, plan, base, saved, dtype, told):
        write_safetensors(base / "model.safetensors", decoder_tensors(dtype=dtype))
        (text,) = exporting.export_files(plan, saved, "/d/x").values()
        assert yaml.safe_load(text)["infer_dtype"] == told

    def test_weights_of_another_kind_leave_it_open(self, plan, base, saved):
        (base / "model.safetensors").write_bytes(b"torn")
        (text,) = exporting.export_files(plan, saved, "/d/x").values()
        assert yaml.safe_load(text)["infer_dtype"] == "auto"


class TestBefore:
    def test_a_whole_adapter(self, plan, saved):
        assert exporting.export_problems(plan, saved) == []

    def test_a_base_that_is_quantised_only_while_it_is_loaded_is_no_hindrance(self, run, saved):
        assert exporting.export_problems(lora_plan(run, quantization_bit=4), saved) == []

    def test_a_base_that_is_stored_quantised(self, plan, base, saved):
        make_model_folder(base, {"quantization_config": {"quant_method": "gptq"}})
        (problem,) = exporting.export_problems(plan, saved)
        assert problem.code == "EXPORT_QUANTISED" and "gptq" in problem.message

    @pytest.mark.parametrize("key", ["resize_vocab", "add_tokens", "add_special_tokens"])
    def test_a_changed_vocabulary(self, run, saved, key):
        assert codes(exporting.export_problems(lora_plan(run, **{key: "<a>"}), saved)) == ["EXPORT_VOCABULARY"]

    def test_changed_base_weights_by_the_plan(self, run, saved):
        assert codes(exporting.export_problems(lora_plan(run, pissa_init=True), saved)) == ["EXPORT_CHANGED_BASE"]

    @pytest.mark.parametrize(
        ("started", "found"), [("pissa_niter_4", ["EXPORT_CHANGED_BASE"]), (True, []), ("gaussian", [])]
    )
    def test_changed_base_weights_by_the_adapter(self, plan, saved, started, found):
        Path(saved.path, "adapter_config.json").write_text(json.dumps({"init_lora_weights": started}))
        assert codes(exporting.export_problems(plan, saved)) == found

    def test_a_comma_in_a_path(self, plan, tmp_path):
        path = save_model(tmp_path / "a,b" / "checkpoint-1", adapter=True)
        found = exporting.export_problems(plan, Checkpoint("checkpoint-1", 1, str(path), True))
        assert codes(found) == ["EXPORT_PATH"]


class TestThePlan:
    @pytest.mark.parametrize(
        ("wanted", "native", "found"),
        [
            (True, {"finetuning_type": "lora"}, []),
            (True, {"finetuning_type": "oft", "resize_vocab": True}, ["EXPORT_VOCABULARY"]),
            (True, {"finetuning_type": "full", "resize_vocab": True}, []),
            (False, {"finetuning_type": "lora", "resize_vocab": True}, []),
            (None, {"finetuning_type": "lora", "resize_vocab": True}, []),
            ("yes", {"finetuning_type": "lora"}, ["EXPORT_INVALID"]),
        ],
    )
    def test_table(self, wanted, native, found):
        assert codes(exporting.result_problems({"export_huggingface": wanted}, native, {})) == found


class TestAfter:
    def test_as_the_base(self, plan, merged):
        assert exporting.verify_export(plan, str(merged)) == []

    def test_nothing(self, plan, tmp_path):
        assert codes(exporting.verify_export(plan, str(tmp_path / "none"))) == ["EXPORT_MISSING"]

    @pytest.mark.parametrize(
        ("damage", "code"),
        [
            (lambda folder: (folder / "model.safetensors").unlink(), "EXPORT_WEIGHTS"),
            (lambda folder: write_safetensors(folder / "model.safetensors", decoder_tensors(layers=1)), "EXPORT_WEIGHTS"),
            (lambda folder: write_safetensors(folder / "model.safetensors", decoder_tensors(dtype="F16")), "EXPORT_WEIGHTS"),
            (lambda folder: (folder / "tokenizer.json").unlink(), "EXPORT_TOKENIZER"),
            (lambda folder: (folder / "config.json").unlink(), "EXPORT_CONFIG"),
        ],
    )  # fmt: skip
    def test_damage(self, plan, merged, damage, code):
        damage(merged)
        assert code in codes(exporting.verify_export(plan, str(merged)))

    def test_weights_that_are_not_finite(self, plan, merged):
        size = (merged / "model.safetensors").stat().st_size
        write_safetensors(merged / "model.safetensors", decoder_tensors(), b"\xff" * size)
        assert codes(exporting.verify_export(plan, str(merged))) == ["EXPORT_NOT_FINITE"]

    def test_the_tokenizer_has_to_be_that_of_the_training(self, run, plan, merged, base):
        trained = run / "checkpoints"
        trained.mkdir(parents=True, exist_ok=True)
        for path in base.glob("tokenizer*"):
            shutil.copy(path, trained)
        (trained / "chat_template.jinja").write_text("{{ messages }}")
        assert codes(exporting.verify_export(plan, str(merged))) == ["EXPORT_TOKENIZER"]
        (merged / "chat_template.jinja").write_text("{{ messages }}")
        assert exporting.verify_export(plan, str(merged)) == []

    @pytest.mark.parametrize(("wanted", "found"), [({"temperature": 0.6}, []), ({}, ["EXPORT_GENERATION"])])
    def test_do_sample_is_corrected_where_sampling_is_set(self, plan, merged, base, wanted, found):
        (base / "generation_config.json").write_text(json.dumps({"do_sample": False, **wanted}))
        (merged / "generation_config.json").write_text(json.dumps({"do_sample": True, **wanted}))
        assert codes(exporting.verify_export(plan, str(merged))) == found


def test_the_result_block_has_the_setting(run):
    from loopai_trainer import backends
    from loopai_trainer.records import DataReport, Settings

    backend = backends.get("llamafactory", "sft")
    data = DataReport((), (), {}, None)
    for value in (True, False):
        assert backend.result_block(Settings({"export_huggingface": value}, {}), data)["export_huggingface"] is value


class TestAFullCheckpoint:
    """It is a model folder already, and its weights are judged; its tokenizer may have been lost all the same."""

    @pytest.fixture
    def full(self, run, base):
        write_tokenizer(base)
        path = save_model(run / "checkpoints" / "checkpoint-20")
        write_tokenizer(path)
        (path / "config.json").write_text(json.dumps({"vocab_size": 321}))
        return Checkpoint("checkpoint-20", 20, str(path), True)

    def found(self, run, full):
        plan = make_plan(run, {"finetuning_type": "full"})
        assert exporting.export(plan, full, "/run/exports/x") is None
        return [problem.message.rpartition("/")[2] for problem in exporting.export_problems(plan, full)]

    def test_a_whole_one(self, run, full):
        assert self.found(run, full) == []

    def test_sup_10a_an_empty_tokenizer(self, run, full):
        path = Path(full.path, "tokenizer.json")
        document = json.loads(path.read_text())
        path.write_text(json.dumps({**document, "model": {**document["model"], "vocab": {"a": 0}}, "added_tokens": []}))
        assert self.found(run, full) == ["tokenizer.json has 1 entry against vocab_size 321"]

    def test_no_tokenizer_and_no_chat_template(self, run, full):
        Path(full.path, "tokenizer_config.json").unlink()
        assert self.found(run, full) == ["checkpoint-20 has no chat template, and the base model has one"]
        Path(full.path, "tokenizer.json").unlink()
        assert self.found(run, full) == ["checkpoint-20 has no tokenizer"]
