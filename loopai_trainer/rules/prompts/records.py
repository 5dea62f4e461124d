"""Which keys of a source record hold what: the only place that knows the names."""

from __future__ import annotations

from typing import Any

TURNS = ("messages", "conversations")
QUESTIONS = ("question", "problem", "query", "prompt")
ANSWERS = ("ground_truth", "final_answer", "reference_answer", "answer", "golden_answers", "expected_answer")
"""Explicit reference answers, the most explicit first. Taken as they stand, unless they hold a marker of their own."""
VERBATIM = frozenset(("ground_truth", "final_answer", "reference_answer", "golden_answers", "expected_answer"))
"""Names that leave no doubt: a long text under them is an answer too."""
SOLUTIONS = ("solution", "response", "output", "completion", "rationale")
"""Texts that hold an answer only behind an explicit marker."""
SYSTEMS = ("system", "system_prompt")
CONTEXTS = ("context", "passage")
CHOICES = ("choices", "options")
MEDIA = ("images", "image", "videos", "video", "audios", "audio")
METADATA = ("dataset", "dataset_name", "benchmark", "benchmark_name", "task", "task_name", "source")
INSTRUCTION = "instruction"


def is_native(record: dict[str, Any]) -> bool:
    """Whether the record has verl's own columns."""
    return "prompt" in record and "reward_model" in record


def reference_of(record: dict[str, Any]) -> tuple[str, Any] | None:
    """(field, value) of the explicit reference answer; None if the record has none.

    verl's own `reward_model.ground_truth` is one too.
    """
    reward = record.get("reward_model")
    if isinstance(reward, dict) and reward.get("ground_truth") is not None:
        return "reward_model.ground_truth", reward["ground_truth"]
    return next(((name, record[name]) for name in ANSWERS if record.get(name) is not None), None)


def text_of(record: dict[str, Any], names: tuple[str, ...]) -> str:
    """The first of these fields that holds text that shows; empty if none does."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value and not value.isspace():
            return value
    return ""


def metadata_of(record: dict[str, Any]) -> list[str]:
    """Names that the record gives its data set, benchmark or task, lower case, none longer than a name is."""
    nested = record.get("metadata")
    places = [record, nested] if isinstance(nested, dict) else [record]
    values = [place.get(name) for place in places for name in METADATA]
    return [value.strip().lower() for value in values if isinstance(value, str) and 0 < len(value.strip()) <= 64]
