"""guide: the prefill guide of the Trainer specification: what is set, by whom, and what a person still has to give."""

from __future__ import annotations

from typing import Any

from loopai_trainer.operations import sources
from loopai_trainer.operations.answer import Answer


def guide(request: sources.Request, task_type: str | None = None) -> Answer:
    """The guide as an answer; `data["ready"]` says whether prepare has all it needs."""
    data = prefill(request, task_type)
    message = "ready to prepare" if data["ready"] else "missing: " + ", ".join(data["missing_fields"])
    return Answer("guide", data, status="ready" if data["ready"] else "incomplete", message=message)


def prefill(request: sources.Request, task_type: str | None = None) -> dict[str, Any]:
    """The specification's guide: ready, missing_fields, user_required_fields, auto_filled_fields, field_hints, ...

    `settings` (ours) maps each name to its value and origin.
    """
    resolved = sources.resolve(request)
    settings = resolved.settings
    missing = [f for f in resolved.fields if f.required and settings.values.get(f.name) in (None, "")]
    filled = [f for f in resolved.fields if settings.origin(f.name) == "default" and f.default is not None]
    names = [field.name for field in missing]
    return {
        "task_type": task_type or settings.text("train_stage"),
        "ready": not missing,
        "missing_fields": names,
        "user_required_fields": names,
        "auto_filled_fields": [field.name for field in filled],
        "field_hints": {
            field.name: {"help": field.help, "flag": field.flag, "environment": list(field.env)}
            for field in resolved.fields
        },
        "defaults": {field.name: field.default for field in resolved.fields if field.default is not None},
        "settings": {
            field.name: {"value": settings.values.get(field.name), "origin": settings.origin(field.name)}
            for field in resolved.fields
        },
        "examples": ["trainer prepare --dataset data.jsonl --model DIR --task-description 'SFT a chat assistant'"],
        "message": "Give the missing fields, then prepare." if missing else "All required fields are set.",
    }
