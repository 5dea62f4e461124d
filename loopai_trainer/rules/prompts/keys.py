"""64-bit keys of prompts, by which repeats, overlaps and the split are found; the same for every source format."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise

from xxhash import xxh3_64_intdigest

from loopai_trainer.rules.rows.folding import fold_all

SHORT_DIGITS = 17
"""A ground truth of at most so many digits is its own key: it fits into 64 bits together with its length."""
LENGTHS = 32
"""More than such a ground truth has digits."""


class TextKeys:
    """Keys of the texts that `single_texts` and `joined_texts` make: XXH3 of a text's UTF-8, seeded, 64 bits.

    They are the same on every machine and with every version of the library (decision 80). Two different prompts of
    ten million get the same key with a probability of about 3e-6.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed % 2**64

    def __call__(self, texts: Iterable[str]) -> array[int]:
        """The key of each text."""
        seed = self._seed
        return array("Q", [xxh3_64_intdigest(text.encode(), seed) for text in texts])

    def of_pieces(self, data: memoryview, ends: Iterable[int]) -> array[int]:
        """The same of texts as UTF-8 that lie one after the other in `data`; `ends`: 0, and where each one ends."""
        seed = self._seed
        return array("Q", [xxh3_64_intdigest(data[start:end], seed) for start, end in pairwise(ends)])


def single_texts(contents: list[str]) -> list[str]:
    """What stands for prompts of one user turn each: their texts as they compare (NFKC, blanks folded)."""
    return fold_all(contents)


def joined_texts(prompts: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
    """What stands for prompts of (role, content) turns, those of a single user turn among them."""
    folded = iter(fold_all([content for turns in prompts for _, content in turns]))
    result: list[str] = []
    for turns in prompts:
        if len(turns) == 1 and turns[0][0] == "user":
            result.append(next(folded))
        else:
            # NUL at the start keeps it apart from a single turn's text.
            result.append("\0" + "\0".join([part for role, _ in turns for part in (role, next(folded))]))
    return result


def answer_keys(truths: Iterable[object]) -> array[int]:
    """Keys of ground truths, by which contradictions are found; they hold for this process."""
    return array("q", [_text_key(truth) if type(truth) is str else hash(repr(truth)) for truth in truths])


def _text_key(text: str) -> int:
    # Its length too, for "07" is not "7".
    if len(text) <= SHORT_DIGITS and text.isascii() and text.isdecimal():
        return int(text) * LENGTHS + len(text)
    return hash(text)
