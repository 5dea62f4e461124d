import pytest
from fakes.llamafactory_env import make_environment, versions_of
from fakes.tokenizer_files import write_tokenizer

from loopai_trainer.backends.llamafactory_sft.chat_template import read_templates
from loopai_trainer.backends.llamafactory_sft.template_fit import fit_problems, needed_tokens

HEADERS = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|begin_of_text|>")
LLAMA_TEMPLATE = "{{ '<|start_header_id|>' + role + '<|end_header_id|>' + content + '<|eot_id|>' }}"


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    return versions_of(make_environment(tmp_path_factory.mktemp("env") / "env"))


@pytest.fixture
def fit(tmp_path, versions):
    def fit(template, *, allowed=False, config=None, native=None, **tokenizer):
        model = write_tokenizer(tmp_path / "model", **tokenizer)
        keys = {"template": template, "model_name_or_path": str(model), **(native or {})}
        return fit_problems(keys, config or {}, versions, allowed=allowed)

    return fit


def test_a_template_of_the_models_own_family(fit):
    assert fit("qwen") == [] == fit("qwen3")


def test_tokens_that_a_template_needs(versions):
    needed = {name: needed_tokens(found) for name, found in read_templates(versions).items() if found}
    assert needed["llama3"] == ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    assert needed["chatglm3"] == ["[gMASK]", "sop", "<|user|>", "<|assistant|>"]
    assert needed["default"] == []


def test_sft_11a_a_llama3_template_on_a_chatml_model_is_refused_and_qwen_named(fit):
    (problem,) = fit("llama3", config={"model_type": "qwen2"})
    assert (problem.severity, problem.code, problem.field) == ("error", "TEMPLATE_MISMATCH", "template")
    assert "<|start_header_id|>, <|end_header_id|>, <|eot_id|>" in problem.message
    assert "its own chat template writes <|im_start|>, <|im_end|>" in problem.message
    assert problem.hint.startswith("write template: qwen (or one of qwen3)")
    assert "allow_template_mismatch=true" in problem.hint


def test_a_mismatch_may_be_allowed_and_is_still_told(fit):
    (problem,) = fit("llama3", allowed=True)
    assert problem.severity == "warning" and "allow_template_mismatch" not in problem.hint


def test_the_models_own_type_is_suggested_first(fit):
    (problem,) = fit("llama3", config={"model_type": "qwen3"})
    assert problem.hint.startswith("write template: qwen3 (or one of qwen)")


def test_tokens_that_the_yaml_adds_count_only_with_a_larger_vocabulary(fit):
    add = {"add_special_tokens": ",".join(HEADERS)}
    assert [p.severity for p in fit("llama3", native={**add, "resize_vocab": True})] == ["warning"]
    assert [p.severity for p in fit("llama3", native=add)] == ["error"]


def test_a_template_that_writes_none_of_the_models_tokens_is_a_warning(fit):
    (problem,) = fit("default")
    assert (problem.severity, problem.code) == ("warning", "TEMPLATE_MISMATCH")
    assert "writes none of the tokens of the model's own chat template (<|im_start|>, <|im_end|>)" in problem.message


def test_a_llama_model(fit):
    own = {"tokens": HEADERS, "chat_template": LLAMA_TEMPLATE, "eos": "<|eot_id|>"}
    assert fit("llama3", **own) == []
    (problem,) = fit("qwen", **own)
    assert problem.severity == "error" and problem.hint.startswith("write template: llama3;")


def test_marks_that_are_plain_text_in_the_models_own_chat_template_are_no_mismatch(fit):
    own = {"tokens": ("</s>", "[gMASK]", "sop"), "eos": "</s>"}
    assert fit("chatglm3", **own, chat_template="<|user|> {{ x }} <|assistant|>") == []
    (problem,) = fit("chatglm3", **own, chat_template=None)
    assert problem.severity == "warning"


def test_a_base_model_without_chat_template_still_lacks_stop_words(fit):
    (problem,) = fit("llama3", chat_template=None)
    assert problem.severity == "error" and "its own chat template" not in problem.message


def test_no_template_fits(fit):
    (problem,) = fit("qwen", tokens=("</s>",), eos="</s>", chat_template=None)
    assert problem.hint.startswith("choose the template of the model's family")


def test_a_template_for_media_needs_a_processor(fit, tmp_path):
    (problem,) = fit("qwen2_vl")
    assert (problem.severity, problem.code) == ("error", "TEMPLATE_NEEDS_PROCESSOR")
    assert problem.hint.startswith("write template: qwen ")
    assert [p.severity for p in fit("qwen2_vl", allowed=True)] == ["warning"]
    (tmp_path / "model" / "preprocessor_config.json").write_text("{}")
    assert fit("qwen2_vl") == []


def test_a_name_that_does_not_exist(fit):
    (problem,) = fit("qwen_3")
    assert (problem.severity, problem.code, problem.hint) == ("error", "TEMPLATE_UNKNOWN", "did you mean qwen3?")
    assert "such as qwen" in fit("zzzzzz")[0].hint


def test_what_cannot_be_known_is_left_to_the_lengths(fit, tmp_path, versions):
    assert fit("odd") == []
    assert fit(None) == []
    (tmp_path / "model" / "tokenizer.json").unlink()
    assert (
        fit_problems({"template": "llama3", "model_name_or_path": str(tmp_path / "model")}, {}, versions, allowed=False)
        == []
    )
    nothing = type(versions)("llamafactory", "9", "3", str(tmp_path), {}, "")
    assert fit_problems({"template": "zzz"}, {}, nothing, allowed=False) == []
