"""Writes a chat down as LLaMA-Factory does, as the pieces that it gives to the tokenizer one by one.

Source: the template classes of data/template.py, 0.9.5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from loopai_trainer.backends.llamafactory_sft.chat_template import PLAIN, PLAIN_WITH_END, ChatTemplate, Slots
from loopai_trainer.backends.llamafactory_sft.tool_text import tool_calls, tool_list
from loopai_trainer.records import Row


class Pieces(NamedTuple):
    """One turn: texts that are tokenised each for itself, and the number of tokens that are put in by their id."""

    texts: list[str]
    singles: int


class Rendered(NamedTuple):
    """A chat's turns: question, answer, question, answer ...; `exact` is False if tools had to be estimated."""

    turns: list[Pieces]
    exact: bool


class Rendering:
    """One template under one configuration. `has_bos`: whether the tokenizer has a begin token."""

    def __init__(
        self, template: ChatTemplate, native: Mapping[str, Any], tool_prompts: Mapping[str, str], *, has_bos: bool
    ) -> None:
        self._template = _configured(template, native)
        self._prompts = tool_prompts
        self._has_bos = has_bos
        self._reasons = "Reasoning" in template.kind
        self._thinks = native.get("enable_thinking", True)
        self._forgets = native.get("mask_history") is True and native.get("preserve_thinking") is not True
        opening, closing = template.thought_words
        self._empty_thought = closing if template.kind == "Glm47ReasoningTemplate" else opening + closing
        self._thought = re.compile(f"{re.escape(opening)}(.*?){re.escape(closing)}", re.DOTALL)

    def render(self, row: Row) -> Rendered:
        """The pieces of a chat."""
        template = self._template
        messages: Sequence[tuple[str, str]] = row.messages
        if self._reasons:
            messages = self._without_thoughts(messages)
        system, exact = self._system(row)
        with_system = bool(system or row.tools)
        turns = []
        for number, (role, content) in enumerate(messages):
            if role == "function":
                content, known = tool_calls(template.function_format, content)
                exact = exact and known
            before: list[Pieces] = []
            if number == 0:
                before = [self._apply(template.prefix, "")]
                if with_system and template.kind == "Llama2Template":
                    content = "".join(self._apply(template.system, system).texts[:1]) + content
                elif with_system:
                    before.append(self._apply(template.system, system))
            turns.append(_joined([*before, self._apply(self._slots(role), content, self._number(role, number))]))
        if self._reasons:
            self._add_empty_thoughts(messages, turns)
        return Rendered(turns, exact)

    def _system(self, row: Row) -> tuple[str, bool]:
        system = row.system or self._template.default_system
        if not row.tools:
            return system, True
        text, exact = tool_list(self._template.tools_format, row.tools, self._prompts)
        return system + text, exact

    def _slots(self, role: str) -> Slots:
        template = self._template
        return {
            "user": template.user,
            "assistant": template.assistant,
            "tool": template.observation,
            "function": template.function,
        }[role]

    def _number(self, role: str, number: int) -> str | None:
        """What `{{idx}}` stands for in a question, its text included; elsewhere it stands for itself."""
        return str(number // 2) if role == "user" and self._template.kind != "Llama2Template" else None

    def _apply(self, slots: Slots, content: str, number: str | None = None) -> Pieces:
        texts: list[str] = []
        singles = 0
        for kind, text in slots:
            if kind == "text":
                text = text.replace("{{content}}", content, 1)
                texts.append(text if number is None else text.replace("{{idx}}", number, 1))
            elif kind == "token" or text == "eos_token" or self._has_bos:
                singles += 1
        return Pieces([text for text in texts if text], singles)

    def _without_thoughts(self, messages: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Thoughts are left out of all answers, or of all but the last."""
        last = len(messages) if self._thinks is False else len(messages) - 2 if self._forgets else 0
        return [
            (role, self._thought.sub("", content).lstrip("\n") if number % 2 and number < last else content)
            for number, (role, content) in enumerate(messages)
        ]

    def _add_empty_thoughts(self, messages: Sequence[tuple[str, str]], turns: list[Pieces]) -> None:
        """An answer without a thought gets an empty one: before it with thinking off, else as its start."""
        words = [word.strip() for word in self._template.thought_words]
        first = len(messages) - 2 if self._forgets else 0
        for number in range(first, len(messages), 2):
            _, answer = messages[number + 1]
            if not any(word in answer for word in words):
                turns[number + 1 if self._thinks else number].texts.append(self._empty_thought)


def _configured(template: ChatTemplate, native: Mapping[str, Any]) -> ChatTemplate:
    """With the configuration's own tool format and default system prompt."""
    if isinstance(form := native.get("tool_format"), str):
        slots = PLAIN if template.efficient_eos else PLAIN_WITH_END
        template = template._replace(function=slots, function_format=form, tools_format=form)
    if isinstance(system := native.get("default_system"), str):
        template = template._replace(default_system=system)
    return template


def _joined(parts: Sequence[Pieces]) -> Pieces:
    return Pieces([text for part in parts for text in part.texts], sum(part.singles for part in parts))
