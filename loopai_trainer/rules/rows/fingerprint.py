"""64-bit fingerprints of a row's prompt and answer, by which repeats, leaks and the split are found."""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, pairwise

from loopai_trainer.records import Row
from loopai_trainer.rules.rows.columns import PLAIN_ROLES, Columns, columns_of
from loopai_trainer.rules.rows.folding import fold, fold_all

__all__ = ["Fingerprinter", "Fingerprints", "fingerprinter", "fold"]

Fingerprints = tuple[int, int]
"""(prompt, answer): of system, tools and all turns but the last, folded; and of the last turn as it is.

The prompt's is unsigned and, if it is seeded, the same on every machine; the answer's is signed and holds for this
process only.
"""

_FIRST_8 = struct.Struct(">Q")


def fingerprinter(seed: int | None) -> Fingerprinter:
    """What makes fingerprints of rows, the prompt's seeded by `seed`.

    None: no split will be made by the prompt's fingerprint, which then holds for this process only too, and costs less.
    Two different prompts of ten million get the same one with a probability of about 3e-6.
    """
    return Fingerprinter(seed)


class Fingerprinter:
    """See `fingerprinter`. Many rows at once cost a fraction of what they cost one by one."""

    def __init__(self, seed: int | None) -> None:
        self._start = None if seed is None else f"{seed}\0"

    def __call__(self, row: Row) -> Fingerprints:
        """(prompt, answer) of one row."""
        (prompt,), (answer,) = self.of(columns_of([row]))
        return prompt, answer

    def of(self, rows: Columns) -> tuple[array[int], array[int]]:
        """(prompts, answers) of all rows, in order."""
        prompts = _own(rows) if self._start is None else array("Q", map(_sha256_hash, _prompts(rows, self._start)))
        # Answers are only held against each other within one process: there Python's own hash is by far the fastest.
        if rows.plain and rows.single:
            return prompts, array("q", map(hash, rows.contents[1::2]))
        last = [end - 1 for end in accumulate(rows.turns)]
        ends = [(rows.roles[index], rows.contents[index]) for index in last]
        return prompts, array("q", [hash(text) if role == "assistant" else hash((role, text)) for role, text in ends])


def _own(rows: Columns) -> array[int]:
    """By Python's own hash, keyed anew for each process: of a plain prompt's texts, or of all there is."""
    hashes: Iterable[int]
    if rows.plain and rows.single:
        hashes = map(hash, zip(_questions(rows)))  # tuples of one
    elif rows.plain:
        hashes = map(hash, _folded(rows))
    else:
        hashes = [
            hash(texts if _usual(system, tools, roles) else (system, tools, tuple(roles), texts))
            for system, tools, roles, texts in _parts(rows)
        ]
    return array("Q", array("q", hashes).tobytes())


def _usual(system: str, tools: str, roles: list[str]) -> bool:
    return not system and not tools and roles == (PLAIN_ROLES * len(roles))[: len(roles)]


def _prompts(rows: Columns, start: str) -> Iterator[str]:
    # NUL is no blank, so that folding a part never reaches over to the next one.
    if rows.plain and rows.single:
        head = f"{start}\0\0{PLAIN_ROLES[0]}\0"
        yield from (head + text for text in _questions(rows))
        return
    for system, tools, roles, texts in _parts(rows):
        turns = chain.from_iterable(zip(roles, texts, strict=True))
        yield "\0".join((f"{start}{system}", tools, *turns))


def _parts(rows: Columns) -> Iterator[tuple[str, str, list[str], tuple[str, ...]]]:
    """(system, tools, roles, contents) of each row without its last turn; system and contents folded."""
    # Hardly any file has more than a few systems.
    known = {system: fold(system) for system in set(rows.systems)}
    systems = map(known.__getitem__, rows.systems)
    return zip(systems, rows.tools, _without_last(rows.roles, rows.turns), _folded(rows), strict=True)


def _questions(rows: Columns) -> list[str]:
    return fold_all(rows.contents[::2])


def _folded(rows: Columns) -> Iterator[tuple[str, ...]]:
    """The texts of each row's turns but the last, folded."""
    texts = tuple(fold_all(list(chain.from_iterable(_without_last(rows.contents, rows.turns)))))
    ends = accumulate([count - 1 for count in rows.turns], initial=0)
    return (texts[start:end] for start, end in pairwise(ends))


def _without_last(values: list[str], turns: list[int]) -> Iterator[list[str]]:
    return (values[start : end - 1] for start, end in pairwise(accumulate(turns, initial=0)))


def _sha256_hash(text: str) -> int:
    return int(_FIRST_8.unpack_from(hashlib.sha256(text.encode()).digest())[0])
