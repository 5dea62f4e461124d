"""Texts as they compare: what a reader does not see, or sees as the same, does not make them differ."""

from __future__ import annotations

import re
import unicodedata
from itertools import compress

from loopai_trainer.rules.rows.text_marks import FORMAT_CHARACTERS

_FULL_WIDTH = (
    ("，", ","),
    ("：", ":"),
    ("？", "?"),
    ("！", "!"),
    ("（", "("),
    ("）", ")"),
    ("；", ";"),
    ("\u3000", " "),
)
"""What keeps nearly all Chinese text from being NFKC already, the most usual first: NFKC costs 20 times more."""
_OTHER_WIDTH = (
    ("…", "..."),
    ("％", "%"),
    ("～", "~"),
)
_OTHER_BLANKS = "\t\r\v\f\x1c\x1d\x1e\x1f"
"""The blanks of ASCII beside space and line feed."""
_FORMAT = re.compile(f"[{FORMAT_CHARACTERS}]")
_TOGETHER = 64


def fold(text: str) -> str:
    """`text` as it compares: NFKC, without format characters, each run of blanks one space, none at the ends."""
    text = text.replace("\n", " ")
    if text.isascii():
        return " ".join(text.split()) if _other_blanks(text) else _no_runs(text)
    text = _normalised(text)
    # isprintable is a quick look: it is False if there is a blank that is no space, or a format character.
    if text.isprintable():
        return _no_runs(text)
    return " ".join(_FORMAT.sub("", " ".join(text.split())).split())


def fold_all(texts: list[str]) -> list[str]:
    """`fold` of each, most of it done at once for all of them."""
    flags = list(map(str.isascii, texts))
    if all(flags):
        return _fold_ascii(texts)
    ascii_texts = iter(_fold_ascii(list(compress(texts, flags))))
    others = iter(_fold_others([text for text in texts if not text.isascii()]))
    return [next(ascii_texts) if flag else next(others) for flag in flags]


def _fold_ascii(texts: list[str]) -> list[str]:
    # Joined by NUL, which is no blank, so that no run of blanks reaches from one text into the next.
    joined = "\0".join(texts)
    text = joined.replace("\n", " ")
    for blank in _other_blanks(text):
        text = text.replace(blank, " ")
    text = _no_runs_between(text)
    return texts if text == joined else _apart(text, texts)


def _apart(folded: str, texts: list[str]) -> list[str]:
    parts = folded.split("\0")
    return parts if len(parts) == len(texts) else list(map(fold, texts))  # a text holds NUL itself; or there is none


def _fold_others(texts: list[str]) -> list[str]:
    """Of texts that are not ASCII; some at a time, so that an unusual one does not make all the rest costly."""
    folded: list[str] = []
    for start in range(0, len(texts), _TOGETHER):
        some = texts[start : start + _TOGETHER]
        text = _usual("\0".join(some).replace("\n", " "))
        folded += map(fold, some) if text is None else _apart(_no_runs_between(text), some)
    return folded


def _usual(text: str) -> str | None:
    """The joined texts normalised, if that takes no more than usual and nothing in them is unseen."""
    for pairs in (_FULL_WIDTH, _OTHER_WIDTH):
        if unicodedata.is_normalized("NFKC", text):
            break
        for wide, narrow in pairs:
            text = text.replace(wide, narrow)
    else:
        if not unicodedata.is_normalized("NFKC", text):
            return None
    return text if text.replace("\0", " ").isprintable() else None


def _no_runs_between(text: str) -> str:
    """Texts joined by NUL, whose only blanks are spaces: none of them twice in a row, none at an end of a text."""
    # Between spaces instead of NULs, a blank at a text's end makes two of them; so does a text that is empty.
    shown = text.replace("\0", " ")
    if "  " not in shown and shown[:1] != " " and shown[-1:] != " ":
        return text
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace(" \0", "\0").replace("\0 ", "\0").strip(" ")


def _no_runs(text: str) -> str:
    return text if "  " not in text and text[:1] != " " and text[-1:] != " " else " ".join(text.split())


def _normalised(text: str) -> str:
    if unicodedata.is_normalized("NFKC", text):
        return text
    for wide, narrow in (*_FULL_WIDTH, *_OTHER_WIDTH):
        if wide in text:
            text = text.replace(wide, narrow)
            if unicodedata.is_normalized("NFKC", text):
                return text
    return unicodedata.normalize("NFKC", text)


def _other_blanks(text: str) -> list[str]:
    # To look for each by itself is three times as fast as to split and join.
    return [blank for blank in _OTHER_BLANKS if blank in text]
