"""Tool lists and tool calls as the JSON texts that LLaMA-Factory reads.

Source: LLaMA-Factory 0.9.5 data/formatter.py: a tool list goes through json.loads, a function turn is one call or a
list of calls, each with `name` and `arguments`; data/converter.py: how its openai form writes them.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import orjson

from loopai_trainer.records import Rejection, Remark

_LONG_NUMBER = re.compile(r"\d{16}|\d[eE]")
"""Beyond what a float or orjson's 64-bit integers keep exactly."""
_LARGE_FLOAT = re.compile(rb"\de\+?\d")
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


class Written(NamedTuple):
    """A JSON text and what is to be said of it."""

    text: str
    remarks: tuple[Remark, ...] = ()


def tools_text(value: object) -> str | Rejection:
    """The `tools` column as JSON text: a text is kept as it is, a list is written out, nothing is ""."""
    if not value:
        return ""
    if type(value) is not str:
        if type(value) is not list:
            return _bad_tools(f"tools is {_kind(value)}, not a list")
        fault = _tool_list_fault(value)
        if fault:
            return _bad_tools(fault)
        try:
            # The same form as LLaMA-Factory's openai converter writes.
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return _bad_tools("the tool list has values that JSON does not know")
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        if not value.strip():
            return _bad_tools("tools holds only blanks, which are read as JSON; leave it out or empty")
        return _bad_tools(f"tools is not JSON: {error.msg} (column {error.colno})")
    fault = _tool_list_fault(parsed)
    return _bad_tools(fault) if fault else value


def _tool_list_fault(tools: object) -> str | None:
    if type(tools) is not list:
        return f"tools is {_kind(tools)}, not a list"
    for index, tool in enumerate(tools):
        if type(tool) is not dict:
            return f"tools[{index}] is {_kind(tool)}, not an object"
        inner = tool.get("function") if tool.get("type") == "function" else tool
        if type(inner) is not dict or type(inner.get("name")) is not str:
            return f"tools[{index}] has no name"
    return None


def _bad_tools(message: str) -> Rejection:
    return Rejection("TOOLS_INVALID", message, "write a JSON list of {name, description, parameters}", "tools")


def call_text_fault(content: str, field: str) -> Rejection | tuple[Remark, ...]:
    """What is wrong with a function turn that is text already; the text itself is left as it is."""
    body = content
    if "<" in content:
        if "<tool_call>" in content:
            return ()  # the model's own form; the template takes it apart
        body = _THOUGHT.sub("", content, count=1)
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return _bad_call(f"a function call is not JSON: {error.msg} (column {error.colno})", field)
    calls = parsed if type(parsed) is list else [parsed]
    if not calls:
        return _bad_call("a function turn calls nothing", field)
    for call in calls:
        if type(call) is not dict or type(call.get("name")) is not str or "arguments" not in call:
            return _bad_call("a function call wants an object with name and arguments", field)
    if any(type(call["arguments"]) is str for call in calls):
        message = "arguments is a text: it will be trained as a text inside quotes, not as an object"
        return (Remark("ARGUMENTS_AS_TEXT", message, "write arguments as an object", field),)
    return ()


def calls_text(calls: object, field: str) -> Written | Rejection:
    """`tool_calls` -> the compact JSON list of {name, arguments}; arguments given as JSON text become an object."""
    if type(calls) is not list:
        return _bad_call(f"tool_calls is {_kind(calls)}, not a list", field)
    texts: list[str] = []
    remarks: tuple[Remark, ...] = ()
    for index, call in enumerate(calls):
        where = f"{field}[{index}]"
        inner = call.get("function") if type(call) is dict else None
        if type(inner) is not dict:
            return _bad_call("a tool call wants an object under the key function", where)
        written = _call_text(inner, where)
        if isinstance(written, Rejection):
            return written
        texts.append(written.text)
        remarks += written.remarks
    return Written("[" + ",".join(texts) + "]", remarks)


def single_call_text(call: object, field: str) -> Written | Rejection:
    """`function_call`, the older form of one tool call."""
    if type(call) is not dict:
        return _bad_call(f"function_call is {_kind(call)}, not an object", field)
    written = _call_text(call, field)
    return written if isinstance(written, Rejection) else Written(f"[{written.text}]", written.remarks)


def _call_text(call: dict[str, Any], field: str) -> Written | Rejection:
    name, arguments = call.get("name"), call.get("arguments")
    if type(name) is not str or not name:
        return _bad_call("a tool call has no name", field)
    if type(arguments) is str:
        written = _from_text(arguments, field)
    elif type(arguments) is dict:
        written = _from_object(arguments, field)
    elif arguments is None:
        written = Written("{}")
    else:
        return _bad_call(f"arguments is {_kind(arguments)}, neither an object nor JSON text", field)
    if isinstance(written, Rejection):
        return written
    quoted = json.dumps(name, ensure_ascii=False)
    return Written(f'{{"name":{quoted},"arguments":{written.text}}}', written.remarks)


def _from_text(arguments: str, field: str) -> Written | Rejection:
    if not arguments.strip():
        return Written("{}")
    try:
        parsed = orjson.loads(arguments)
    except orjson.JSONDecodeError as error:
        return _bad_call(f"arguments is not JSON: {error.msg} (column {error.colno})", field)
    if type(parsed) is not dict:
        return _bad_call(f"arguments is {_kind(parsed)}, not an object", field)
    written = _from_object(parsed, field)
    if isinstance(written, Written) and _LONG_NUMBER.search(arguments):
        # Python's own parser keeps integers of any length.
        exact = json.dumps(json.loads(arguments), ensure_ascii=False, separators=(",", ":"))
        return Written(exact, tuple(remark for remark in written.remarks if remark.code != "NUMBER_INEXACT"))
    return written


def _from_object(arguments: dict[str, Any], field: str) -> Written | Rejection:
    try:
        data = orjson.dumps(arguments, option=orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError as error:
        return _bad_call(f"arguments has a value that JSON does not know: {error}", field)
    remarks: tuple[Remark, ...] = ()
    if any(value is None for value in arguments.values()):
        message = "arguments has null values; a file that went through Arrow has them where other calls have a key"
        remarks += (Remark("ARGUMENT_NULL", message, "store arguments as JSON text, or leave those keys out", field),)
    if _LARGE_FLOAT.search(data):
        message = "arguments has a number that is too large to be kept exactly"
        remarks += (Remark("NUMBER_INEXACT", message, "write it as a text", field),)
    return Written(data.decode("utf-8"), remarks)


def _bad_call(message: str, field: str) -> Rejection:
    return Rejection("TOOL_CALL_INVALID", message, 'write {"name": ..., "arguments": {...}}', field)


def _kind(value: object) -> str:
    return kind_name(value)


_KINDS = {str: "a text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}


def kind_name(value: object) -> str:
    """What JSON calls the value, for messages."""
    if value is None:
        return "null"
    return _KINDS.get(type(value), f"a value of type {type(value).__name__}")
