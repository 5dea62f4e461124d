"""Marks inside a text that a tokenizer or a template takes for more than text."""

from __future__ import annotations

import re

from loopai_trainer.records import Remark

_CONTROL = re.compile(
    r"<\|[^\s<>|]{1,40}\|>"  # ChatML, Llama 3, GLM, Phi: <|im_end|>, <|eot_id|>, <|user|>
    r"|<｜[^\s<>]{1,40}｜>"  # DeepSeek
    r"|</?s>|<(?:bos|eos|pad|unk|start_of_turn|end_of_turn)>"
)
_MEDIA = re.compile(r"<(?:image|video|audio)>")
_ANY = re.compile(f"{_CONTROL.pattern}|{_MEDIA.pattern}")


def has_mark(text: str) -> bool:
    """Whether `marks_in` has something to say of `text`."""
    return "<" in text and _ANY.search(text) is not None


def marks_in(text: str, field: str) -> tuple[Remark, ...]:
    """Warnings about `text`, which holds a '<'. Source: LLaMA-Factory 0.9.5 tokenises content with special tokens on,

    so that they become real control tokens; mm_plugin.py replaces or counts `<image>` under a vision template.
    """
    remarks: tuple[Remark, ...] = ()
    control = _CONTROL.search(text)
    if control:
        remarks += (
            Remark(
                "SPECIAL_TOKEN",
                f"the text holds {control.group()}, which may be a control token of the model: it can end a turn or "
                "start a role in the middle of the text",
                "take it out, or make sure that the model's tokenizer does not know it",
                field,
            ),
        )
    media = _MEDIA.search(text)
    if media:
        remarks += (
            Remark(
                "MEDIA_PLACEHOLDER",
                f"the text holds {media.group()}, which stands for a picture, video or sound under a vision template",
                "fine with a text model; else take it out",
                field,
            ),
        )
    return remarks
