import pytest
from fakes.llamafactory_env import make_environment, versions_of

from loopai_trainer.backends.llamafactory_sft.chat_template import (
    PLAIN,
    PLAIN_WITH_END,
    Slot,
    read_templates,
    read_tool_prompts,
)


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    return versions_of(make_environment(tmp_path_factory.mktemp("env") / "env"))


def test_definitions_are_read_with_their_defaults(versions):
    found = read_templates(versions)
    assert list(found) == [
        "qwen", "qwen2_vl", "qwen3", "llama3", "llama2", "chatglm3", "default", "phi_small", "odd", "computed", "alien",
        "positional",
    ]  # fmt: skip
    qwen = found["qwen"]
    assert (qwen.kind, qwen.default_system, qwen.stop_words) == ("Template", "Be brief.", ("<|im_end|>",))
    assert (qwen.tools_format, qwen.function_format, qwen.replace_eos, qwen.takes_media) == (
        "qwen",
        "qwen",
        True,
        False,
    )
    assert qwen.observation == qwen.user
    assert found["qwen2_vl"].takes_media
    assert found["default"].assistant == PLAIN_WITH_END
    assert found["default"].user[1] == Slot("special", "eos_token")
    assert found["chatglm3"].assistant == PLAIN
    assert found["chatglm3"].prefix == (Slot("token", "[gMASK]"), Slot("token", "sop"))
    assert found["chatglm3"].tools_format == "other"
    assert found["phi_small"].prefix == ()
    assert (found["odd"], found["computed"]) == (None, None)
    assert found["positional"].user == (Slot("text", "<u>{{content}}"),)
    assert found["alien"].kind == "TheirTemplate"


def test_tool_prompts_are_the_texts_among_the_constants(versions):
    prompts = read_tool_prompts(versions)
    assert prompts["QWEN_TOOL_PROMPT"] == "\n# Tools{tool_text}\n{{end}}"
    assert set(prompts) == {"QWEN_TOOL_PROMPT", "DEFAULT_TOOL_PROMPT", "LLAMA3_TOOL_PROMPT"}


@pytest.mark.parametrize("text", [None, "def (", "\x00"])
def test_a_source_that_cannot_be_read_holds_nothing(versions, tmp_path, text):
    (tmp_path / "data").mkdir()
    if text is not None:
        (tmp_path / "data" / "template.py").write_text(text)
    broken = type(versions)(**{**{f: getattr(versions, f) for f in versions.__slots__}, "package_dir": str(tmp_path)})
    assert read_templates(broken) == {} == read_tool_prompts(broken)
