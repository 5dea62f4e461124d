"""Reads the chat templates of the installed LLaMA-Factory from its source, without importing it.

Source: llamafactory/data/template.py `register_template` and data/formatter.py, 0.9.5; read by the syntax tree.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from loopai_trainer.records import Versions

SlotKind = Literal["text", "token", "special"]


class Slot(NamedTuple):
    """A piece of a turn: `text` with `{{content}}`, a `token` by name, or a `special` one: bos_token, eos_token."""

    kind: SlotKind
    text: str


Slots = tuple[Slot, ...]


class ChatTemplate(NamedTuple):
    """How LLaMA-Factory writes a chat down. `kind` is the class that does it, `*_format` name ways to write tools.

    `takes_media`: it is for models with images, sound or video, and LLaMA-Factory wants such a model's processor.
    """

    name: str
    user: Slots
    assistant: Slots
    system: Slots
    function: Slots
    observation: Slots
    prefix: Slots
    tools_format: str
    function_format: str
    default_system: str
    stop_words: tuple[str, ...]
    thought_words: tuple[str, str]
    efficient_eos: bool
    replace_eos: bool
    takes_media: bool
    kind: str


KINDS = ("Template", "Llama2Template", "ReasoningTemplate", "Glm47ReasoningTemplate")
"""The classes of 0.9.5 that rendering.py follows."""

PLAIN: Slots = (Slot("text", "{{content}}"),)
PLAIN_WITH_END: Slots = (*PLAIN, Slot("special", "eos_token"))
"""What is written where a template says nothing of its own."""


def read_templates(versions: Versions) -> Mapping[str, ChatTemplate | None]:
    """Every template by name, None if its definition is of a form that is not known; empty if there is no source."""
    return _read(os.path.join(versions.package_dir, "data", "template.py"))


def read_tool_formats(versions: Versions) -> tuple[str, ...]:
    """Names of the ways to write tools (`TOOLS` in data/tool_utils.py); empty if there is no source."""
    return _keys_of(os.path.join(versions.package_dir, "data", "tool_utils.py"), "TOOLS")


def read_tool_prompts(versions: Versions) -> Mapping[str, str]:
    """The texts that introduce a list of tools, by the name of their constant in data/tool_utils.py."""
    return _constants(os.path.join(versions.package_dir, "data", "tool_utils.py"))


@lru_cache(maxsize=4)
def _keys_of(path: str, constant: str) -> tuple[str, ...]:
    for node in _statements(path):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Dict)
            and ast.unparse(node.targets[0]) == constant
        ):
            return tuple(
                key.value for key in node.value.keys if isinstance(key, ast.Constant) and type(key.value) is str
            )
    return ()


@lru_cache(maxsize=4)
def _read(path: str) -> Mapping[str, ChatTemplate | None]:
    found: dict[str, ChatTemplate | None] = {}
    for node in _statements(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _name(node.value) == "register_template":
            keywords = {keyword.arg: keyword.value for keyword in node.value.keywords if keyword.arg}
            try:
                name = str(ast.literal_eval(keywords["name"]))
            except (KeyError, ValueError):
                continue
            found[name] = _template(name, keywords)
    return found


@lru_cache(maxsize=4)
def _constants(path: str) -> Mapping[str, str]:
    found = {}
    for node in _statements(path):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                value = ast.literal_eval(node.value)
            except ValueError:
                continue
            if isinstance(value, str):
                found[node.targets[0].id] = value
    return found


def _statements(path: str) -> list[ast.stmt]:
    try:
        with open(path, encoding="utf-8") as file:
            return ast.parse(file.read(), path).body
    except (OSError, SyntaxError, ValueError):
        return []


def _template(name: str, keywords: Mapping[str, ast.expr]) -> ChatTemplate | None:
    """The definition with register_template's own defaults filled in."""
    try:
        efficient_eos = bool(_literal(keywords, "efficient_eos", False))
        user = _slots(keywords.get("format_user")) or PLAIN
        assistant = _slots(keywords.get("format_assistant")) or (PLAIN if efficient_eos else PLAIN_WITH_END)
        thoughts = _literal(keywords, "thought_words", None) or ("<think>\n", "\n</think>\n\n")
        return ChatTemplate(
            name,
            user=user,
            assistant=assistant,
            system=_slots(keywords.get("format_system")) or PLAIN,
            function=_slots(keywords.get("format_function")) or assistant,
            observation=_slots(keywords.get("format_observation")) or user,
            prefix=_slots(keywords.get("format_prefix")),
            tools_format=_tool_format(keywords.get("format_tools")),
            function_format=_tool_format(keywords.get("format_function")),
            default_system=str(_literal(keywords, "default_system", "")),
            stop_words=tuple(_literal(keywords, "stop_words", None) or ()),
            thought_words=(thoughts[0], thoughts[1]),
            efficient_eos=efficient_eos,
            replace_eos=bool(_literal(keywords, "replace_eos", False)),
            takes_media="mm_plugin" in keywords,
            kind=_class_name(keywords.get("template_class")),
        )
    except (ValueError, TypeError, IndexError):
        return None


def _literal(keywords: Mapping[str, ast.expr], name: str, default: Any) -> Any:
    return ast.literal_eval(keywords[name]) if name in keywords else default


def _class_name(node: ast.expr | None) -> str:
    return "Template" if node is None else ast.unparse(node)


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _argument(call: ast.expr | None, name: str) -> ast.expr | None:
    if call is None:
        return None
    if not isinstance(call, ast.Call) or not _name(call).endswith("Formatter"):
        raise ValueError("not a formatter")
    if name == "slots" and call.args:
        return call.args[0]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _tool_format(call: ast.expr | None) -> str:
    """The format's name; `other` for a way to write tools that has no name."""
    if isinstance(call, ast.Call) and _name(call) == "StringFormatter":
        return "other"
    value = _argument(call, "tool_format")
    return "default" if value is None else str(ast.literal_eval(value))


def _slots(call: ast.expr | None) -> Slots:
    value = _argument(call, "slots")
    return () if value is None else tuple(_each_slot(ast.literal_eval(value)))


def _each_slot(values: Any) -> Iterator[Slot]:
    for value in [values] if isinstance(values, str) else values:
        if isinstance(value, str):
            yield Slot("text", value)
        elif isinstance(value, dict) and set(value) == {"token"}:
            yield Slot("token", value["token"])
        elif isinstance(value, set):
            # phi_small's set names neither: LLaMA-Factory then writes nothing.
            yield from (Slot("special", name) for name in ("bos_token", "eos_token") if name in value)
        else:
            raise ValueError(f"a slot of a form that is not known: {value!r}")
