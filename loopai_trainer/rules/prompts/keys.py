"""64-bit keys of prompts, by which repeats, overlaps and the split are found; the same for every source format."""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Callable, Iterable, Sequence

from loopai_trainer.rules.rows.folding import fold_all

TextKeys = Callable[[Iterable[str]], "array[int]"]
"""Folded texts -> their unsigned 64-bit keys."""

_FIRST_8 = struct.Struct(">Q")


def text_keys(seed: int | None) -> TextKeys:
    """Keys of the texts that `single_texts` and `joined_texts` make.

    With a seed they are the same on every machine; without one they hold for this process, and cost less. Two
    different prompts of ten million get the same key with a probability of about 3e-6.
    """
    if seed is None:
        return _own_keys
    start = f"{seed}\0".encode()

    def seeded(texts: Iterable[str]) -> array[int]:
        sha256, first_8 = hashlib.sha256, _FIRST_8.unpack_from
        return array("Q", [first_8(sha256(start + text.encode()).digest())[0] for text in texts])

    return seeded


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
    return array("q", [hash(truth) if type(truth) is str else hash(repr(truth)) for truth in truths])


def _own_keys(texts: Iterable[str]) -> array[int]:
    return array("Q", array("q", map(hash, texts)).tobytes())
