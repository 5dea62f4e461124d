"""diff: what a version's YAML changes against the last approved round of its task, or against another version."""

from __future__ import annotations

import os
from typing import Any

from loopai_trainer.errors import EXIT_DIFFERS, NotFound
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import rounds, targets
from loopai_trainer.operations.answer import Answer

APPROVED = "approved"


def diff(version: str, scope: targets.Scope, *, against: str = APPROVED, exit_code: bool = False) -> Answer:
    """The keys that differ and the unified text. `exit_code`: exit 10 if anything differs, or nothing was approved.

    Raises NotFound for a version, or a YAML, that is not there.
    """
    run = targets.open_run(targets.find(version, scope).path)
    text = _text(run)
    found = rounds.since_approved(run, text) if against == APPROVED else _against(run, text, against, scope)
    if found is None:
        data: dict[str, Any] = {"against": None, "changed": [], "unified": ""}
        message = f"no round of task {os.path.basename(run.task.path)} was approved before {run.version_id}"
    elif found["changed"] is None:
        raise NotFound(
            f"the YAML of the last approved round, {found['against']['version_id']}, is gone",
            hint="name another version with --against",
        )
    else:
        data, count = found, len(found["changed"])
        said = "no key differs" if not count else "1 key differs" if count == 1 else f"{count} keys differ"
        message = f"{said} between {found['against']['version_id']} and {run.version_id}"
    differs = found is None or bool(found["changed"])
    return Answer("diff", data, message=message, exit_code=EXIT_DIFFERS if exit_code and differs else 0)


def _against(run: RunDir, text: str, against: str, scope: targets.Scope) -> dict[str, Any]:
    other = targets.open_run(targets.find(against, scope).path)
    number = next((one.number for one in rounds.rounds(other) if one.version_id == other.version_id), None)
    return {
        "against": {"version_id": other.version_id, "round": number},
        **rounds.compare(_text(other), other, text, run),
    }


def _text(run: RunDir) -> str:
    text = rounds.text_of(run)
    if text is None:
        raise NotFound(f"{run.path} holds no YAML that can be read", hint="prepare it again")
    return text
