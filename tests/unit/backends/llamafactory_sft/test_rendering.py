import pytest
from fakes.llamafactory_env import make_environment, versions_of

from loopai_trainer.backends.llamafactory_sft.chat_template import read_templates, read_tool_prompts
from loopai_trainer.backends.llamafactory_sft.rendering import Pieces, Rendering
from loopai_trainer.records import Row, Turn

THOUGHT = "<think>\nhm\n</think>\n\nfour"
EMPTY = "<think>\n\n</think>\n\n"


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    return versions_of(make_environment(tmp_path_factory.mktemp("env") / "env"))


@pytest.fixture
def render(versions):
    def render(name, *turns, system="", tools="", has_bos=True, **native):
        template = read_templates(versions)[name]
        rendering = Rendering(template, native, read_tool_prompts(versions), has_bos=has_bos)
        return rendering.render(Row(tuple(Turn(*turn) for turn in turns), system, tools, 1))

    return render


ASK, TELL = ("user", "q"), ("assistant", "a")
USER = "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"


def test_system_question_and_answer_are_pieces_of_their_own(render):
    chat = render("qwen", ASK, TELL)
    assert chat.turns == [
        Pieces(["<|im_start|>system\nBe brief.<|im_end|>\n", USER], 0),
        Pieces(["a<|im_end|>\n"], 0),
    ]
    assert render("qwen", ASK, TELL, system="S").turns[0].texts[0] == "<|im_start|>system\nS<|im_end|>\n"
    assert render("qwen", ASK, TELL, default_system="D").turns[0].texts[0] == "<|im_start|>system\nD<|im_end|>\n"
    assert len(render("qwen", ASK, TELL, ASK, TELL).turns[2].texts) == 1


def test_begin_end_and_named_tokens_count_as_one_each(render):
    assert render("llama3", ASK, TELL).turns[0].singles == 1
    assert render("llama3", ASK, TELL, has_bos=False).turns[0].singles == 0
    assert render("default", ASK, TELL).turns == [Pieces(["Human: q", "\nAssistant:"], 1), Pieces(["a"], 1)]
    assert render("chatglm3", ASK, TELL).turns == [Pieces(["\n", "q"], 4), Pieces(["a"], 0)]


def test_llama2_puts_the_system_prompt_into_the_first_question(render):
    chat = render("llama2", ("user", "{{idx}}"), TELL, ASK, TELL, system="S")
    assert chat.turns[0] == Pieces(["[INST] <<SYS>>\nS\n<</SYS>>\n\n{{idx}} [/INST]"], 1)
    assert chat.turns[2] == Pieces(["[INST] q [/INST]"], 1)


def test_a_placeholder_in_a_question_is_filled_as_llamafactory_does(render):
    assert "user\n0<" in render("qwen", ("user", "{{idx}}"), TELL).turns[0].texts[1]
    assert render("qwen", ASK, ("assistant", "{{idx}}")).turns[1].texts == ["{{idx}}<|im_end|>\n"]


def test_tools(render):
    call = '[{"name":"get","arguments":{}}]'
    turns = (ASK, ("function", call), ("tool", "7"), TELL)
    chat = render("qwen", *turns, tools='[{"name": "get"}]')
    assert chat.exact
    assert chat.turns[0].texts[0].startswith("<|im_start|>system\nBe brief.\n# Tools\n{")
    assert chat.turns[1].texts == ['<tool_call>\n{"name": "get", "arguments": {}}\n</tool_call><|im_end|>\n']
    assert "user\n7<" in chat.turns[2].texts[0]
    assert not render("chatglm3", ASK, TELL, tools='[{"name": "get"}]').exact
    assert not render("qwen", ASK, ("function", "torn"), ASK, TELL).exact
    other = render("qwen", *turns, tool_format="mistral", tools="[]")
    assert other.turns[1] == Pieces(['[{"name": "get", "arguments": {}}]'], 1)


def test_a_tool_list_without_tools_still_makes_a_system_turn(render):
    assert render("qwen3", ASK, TELL, tools="[]").turns[0].texts == [USER]
    assert render("llama2", ASK, TELL, tools="[]").turns[0].texts == ["[INST] <<SYS>>\n\n<</SYS>>\n\nq [/INST]"]


def test_answers_without_a_thought_get_an_empty_one(render):
    turns = (ASK, ("assistant", THOUGHT), ASK, TELL)
    thinking = render("qwen3", *turns).turns
    assert thinking[1].texts == [THOUGHT + "<|im_end|>\n"]
    assert thinking[3].texts == ["a<|im_end|>\n", EMPTY]
    off = render("qwen3", *turns, enable_thinking=False).turns
    assert off[0].texts == [USER, EMPTY] and off[1].texts == ["four<|im_end|>\n"]
    assert off[2].texts == [USER, EMPTY] and off[3].texts == ["a<|im_end|>\n"]


def test_masked_history_forgets_its_thoughts(render):
    turns = (ASK, ("assistant", THOUGHT), ASK, ("assistant", THOUGHT))
    masked = render("qwen3", *turns, mask_history=True).turns
    assert (masked[1].texts, masked[3].texts) == (["four<|im_end|>\n"], [THOUGHT + "<|im_end|>\n"])
    kept = render("qwen3", *turns, mask_history=True, preserve_thinking=True).turns
    assert kept[1].texts == [THOUGHT + "<|im_end|>\n"]
