"""How tool lists and tool calls are written into a chat, by the name of the format; others are only estimated.

Source: data/tool_utils.py, 0.9.5. Its introducing texts are read from the installed version; dates count as of today.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Written(NamedTuple):
    """A text, and whether it is the very one that training sees."""

    text: str
    exact: bool


def tool_list(kind: str, tools: str, prompts: Mapping[str, str]) -> Written:
    """The text that introduces `tools` (JSON) to the model, which follows the system prompt."""
    try:
        parsed = json.loads(tools)
        if not parsed:
            return Written("", True)
        writer = _LISTS.get(kind)
        if writer is None:
            longest = max((len(text), text) for text in ("", *prompts.values()))[1]
            return Written(longest + json.dumps(parsed, ensure_ascii=False), False)
        return Written(writer(parsed, prompts), True)
    except (ValueError, LookupError, TypeError, AttributeError):
        return Written(tools, False)


def tool_calls(kind: str, content: str) -> Written:
    """The text of a function turn, from the JSON list of {name, arguments} that the snapshot holds."""
    try:
        parsed = json.loads(content)
        calls = [(call["name"], call["arguments"]) for call in (parsed if isinstance(parsed, list) else [parsed])]
        writer = _CALLS.get(kind)
        return Written(content, False) if writer is None else Written(writer(calls), True)
    except (ValueError, LookupError, TypeError):
        return Written(content, False)


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _wrapped(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    return tool if tool.get("type") == "function" else {"type": "function", "function": tool}


def _lines_of(constant: str) -> Callable[[Sequence[Any], Mapping[str, str]], str]:
    """Each tool on a line of its own."""

    def write(tools: Sequence[Any], prompts: Mapping[str, str]) -> str:
        return prompts[constant].format(tool_text="".join("\n" + _json(_wrapped(tool)) for tool in tools))

    return write


def _llama3_list(tools: Sequence[Any], prompts: Mapping[str, str]) -> str:
    import datetime

    date = datetime.datetime.now().strftime("%d %b %Y")
    return prompts["LLAMA3_TOOL_PROMPT"].format(
        date=date, tool_text="".join(_json(_wrapped(tool), 4) + "\n\n" for tool in tools)
    )


def _mistral_list(tools: Sequence[Any], prompts: Mapping[str, str]) -> str:
    return f"[AVAILABLE_TOOLS] {_json([_wrapped(tool) for tool in tools])}[/AVAILABLE_TOOLS]"


def _default_list(tools: Sequence[Any], prompts: Mapping[str, str]) -> str:
    bare = [tool["function"] if tool.get("type") == "function" else tool for tool in tools]
    text = "".join(
        f"> Tool Name: {tool['name']}\nTool Description: {tool.get('description', '')}\nTool Args:\n"
        f"{''.join(_parameter_lines(tool['parameters']))}\n"
        for tool in bare
    )
    return prompts["DEFAULT_TOOL_PROMPT"].format(tool_text=text, tool_names=", ".join(t["name"] for t in bare))


def _parameter_lines(parameters: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, about in parameters["properties"].items():
        required = ", required" if name in parameters.get("required", ()) else ""
        choices = f", should be one of [{', '.join(about['enum'])}]" if about.get("enum") else ""
        items = f", where each item should be {about['items'].get('type', '')}" if about.get("items") else ""
        kind, what = about.get("type", ""), about.get("description", "")
        lines.append(f"  - {name} ({kind}{required}): {what}{choices}{items}\n")
    return lines


def _llama3_calls(calls: Sequence[tuple[str, Any]]) -> str:
    written = [{"name": name, "parameters": arguments} for name, arguments in calls]
    return _json(written[0] if len(written) == 1 else written)


_Calls = Sequence[tuple[str, Any]]
_LISTS: Mapping[str, Callable[[Sequence[Any], Mapping[str, str]], str]] = {
    "default": _default_list,
    "qwen": _lines_of("QWEN_TOOL_PROMPT"),
    "glm4_moe": _lines_of("GLM4_MOE_TOOL_PROMPT"),
    "llama3": _llama3_list,
    "mistral": _mistral_list,
}
_CALLS: Mapping[str, Callable[[_Calls], str]] = {
    "default": lambda calls: "\n".join(f"Action: {name}\nAction Input: {_json(given)}" for name, given in calls),
    "qwen": lambda calls: "\n".join(
        f"<tool_call>\n{_json({'name': name, 'arguments': given})}\n</tool_call>" for name, given in calls
    ),
    "llama3": _llama3_calls,
    "mistral": lambda calls: _json([{"name": name, "arguments": given} for name, given in calls]),
}
