"""What `trainer` alone says: the last runs, what waits for a person, and what to type next. Reads only."""

from __future__ import annotations

import os

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import commands, targets
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.list import list_runs
from loopai_trainer.rules import messages
from loopai_trainer.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LOOKED_INTO = 50
SHOWN = 5
KINDS: Mapping[str, tuple[str, ...]] = {
    "orphaned": ("orphaned",),
    "waiting": ("prepared", "approved"),
    "going_on": ("queued", "running", "finalizing", "unknown"),
}
"""Kind -> the statuses of the runs that somebody may want to do something about."""
FIRST_STEPS = ("doctor", "templates", "guide")
"""Verbs for who has no runs yet."""


def overview(scope: targets.Scope) -> Answer:
    """The newest runs, and for each kind of KINDS those of it among the newest LOOKED_INTO, with their next command."""
    found = list_runs(scope, LOOKED_INTO)
    runs = [] if found.data is None else found.data["runs"]
    kinds = {kind: [_item(run) for run in runs if run["status"] in statuses] for kind, statuses in KINDS.items()}
    ended = [_item(run) for run in runs[:1] if run["status"] in ("completed", "failed", "cancelled")]
    say = messages.speaker("en")
    first = [{"what": say(f"overview.{verb}"), "next_command": commands.verb(verb)} for verb in FIRST_STEPS]
    data = {
        "version": __version__,
        "count": 0 if found.data is None else found.data["count"],
        "runs": runs[:SHOWN],
        **kinds,
        "ended": ended,
        "first_steps": [] if runs else first,
    }
    return Answer("trainer", data, message=found.message)


def _item(run: Mapping[str, Any]) -> dict[str, str]:
    return {
        "trainer_version_id": run["trainer_version_id"],
        "status": run["status"],
        "next_command": _next(run["status"], RunDir(run["run_dir"], run["trainer_version_id"])),
    }


def _next(status: str, run: RunDir) -> str:
    path = _short(run.path)
    if status in KINDS["waiting"]:
        return commands.inspect(_short(run.config))  # shows the YAML, and what starts it or has to come before that
    if status == "orphaned":
        return commands.verb("recover", path, "--adopt")
    if status in KINDS["going_on"]:
        return commands.watch(path)
    return commands.logs(path) if status == "failed" else commands.status(path)


def _short(path: str) -> str:
    """The path as it is typed here: a version id alone may stand for runs of several tasks."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
