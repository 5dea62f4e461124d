"""64-bit fingerprints of a row's prompt and answer, by which repeats, leaks and the split are found."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable

from loopai_trainer.records import Row

Fingerprints = tuple[int, int]
"""(prompt, answer): of system, tools and all turns but the last, folded; and of the last turn as it is.

The prompt's is unsigned and the same on every machine; the answer's is signed and holds for this process only.
"""

_FULL_WIDTH = ("，,", "：:", "？?", "！!", "；;", "（(", "）)", "\u3000 ")
"""What keeps nearly all Chinese text from being NFKC already; to normalise it as a whole costs 20 times more."""
_FORMAT = re.compile(
    "[\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064"
    "\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
"""Characters of Unicode's category Cf: they show nothing."""


def fold(text: str) -> str:
    """`text` as it compares: NFKC, without format characters, each run of blanks one space, none at the ends."""
    if text.isascii():
        return text if _is_folded(text) else " ".join(text.split())
    for pair in _FULL_WIDTH:
        text = text.replace(pair[0], pair[1])
    if not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", text)
    text = " ".join(text.split())
    # isprintable is a quick look: it is False if there is any format character.
    return text if text.isprintable() else " ".join(_FORMAT.sub("", text).split())


def _is_folded(text: str) -> bool:
    # For ASCII alone. To look for each blank by itself is three times as fast as to split and join.
    if "  " in text or "\n" in text or "\t" in text or "\r" in text or text[:1] == " " or text[-1:] == " ":
        return False
    return not ("\v" in text or "\f" in text or "\x1c" in text or "\x1d" in text or "\x1e" in text or "\x1f" in text)


def fingerprinter(seed: int) -> Callable[[Row], Fingerprints]:
    """A function from a row to its fingerprints, the prompt's seeded by `seed`.

    Two different prompts of ten million get the same one with a probability of about 3e-6.
    """
    start, sha256, number = str(seed), hashlib.sha256, int.from_bytes

    def fingerprints(row: Row) -> Fingerprints:
        messages, system = row.messages, row.system
        # NUL is no blank, so that folding a part never reaches over to the next one.
        parts = [start, fold(system) if system else system, row.tools]
        for role, content in messages[:-1]:
            parts += (role, fold(content))
        role, content = messages[-1]
        digest = sha256("\0".join(parts).encode()).digest()
        # Answers are only held against each other within one process: there Python's own hash is by far the fastest.
        return number(digest[:8], "big"), hash(content) if role == "assistant" else hash((role, content))

    return fingerprints
