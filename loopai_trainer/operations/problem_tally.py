"""Problems as they come in by the million: all are counted, the first few of each code are kept."""

from __future__ import annotations

from collections import Counter

from loopai_trainer.records import Problem

KEPT_PER_CODE = 20
EXCERPT_CHARACTERS = 160


class ProblemTally:
    """Counts by code; `kept` in the order of arrival, `excerpts[i]` a shortened text that belongs to `kept[i]`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.kept: list[Problem] = []
        self.excerpts: list[str] = []
        self.errors = 0

    def add(self, problem: Problem, about: object = None) -> None:
        """Count a problem; `about` is the row (decoded, or its bytes) for the report."""
        self.counts[problem.code] += 1
        if problem.severity == "error":
            self.errors += 1
        if self.counts[problem.code] <= KEPT_PER_CODE:
            self.kept.append(problem)
            self.excerpts.append(_excerpt(about))

    def count_more(self, code: str, count: int, *, errors: bool = False) -> None:
        """Count problems of which nothing but the number is wanted."""
        if count:
            self.counts[code] += count
        if errors:
            self.errors += count


def _excerpt(about: object) -> str:
    if about is None:
        return ""
    raw = about[: EXCERPT_CHARACTERS * 4] if isinstance(about, bytes) else None
    text = _short_repr(about) if raw is None else raw.decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(text.split()))
    return text if len(text) <= EXCERPT_CHARACTERS else text[:EXCERPT_CHARACTERS] + "..."


def _short_repr(value: object, depth: int = 4) -> str:
    """Like repr, but it neither descends far nor writes out long texts."""
    if isinstance(value, str):
        return repr(value[:EXCERPT_CHARACTERS])
    if depth == 0 and isinstance(value, (dict, list)):
        return "..."
    if isinstance(value, dict):
        items = list(value.items())[:8]
        return "{" + ", ".join(f"{key!s:.40}: {_short_repr(item, depth - 1)}" for key, item in items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_short_repr(item, depth - 1) for item in value[:8]) + "]"
    return repr(value)[:EXCERPT_CHARACTERS]
