import datetime
import json

import pytest

from loopai_trainer.backends.llamafactory_sft.tool_text import tool_calls, tool_list

PROMPTS = {
    "QWEN_TOOL_PROMPT": "T{tool_text}{{}}",
    "GLM4_MOE_TOOL_PROMPT": "G{tool_text}",
    "LLAMA3_TOOL_PROMPT": "{date} {tool_text}",
    "DEFAULT_TOOL_PROMPT": "{tool_text}[{tool_names}]",
}
TOOL = {
    "name": "get",
    "parameters": {
        "properties": {
            "t": {"type": "string", "enum": ["a", "b"]},
            "n": {"items": {"type": "int"}, "description": "d"},
        },
        "required": ["t"],
    },
}
CALLS = json.dumps([{"name": "get", "arguments": {"t": "泵"}}, {"name": "x", "arguments": {}}])


def wrapped(indent=None):
    return json.dumps({"type": "function", "function": TOOL}, ensure_ascii=False, indent=indent)


@pytest.mark.parametrize("tool", [TOOL, {"type": "function", "function": TOOL}])
def test_lists_in_the_formats_that_are_followed(tool):
    tools = json.dumps([tool])
    assert tool_list("qwen", tools, PROMPTS) == (f"T\n{wrapped()}{{}}", True)
    assert tool_list("glm4_moe", tools, PROMPTS) == (f"G\n{wrapped()}", True)
    assert tool_list("mistral", tools, PROMPTS) == (f"[AVAILABLE_TOOLS] [{wrapped()}][/AVAILABLE_TOOLS]", True)
    today = datetime.datetime.now().strftime("%d %b %Y")
    assert tool_list("llama3", tools, PROMPTS) == (f"{today} {wrapped(4)}\n\n", True)
    assert tool_list("default", tools, PROMPTS).text == (
        "> Tool Name: get\nTool Description: \nTool Args:\n  - t (string, required): , should be one of [a, b]\n"
        "  - n (): d, where each item should be int\n\n[get]"
    )


def test_other_formats_and_odd_tools_are_estimated():
    assert tool_list("seed_oss", "[1]", {"A": "short", "B": "longest"}) == ("longest[1]", False)
    assert tool_list("seed_oss", "[1]", {}) == ("[1]", False)
    assert tool_list("default", '[{"name": "x"}]', PROMPTS) == ('[{"name": "x"}]', False)
    assert tool_list("qwen", "[1]", PROMPTS) == ("[1]", False)
    assert tool_list("qwen", "not json", PROMPTS) == ("not json", False)
    assert tool_list("qwen", '[{"name": "x"}]', {}) == ('[{"name": "x"}]', False)
    assert tool_list("qwen", "[]", PROMPTS) == ("", True)


def test_calls():
    assert tool_calls("qwen", CALLS).text == (
        '<tool_call>\n{"name": "get", "arguments": {"t": "泵"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "x", "arguments": {}}\n</tool_call>'
    )
    assert tool_calls("default", CALLS).text == 'Action: get\nAction Input: {"t": "泵"}\nAction: x\nAction Input: {}'
    assert tool_calls("mistral", CALLS) == (json.dumps(json.loads(CALLS), ensure_ascii=False), True)
    assert tool_calls("llama3", CALLS).text.startswith('[{"name": "get", "parameters"')
    assert tool_calls("llama3", '{"name": "x", "arguments": {}}') == ('{"name": "x", "parameters": {}}', True)


@pytest.mark.parametrize("content", ["nothing", "[1]", '[{"name": "x"}]'])
def test_calls_that_are_none_are_left_as_they_are(content):
    assert tool_calls("qwen", content) == (content, False)


def test_calls_in_other_formats_are_estimated():
    assert tool_calls("gemma4", CALLS) == (CALLS, False)
