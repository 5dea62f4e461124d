"""Measures rows in tokens as training will see them: model's tokenizer, chosen template, LLaMA-Factory's cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loopai_trainer.backends.llamafactory_sft import chat_template
from loopai_trainer.backends.llamafactory_sft.cutting import cut
from loopai_trainer.backends.llamafactory_sft.rendering import Pieces, Rendered, Rendering
from loopai_trainer.backends.llamafactory_sft.tokens import (
    LONGEST_TEXT,
    ModelTokenizer,
    TokenizerUnreadable,
    open_tokenizer,
)
from loopai_trainer.contract import RowMeter
from loopai_trainer.records import Plan, Problem, Row, RowLength, Versions

BATCH_CHARACTERS = 500_000
"""Given to the tokenizer at once: what bounds its memory, about 100 bytes a token."""


def row_meter(plan: Plan, versions: Versions) -> tuple[RowMeter | None, list[Problem]]:
    """See contract.Backend.row_meter."""
    native = plan.native
    cutoff = native.get("cutoff_len", 2048)
    if isinstance(cutoff, bool) or not isinstance(cutoff, int) or cutoff < 1:
        return None, []  # told as a wrong type already
    try:
        template = _known_template(str(native.get("template")), versions)
        tokenizer = open_tokenizer(str(native.get("model_name_or_path")))
    except TokenizerUnreadable as error:
        return None, [_unknown(str(error))]
    if template is None:
        return None, []  # told by check
    prepare_tokenizer(tokenizer, template, native)
    prompts = chat_template.read_tool_prompts(versions)
    rendering = Rendering(template, native, prompts, has_bos=bool(tokenizer.bos))
    end_tokens = 1 if template.efficient_eos else 0
    return _Meter(tokenizer, rendering, cutoff, end_tokens, last_first=native.get("mask_history") is True), []


def prepare_tokenizer(
    tokenizer: ModelTokenizer, template: chat_template.ChatTemplate, native: Mapping[str, Any]
) -> None:
    """What LLaMA-Factory adds to a tokenizer before it is used: the template's stop words, and what the YAML names."""
    tokenizer.add(template.stop_words)
    tokenizer.add(added_tokens(native))
    if native.get("split_special_tokens") is True:
        tokenizer.split_special_tokens()


def added_tokens(native: Mapping[str, Any]) -> list[str]:
    """Tokens that the YAML adds to the model's own."""
    found: list[str] = []
    for key in ("add_tokens", "add_special_tokens"):
        value = native.get(key)
        found += value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return [str(token).strip() for token in found]


class _Meter:
    """Rows -> lengths, in batches that bound the tokenizer's memory."""

    def __init__(
        self, tokenizer: ModelTokenizer, rendering: Rendering, cutoff: int, end_tokens: int, *, last_first: bool
    ) -> None:
        self._tokenizer = tokenizer
        self._rendering = rendering
        self._cutoff = cutoff
        self._end_tokens = end_tokens
        self._last_first = last_first

    def __call__(self, rows: Sequence[Row]) -> list[RowLength]:
        return [length for batch in self._batches(rows) for length in self._measure(batch)]

    def _batches(self, rows: Sequence[Row]) -> Iterator[list[Rendered]]:
        batch: list[Rendered] = []
        characters = 0
        for row in rows:
            chat = self._rendering.render(row)
            batch.append(chat)
            characters += sum(min(len(text), LONGEST_TEXT) for turn in chat.turns for text in turn.texts)
            if characters >= BATCH_CHARACTERS:
                yield batch
                batch, characters = [], 0
        if batch:
            yield batch

    def _measure(self, chats: Sequence[Rendered]) -> Iterator[RowLength]:
        texts = [text for chat in chats for turn in chat.turns for text in turn.texts]
        counts = iter(self._tokenizer.count(texts))
        for chat in chats:
            lengths = [turn.singles + sum(next(counts) for _ in turn.texts) for turn in chat.turns]
            pairs = list(zip(lengths[::2], lengths[1::2], strict=True))
            left = cut(pairs, self._cutoff, end_tokens=self._end_tokens, last_first=self._last_first)
            total = sum(lengths) + self._end_tokens
            lost = (left.prompt_lost, left.answer_lost, left.turns_lost)
            yield RowLength(total, left.kept, *lost, exact=chat.exact and not _has_long_text(chat.turns))


def _has_long_text(turns: Sequence[Pieces]) -> bool:
    return any(len(text) > LONGEST_TEXT for turn in turns for text in turn.texts)


def _known_template(name: str, versions: Versions) -> chat_template.ChatTemplate | None:
    """The template; None if there is none of that name. Raises TokenizerUnreadable if it cannot be followed."""
    templates = chat_template.read_templates(versions)
    if not templates:
        raise TokenizerUnreadable("the templates of the installed LLaMA-Factory cannot be read")
    template = templates.get(name)
    if name in templates and (template is None or template.kind not in chat_template.KINDS):
        raise TokenizerUnreadable(f"template {name} is defined in a way that is not known here")
    return template


def _unknown(reason: str) -> Problem:
    message = f"row lengths in tokens are not known, and rows that will be cut are not told: {reason}"
    hint = "look at the lengths in characters in the report; a model folder with a tokenizer.json would be measured"
    return Problem("warning", "LENGTHS_UNKNOWN", "model", message, hint, field="cutoff_len")
