"""Whether the chosen template is one for this model: its tokens, and the model's own chat template.

LLaMA-Factory adds tokens that a tokenizer lacks with no more than a line in the log; without resize_vocab their ids lie
outside of what was trained, and a model that is served with its own chat template never sees what it was taught.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.llamafactory_sft import chat_template
from loopai_trainer.backends.llamafactory_sft.chat_template import ChatTemplate
from loopai_trainer.backends.llamafactory_sft.lengths import added_tokens
from loopai_trainer.backends.llamafactory_sft.tokens import ModelTokenizer, TokenizerUnreadable, open_tokenizer
from loopai_trainer.records import Problem, Severity, Versions

_MARK = re.compile(r"<[|｜][^\s<>|｜]+[|｜]>")
"""What control tokens look like in most families: <|im_start|>, <｜User｜>."""

PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json")
"""LLaMA-Factory 0.9.5 stops with "Processor was not found" if transformers makes none of a folder."""

PREFERRED = (
    "qwen", "llama3", "gemma", "deepseek3", "glm4", "mistral", "phi4", "yi", "llama4", "granite3", "cohere", "chatml",
)  # fmt: skip
"""Suggested first among templates whose tokens a model has: the text templates of widespread families."""


def fit_problems(
    native: Mapping[str, Any], model_config: Mapping[str, Any], versions: Versions, *, allowed: bool
) -> list[Problem]:
    """An unknown template, tokens that the model lacks, a chat template of another family. Nothing if unknown.

    `allowed`: a person accepts a template that does not fit; then it is a warning.
    """
    return [*_tool_format(native, versions), *_template_problems(native, model_config, versions, allowed=allowed)]


def _tool_format(native: Mapping[str, Any], versions: Versions) -> Iterator[Problem]:
    known, name = chat_template.read_tool_formats(versions), native.get("tool_format")
    if known and name is not None and name not in known:
        message = f"LLaMA-Factory has no tool_format {name!r}"
        close = difflib.get_close_matches(str(name), known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"use one of {', '.join(known)}, or remove it"
        yield Problem("error", "TOOL_FORMAT_UNKNOWN", "config", message, hint, field="tool_format")


def _template_problems(
    native: Mapping[str, Any], model_config: Mapping[str, Any], versions: Versions, *, allowed: bool
) -> list[Problem]:
    folder = str(native.get("model_name_or_path"))
    templates = chat_template.read_templates(versions)
    name = native.get("template")
    if not templates or not isinstance(name, str):
        return []
    if name not in templates:
        return [_unknown(name, templates)]
    template = templates[name]
    try:
        tokenizer = open_tokenizer(folder)
    except TokenizerUnreadable:
        return []  # told with the lengths, which need it too
    if template is None:
        return []
    has_processor = any(os.path.isfile(os.path.join(folder, name)) for name in PROCESSOR_FILES)
    known = {k: found for k, found in templates.items() if found and (has_processor or not found.takes_media)}
    suggestion = _suggestion(known, tokenizer, str(model_config.get("model_type", "")))
    found = list(_judge(template, native, tokenizer, suggestion, allowed=allowed))
    if template.takes_media and not has_processor:
        message = f"template {name} is for models with images, sound or video, and the model has no processor for them"
        severity: Severity = "warning" if allowed else "error"
        found.append(_problem(severity, message, suggestion, "TEMPLATE_NEEDS_PROCESSOR"))
    return found


def needed_tokens(template: ChatTemplate) -> list[str]:
    """Tokens without which the template is only text: those of its turns, and the end token that it sets."""
    slots = (*template.prefix, *template.system, *template.user, *template.assistant)
    texts = [slot.text for slot in slots if slot.kind == "text"]
    found = [mark for text in texts for mark in _MARK.findall(text)]
    found += [slot.text for slot in slots if slot.kind == "token"]
    found += [word for word in template.stop_words if any(word in text for text in texts)]
    found += template.stop_words[:1] if template.replace_eos else ()
    return list(dict.fromkeys(found))


def _judge(
    template: ChatTemplate, native: Mapping[str, Any], tokenizer: ModelTokenizer, suggestion: str, *, allowed: bool
) -> Iterator[Problem]:
    needed, own = needed_tokens(template), tokenizer.chat_template
    resized = added_tokens(native) if native.get("resize_vocab") is True else []
    # A mark that is no stop word is not added as a token: with a chat template that writes it too, it is plain text.
    missing = [
        token
        for token in needed
        if not tokenizer.has(token) and token not in resized and (token in template.stop_words or token not in own)
    ]
    if missing:
        certain = bool(own) or any(token in template.stop_words for token in missing)
        severity: Severity = "error" if certain and not allowed else "warning"
        message = (
            f"template {template.name} needs {', '.join(missing)}, which the model's tokenizer does not have"
            + (f" (its own chat template writes {', '.join(_marks(own, tokenizer))})" if _marks(own, tokenizer) else "")
            + ": training would succeed, and the model would neither stop nor answer in its own format"
        )
        yield _problem(severity, message, suggestion)
    elif _marks(own, tokenizer) and not any(token in own for token in needed):
        message = (
            f"template {template.name} writes none of the tokens of the model's own chat template "
            f"({', '.join(_marks(own, tokenizer))}): served with that one, the model would not see what it was taught"
        )
        yield _problem("warning", message, suggestion)


def _marks(own: str, tokenizer: ModelTokenizer) -> list[str]:
    """The first few control tokens that the model's own chat template writes."""
    return [mark for mark in dict.fromkeys(_MARK.findall(own)) if tokenizer.has(mark)][:4]


def _suggestion(templates: Mapping[str, ChatTemplate], tokenizer: ModelTokenizer, model_type: str) -> str:
    """Templates all of whose tokens the model has; those that its own chat template uses, if it has one, first."""
    fitting = [
        name
        for name, template in templates.items()
        if (needed := needed_tokens(template))
        and all(map(tokenizer.has, needed))
        and (not tokenizer.chat_template or any(token in tokenizer.chat_template for token in needed))
    ]
    named = [name for name in (model_type, model_type.rstrip("0123456789")) if name in fitting]
    usual = [name for name in PREFERRED if name in fitting]
    order = list(dict.fromkeys([*named, *usual, *fitting]))
    if not order:
        return "choose the template of the model's family"
    others = f" (or one of {', '.join(order[1:4])})" if order[1:] else ""
    return f"write template: {order[0]}{others}"


def _problem(severity: Severity, message: str, suggestion: str, code: str = "TEMPLATE_MISMATCH") -> Problem:
    hint = suggestion + "; if this is meant: --option allow_template_mismatch=true" * (severity == "error")
    return Problem(severity, code, "config", message, hint, field="template")


def _unknown(name: str, templates: Mapping[str, ChatTemplate | None]) -> Problem:
    close = difflib.get_close_matches(name, templates, n=1)
    hint = f"did you mean {close[0]}?" if close else "use one of LLaMA-Factory's templates, such as qwen or llama3"
    message = f"LLaMA-Factory has no template '{name}'"
    return Problem("error", "TEMPLATE_UNKNOWN", "config", message, hint, field="template")
