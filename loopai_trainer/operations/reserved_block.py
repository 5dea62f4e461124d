"""Edits of the `loopai` block: which a person may make by hand, and which break what the program wrote there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import commands
from loopai_trainer.records import Problem
from loopai_trainer.rules import plan_diff, yaml_text

_FREE = ("launch.", "checks.")
"""What a person decides, and the review checks: devices, processes, limits."""
_INPUTS = ("inputs.", "backend.")
"""What the program found out about inputs: a new look at them (--refresh) may change it, a hand may not."""
_APPROVAL = "approval.require"


def reserved_problems(
    block: Mapping[str, Any], lines: Mapping[str, int], run: RunDir, *, refreshing: bool = False
) -> Iterator[Problem]:
    """An error for each key of the block that differs from what the program wrote and is not a person's to change.

    `refreshing`: inputs are looked at anew, so what the block says of them may be edited.
    """
    written = written_block(run)
    if written is None:
        return
    free = (*_FREE, *_INPUTS) if refreshing else _FREE
    for change in plan_diff.changes(written, block):
        raised = change.key == _APPROVAL and change.after == "terminal"
        if not change.key.startswith(free) and not raised:
            yield _problem(change, lines, run)


def written_block(run: RunDir) -> dict[str, Any] | None:
    """The `loopai` block as prepare, inspect or a refresh noted it last; None if plan.json does not say."""
    try:
        noted = atomic.read_json(run.plan) or {}
    except (OSError, ValueError):
        return None
    found, text = noted.get("reserved"), noted.get("config_yaml")
    if found is None and isinstance(text, str):
        found = yaml_text.load(text, run.plan, "config").values.get("loopai")
    return found if isinstance(found, dict) else None


def _problem(change: plan_diff.Change, lines: Mapping[str, int], run: RunDir) -> Problem:
    key = f"loopai.{change.key}"
    said = {"added": "is not known there", "removed": "was removed", "changed": "was edited"}[change.kind]
    if change.key.startswith(_INPUTS):
        hint = f"undo the edit, or take the present inputs in: {commands.refresh(run.config)}"
    else:
        hint = "undo the edit, or prepare again"
    was = "" if change.kind == "added" else f"\n  expected: {change.before}\n  got:      {change.after}"
    message = f"'{key}' {said}{was}"
    return Problem("error", "RESERVED_BLOCK", "config", message, hint, path=run.config, line=lines.get(key), field=key)
