"""What a text shows: marks that a tokenizer or a template takes for more than text, or nothing at all."""

from __future__ import annotations

import re
from operator import itemgetter

from loopai_trainer.records import Remark

_CONTROL = re.compile(
    r"<\|[^\s<>|]{1,40}\|>"  # ChatML, Llama 3, GLM, Phi: <|im_end|>, <|eot_id|>, <|user|>
    r"|<｜[^\s<>]{1,40}｜>"  # DeepSeek
    r"|</?s>|<(?:bos|eos|pad|unk|start_of_turn|end_of_turn)>"
)
_MEDIA = re.compile(r"<(?:image|video|audio)>")
_ANY = re.compile(f"{_CONTROL.pattern}|{_MEDIA.pattern}")
FORMAT_CHARACTERS = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064"
    "\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
"""Characters of Unicode's category Cf, for a class of a pattern: they show nothing."""
_ALSO_UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u2065\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Joiners, fillers, the empty Braille cell and variation selectors. Source: Unicode's Default_Ignorable_Code_Point."""

is_blank = re.compile(rf"(?![0-~\u3400-\u9fff])[\s{FORMAT_CHARACTERS}{_ALSO_UNSEEN}]*+").fullmatch
"""A match if the text is empty or shows nothing. It stops at the first character that shows.

The usual first ones, ASCII and Chinese, are asked for ahead: the long class costs several times as much.
"""


_FIRST = itemgetter(0)
_NOT_SURELY_SHOWN = re.compile("[^!-~\u2010-\u2027\u3001-\u3029\u3400-\u9fff\uff01-\uff5e]")
"""ASCII, general punctuation, Chinese and its punctuation, and full-width forms always show."""


def nothing_to_say(texts: list[str]) -> bool:
    """Whether none of `texts` is blank or has a mark; most of it is asked of all at once."""
    try:
        firsts = "".join(map(_FIRST, texts))
    except IndexError:  # one is empty
        return False
    if any(is_blank(texts[found.start()]) for found in _NOT_SURELY_SHOWN.finditer(firsts)):
        return False
    return not any(map(_ANY.search, [text for text in texts if "<" in text]))


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
