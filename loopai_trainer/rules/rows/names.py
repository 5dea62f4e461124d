"""Misspelt names: which known one was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LIKENESS = 0.8


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` most likely stands for: other case, or a letter or two off; None if there is none."""
    names = list(known)
    plain = _plain(name)
    for candidate in names:
        if plain == _plain(candidate):
            return candidate
    # A length that differs by more than one letter is rather another word ("story" is no "history").
    near = [candidate for candidate in names if abs(len(candidate) - len(name)) <= 1]
    matches = difflib.get_close_matches(name.lower(), near, n=1, cutoff=_LIKENESS)
    return matches[0] if matches else None


def _plain(name: str) -> str:
    return name.strip().casefold().replace("_", "").replace("-", "")
