"""64-bit keys of prompts, by which repeats, overlaps and the split are found; the same for every source format."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Protocol

from loopai_trainer.rules.rows.folding import fold_all


class TextKeys(Protocol):
    """Folded texts -> their unsigned 64-bit keys."""

    def __call__(self, texts: Iterable[str]) -> array[int]:
        """The key of each text."""

    def of_utf8(self, texts: Iterable[bytes | memoryview]) -> array[int]:
        """The same of texts as UTF-8."""


def text_keys(seed: int | None) -> TextKeys:
    """Keys of the texts that `single_texts` and `joined_texts` make.

    With a seed they are the same on every machine; without one they hold for this process, and cost less. Two
    different prompts of ten million get the same key with a probability of about 3e-6.
    """
    return _OwnKeys() if seed is None else _SeededKeys(seed)


class _SeededKeys:
    """The first eight bytes of the SHA-256 of seed, NUL and text."""

    def __init__(self, seed: int) -> None:
        # A copy costs half of what a new hash does with OpenSSL 3, which looks its algorithm up by name each time.
        self._copy = hashlib.sha256(f"{seed}\0".encode()).copy

    def __call__(self, texts: Iterable[str]) -> array[int]:
        return self.of_utf8(map(str.encode, texts))

    def of_utf8(self, texts: Iterable[bytes | memoryview]) -> array[int]:
        copy, digests = self._copy, []
        for text in texts:
            digest = copy()
            digest.update(text)
            digests.append(digest.digest())
        keys = array("Q", b"".join(digests))[::4]
        if sys.byteorder == "little":
            keys.byteswap()
        return keys


class _OwnKeys:
    """What Python itself hashes texts to."""

    def __call__(self, texts: Iterable[str]) -> array[int]:
        return array("Q", array("q", map(hash, texts)).tobytes())

    def of_utf8(self, texts: Iterable[bytes | memoryview]) -> array[int]:
        return self([str(text, "utf-8") for text in texts])


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
    found = list(truths)
    if set(map(type, found)) <= {str}:
        return array("q", map(hash, found))
    return array("q", [hash(truth) if type(truth) is str else hash(repr(truth)) for truth in found])
