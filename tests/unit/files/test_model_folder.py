import json

import pytest
from fakes.safetensors_files import decoder_tensors, write_safetensors
from fakes.sft_plans import make_model_folder
from fakes.tokenizer_files import write_tokenizer

from loopai_trainer.files import safetensors
from loopai_trainer.files.model_folder import module_names, read_model_folder


def codes(folder):
    return [problem.code for problem in read_model_folder(str(folder)).problems]


@pytest.fixture
def model(tmp_path):
    return make_model_folder(tmp_path / "model")


def test_a_sound_folder(model):
    found = read_model_folder(str(model))
    assert found.problems == () and found.config["model_type"] == "qwen2"
    assert found.weights.parameters == 128 + 2 * (4 * 64 + 2 * 128 + 128 + 8)
    assert module_names(found.weights) == {
        "embed_tokens", "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    }  # fmt: skip


@pytest.mark.parametrize("base", ["/models/other", "someone/model", None])
@pytest.mark.parametrize("with_config", [True, False])
def test_an_adapter_whose_base_lies_elsewhere_is_refused(model, base, with_config):
    (model / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    if not with_config:
        (model / "config.json").unlink()
    (problem,) = read_model_folder(str(model)).problems
    assert problem.code == "MODEL_IS_ADAPTER" and "merge" in problem.hint
    assert (base or "does not name") in problem.message


def test_an_adapter_beside_its_own_base_or_torn(model):
    (model / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(model)}))
    assert codes(model) == []
    (model / "adapter_config.json").write_text("{")
    assert codes(model) == ["MODEL_IS_ADAPTER"]


def test_no_folder(tmp_path):
    assert codes(tmp_path / "hub" / "name") == ["MODEL_NOT_FOUND"]


def test_no_config_and_a_torn_one(model):
    (model / "config.json").write_text("{")
    assert codes(model) == ["MODEL_CONFIG"]
    (model / "config.json").unlink()
    assert codes(model) == ["MODEL_CONFIG"]


@pytest.mark.parametrize("name", ["tokenizer.model", "vocab.json", "qwen.tiktoken"])
def test_other_tokenizers_count(model, name):
    (model / "tokenizer.json").unlink()
    assert codes(model) == ["TOKENIZER_MISSING"]
    (model / name).write_text("x")
    assert codes(model) == []


def test_an_index_that_names_a_missing_shard(model):
    (model / "model.safetensors").rename(model / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    (problem,) = read_model_folder(str(model)).problems
    assert problem.code == "SHARD_MISSING" and problem.path.endswith("model-00002-of-00002.safetensors")


def test_truncated_weights(model):
    write_safetensors(model / "model.safetensors", decoder_tensors(), cut_bytes=10)
    found = read_model_folder(str(model))
    assert [p.code for p in found.problems] == ["WEIGHTS_DAMAGED"] and found.weights is None


def test_no_weights_at_all(model):
    (model / "model.safetensors").unlink()
    assert codes(model) == ["WEIGHTS_MISSING"]


def test_pytorch_weights_are_taken_as_they_are_but_pointers_are_not(model):
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").write_bytes(b"\x80" * 1000)
    found = read_model_folder(str(model))
    assert found.problems == () and found.weights.parameters == 500 and found.weights.tensors == {}
    (model / "pytorch_model.bin").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid")
    assert codes(model) == ["MODEL_LFS_POINTER"]


def test_shards_that_hold_less_than_their_index_says(model):
    (model / "model.safetensors").rename(model / "model-00001-of-00001.safetensors")
    shard = "model-00001-of-00001.safetensors"
    held = read_names(model / shard)
    index = {"weight_map": dict.fromkeys([*held, "model.layers.9.mlp.up_proj.weight"], shard)}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    (problem,) = read_model_folder(str(model)).problems
    assert problem.code == "WEIGHTS_INCOMPLETE" and "model.layers.9.mlp.up_proj.weight" in problem.message
    index["weight_map"].popitem()
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert codes(model) == []


def read_names(path):
    return [tensor.name for tensor in safetensors.read_header(str(path))]


def test_shards_without_an_index(model):
    (model / "model.safetensors").rename(model / "model-00001-of-00002.safetensors")
    assert codes(model) == ["SHARD_INDEX_MISSING"]


def test_a_whole_file_goes_before_an_index_that_was_left_behind(model):
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
    assert codes(model) == []


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "generation_config.json", "merges.txt"])
def test_pointers_in_place_of_small_files(model, name):
    (model / name).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    (problem,) = read_model_folder(str(model)).problems
    assert problem.code == "MODEL_LFS_POINTER" and problem.path.endswith(name)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_torn_tokenizer(model, name):
    (model / name).write_text((model / name).read_text()[:-9])
    assert codes(model) == ["TOKENIZER_DAMAGED"]


@pytest.mark.parametrize(
    "name", ["../other/model-00001-of-00001.safetensors", "/models/x.safetensors", "a/../../x.safetensors"]
)
def test_an_index_that_leads_out_of_the_folder_is_refused(model, name):
    (model / "model.safetensors").unlink()
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"lm_head.weight": name}}))
    assert "MODEL_REACHES_OUT" in codes(model)


@pytest.mark.parametrize(("rows", "lost"), [(321, True), (259, False), (None, False), ("many", False)])
def test_sup_10a_a_tokenizer_of_hardly_any_tokens(tmp_path, rows, lost):
    folder = write_tokenizer(make_model_folder(tmp_path / "model"))
    (folder / "config.json").write_text(json.dumps({"vocab_size": rows}))
    path = folder / "tokenizer.json"
    if lost:
        document = json.loads(path.read_text())
        path.write_text(json.dumps({**document, "model": {**document["model"], "vocab": {"a": 0}}, "added_tokens": []}))
    found = [problem for problem in read_model_folder(str(folder)).problems if problem.code == "TOKENIZER_LOST"]
    said = "tokenizer.json has 1 entry against vocab_size 321: most text would be trained on as nothing"
    assert [problem.message for problem in found] == ([said] if lost else [])


@pytest.mark.parametrize("text", ["{}", '{"model": 5}', '{"model": {"vocab": 5}}'])
def test_a_tokenizer_of_a_kind_that_lists_no_tokens_there_is_taken(tmp_path, text):
    folder = make_model_folder(tmp_path / "model")
    (folder / "config.json").write_text(json.dumps({"vocab_size": 321}))
    (folder / "tokenizer.json").write_text(text)
    assert [problem.code for problem in read_model_folder(str(folder)).problems if "TOKENIZER" in problem.code] == []
