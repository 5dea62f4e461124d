"""What stands beside the plan: plan.json (what it was made from) and config_explanation.txt (why, for people)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopai_trainer.operations.answer import problem_json
from loopai_trainer.operations.template_use import TemplateUse
from loopai_trainer.records import Plan, Problem, Settings, Versions


def record(
    settings: Settings,
    template: TemplateUse,
    plan: Plan,
    versions: Versions,
    warnings: Sequence[Problem],
    prepared_at: float,
    task_dir: str,
) -> dict[str, Any]:
    """The content of plan.json. `prepared_at`: seconds since the epoch."""
    return {
        "schema_version": 1,
        "task_id": plan.task_id,
        "version_id": plan.version_id,
        "task_dir": task_dir,
        "prepared_at": prepared_at,
        "inspected_at": None,
        "config_sha256": plan.sha256,
        "config_yaml": plan.text,
        "settings": {
            name: {"value": value, "origin": settings.origin(name)} for name, value in sorted(settings.values.items())
        },
        "template": {"path": template.path, "sha256": template.sha256},
        "validation_size": template.values.get("val_size"),
        "reserved": plan.loopai,
        "changes": [dict(change._asdict()) for change in template.changes],
        "notes": list(template.notes),
        "language_model": dict(template.asked) or None,
        "backend": {
            "package": versions.package,
            "version": versions.version,
            "python": versions.python,
            "distributions": dict(versions.distributions),
        },
        "inputs": plan.loopai["inputs"],
        "warnings": [problem_json(problem) for problem in warnings],
        "previous_round": None,
        "diff": None,
    }


def explanation(template: TemplateUse, plan: Plan) -> str:
    """For people: where the configuration comes from and what changed in it."""
    lines = [
        f"Configuration of {plan.framework}/{plan.stage} run {plan.version_id} (task {plan.task_id})",
        f"SHA-256 of training_config.yaml: {plan.sha256}",
        f"Template: {template.path}",
        "",
        *changed(template),
    ]
    return "\n".join(lines) + "\n"


def changed(template: TemplateUse) -> list[str]:
    """For people, a line each: which key was changed from what to what and why, and what else is to be said of it."""
    lines = [f"  {c.key}: {c.before!r} -> {c.after!r} ({c.reason})" for c in template.changes] or ["  nothing"]
    notes = [f"Note: {note}" for note in template.notes]
    return ["Changed on the way from the template:", *lines, *(["", *notes] if notes else [])]
