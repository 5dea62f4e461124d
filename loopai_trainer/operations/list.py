"""list: the runs that are known, newest first."""

from __future__ import annotations

import os

from loopai_trainer.errors import NotFound, TrainerError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import targets
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.status import describe
from loopai_trainer.worker.observe import observe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SHORT = (
    "task_id",
    "trainer_version_id",
    "status",
    "phase",
    "current_step",
    "total_steps",
    "started_at",
    "updated_at",
    "run_dir",
    "best_checkpoint",
)


def list_runs(scope: targets.Scope, limit: int) -> Answer:
    """At most `limit` runs, those that were written to last first; only these are looked into.

    Raises NotFound if the output directory that was named is none.
    """
    if scope.output_dir and not os.path.isdir(scope.output_dir):
        what = "is a file" if os.path.exists(scope.output_dir) else "does not exist"
        raise NotFound(f"the output directory {scope.output_dir} {what}", hint="name the folder that holds the tasks")
    places = [(_written(path), version_id, path) for path, version_id, _ in targets.all_places(scope)]
    runs = sorted((place for place in places if place[0] is not None), reverse=True)
    shown = []
    for _, version_id, path in runs[:limit]:
        data = _described(RunDir(path, version_id))
        shown.append({name: data.get(name) for name in SHORT})
    known = f"{len(runs)} run{'s' if len(runs) != 1 else ''}"
    message = known if len(runs) <= limit else f"the newest {limit} of {known}"
    return Answer("list", {"count": len(runs), "runs": shown}, message=message if runs else "no runs yet")


def _described(run: RunDir) -> Mapping[str, Any]:
    """Its status; without one if it cannot be looked into (another user's, a broken disk): it hides no other run."""
    try:
        return describe(run, observe(run))
    except (OSError, TrainerError):
        task_id = os.path.basename(os.path.dirname(os.path.dirname(run.path)))
        return {"task_id": task_id, "trainer_version_id": run.version_id, "run_dir": run.path}


def _written(path: str) -> int | None:
    """When the run directory was last written to (nanoseconds): every state is renamed into it.

    None: it is gone, or holds no more than a refused prepare leaves: nothing there waits for anybody.
    """
    try:
        written = os.stat(path).st_mtime_ns
    except OSError:
        return None
    return None if targets.is_unplanned(RunDir(path)) else written
