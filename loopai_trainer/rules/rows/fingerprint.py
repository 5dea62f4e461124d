"""64-bit fingerprints of a row's prompt and answer, by which repeats, leaks and the split are found."""

from __future__ import annotations

import hashlib
import re
import struct
import unicodedata
from collections.abc import Callable
from itertools import chain

from loopai_trainer.records import Row
from loopai_trainer.rules.rows.text_marks import FORMAT_CHARACTERS

Fingerprints = tuple[int, int]
"""(prompt, answer): of system, tools and all turns but the last, folded; and of the last turn as it is.

The prompt's is unsigned and, if it is seeded, the same on every machine; the answer's is signed and holds for this
process only.
"""

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
_LONG = 120
"""Characters from which on a search for each blank by itself is quicker than isprintable."""
_FIRST_8 = struct.Struct(">Q")
_FORMAT = re.compile(f"[{FORMAT_CHARACTERS}]")


def fold(text: str) -> str:
    """`text` as it compares: NFKC, without format characters, each run of blanks one space, none at the ends."""
    if text.isascii():
        if "\n" in text:
            text = text.replace("\n", " ")
        folded = _no_other_blanks(text) and "  " not in text and text[:1] != " " and text[-1:] != " "
        return text if folded else " ".join(text.split())
    text = _normalised(text.replace("\n", " "))
    # isprintable is a quick look: it is False if there is a blank that is no space, or a format character.
    if text.isprintable():
        return text if "  " not in text and text[:1] != " " and text[-1:] != " " else " ".join(text.split())
    return " ".join(_FORMAT.sub("", " ".join(text.split())).split())


def _normalised(text: str) -> str:
    if unicodedata.is_normalized("NFKC", text):
        return text
    for wide, narrow in _FULL_WIDTH:
        if wide in text:
            text = text.replace(wide, narrow)
            if unicodedata.is_normalized("NFKC", text):
                return text
    return unicodedata.normalize("NFKC", text)


def _no_other_blanks(text: str) -> bool:
    # Than the space, for ASCII alone. To look for each by itself is three times as fast as to split and join.
    if "\t" in text or "\r" in text or "\v" in text or "\f" in text:
        return False
    return not ("\x1c" in text or "\x1d" in text or "\x1e" in text or "\x1f" in text)


def fingerprinter(seed: int | None) -> Callable[[Row], Fingerprints]:
    """A function from a row to its fingerprints, the prompt's seeded by `seed`.

    None: no split will be made by the prompt's fingerprint, which then holds for this process only too, and costs less.
    Two different prompts of ten million get the same one with a probability of about 3e-6.
    """
    start = "" if seed is None else str(seed)
    plain = f"{start}\0\0\0"
    prompt_hash = _own_hash if seed is None else _sha256_hash

    def fingerprints(row: Row) -> Fingerprints:
        messages, system, tools, _ = row
        # NUL is no blank, so that folding a part never reaches over to the next one.
        head = plain if not system and not tools else f"{start}\0{fold(system)}\0{tools}\0"
        turns = messages[:-1]
        joined = "\0".join(turns[0]) if len(turns) == 1 else "\0".join(chain.from_iterable(turns))
        text = _folded_at_once(joined)
        if text is None:
            text = "\0".join([part for role, content in turns for part in (role, fold(content))])
        role, content = messages[-1]
        # Answers are only held against each other within one process: there Python's own hash is by far the fastest.
        return prompt_hash(head + text), hash(content) if role == "assistant" else hash((role, content))

    return fingerprints


def _own_hash(text: str) -> int:
    return hash(text) & 0xFFFF_FFFF_FFFF_FFFF


def _sha256_hash(text: str) -> int:
    return int(_FIRST_8.unpack_from(hashlib.sha256(text.encode()).digest())[0])


def _folded_at_once(joined: str) -> str | None:
    """Roles and texts, joined by NUL, with each text folded, if a quick look shows that little is to be done."""
    text = joined.replace("\n", " ")
    if not text.isascii():
        text = _normalised(text)
    # Between spaces instead of NULs, a blank at a text's end makes two of them; so does a text that is empty.
    shown = text.replace("\0", " ")
    if "  " in shown or shown[-1:] == " ":
        return None
    # Both see a blank that is no space; isprintable also format characters, and looks at each character.
    plain = _no_other_blanks(shown) if len(shown) > _LONG and shown.isascii() else shown.isprintable()
    return text if plain else None
