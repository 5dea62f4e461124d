"""Asking a cluster, by a job of its own, whether it can run exactly this plan, before the approval is used up."""

from __future__ import annotations

import json
import os

from loopai_trainer import errors, executors
from loopai_trainer.errors import HostUnfit, TrainerError
from loopai_trainer.records import Plan, Problem
from loopai_trainer.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir

_CODE = "import sys; from loopai_trainer.operations.cluster_probe import main; sys.exit(main(sys.argv[1:]))"
_LIMIT_S = 600.0
"""Hashing a large model on another host takes minutes."""


def check(run: RunDir, plan: Plan, environ: Mapping[str, str]) -> tuple[bool, list[str]]:
    """(whether locks that are held here are seen on the cluster, nodes that could take part and were not asked).

    The caller holds run.lock.

    Raises HostUnfit for a cluster that cannot be reached, refuses or is too small, and what the check there refuses:
    InputChanged for other bytes or another environment.
    """
    launch = plan.loopai["launch"]
    executor = executors.submitting(launch["executor"])
    if executor is None:
        return True, []
    words = (run.path, run.version_id, run.task.path, plan.sha256, __version__)
    argv = [launch["interpreter"], "-P", "-c", _CODE, *words]
    name = f"{run.version_id}-check-{os.urandom(4).hex()}"
    answer = read_answer(executor.ask(argv, launch["address"], name, environ, _LIMIT_S), str(launch["interpreter"]))
    if answer["error"] is not None:
        raise _refusal(answer["error"])
    return answer["locks_reach"] is True, [str(one) for one in answer.get("not_asked") or ()]


def read_answer(log: str, interpreter: str) -> dict[str, Any]:
    """The answer in the job's log. Raises HostUnfit INTERPRETER_UNFIT if there is none."""
    from loopai_trainer.operations.cluster_probe import MARK

    for line in reversed(log.splitlines()):
        if line.startswith(MARK):
            try:
                found = json.loads(line[len(MARK) :])
            except ValueError:
                break
            if isinstance(found, dict) and {"error", "locks_reach"} <= found.keys():
                return found
    last = next((line for line in reversed(log.splitlines()) if line.strip()), "nothing")
    raise HostUnfit(
        f"the cluster could not run this program by {interpreter}; its last words: {last.strip()[:400]}",
        code="INTERPRETER_UNFIT",
        hint="name a Python with loopai-trainer[ray] that every node sees at that path: --option ray_interpreter=PATH",
    )


def _refusal(error: Mapping[str, Any]) -> TrainerError:
    kind = getattr(errors, str(error.get("type")), HostUnfit)
    if not (isinstance(kind, type) and issubclass(kind, TrainerError)):
        kind = HostUnfit
    return kind(
        f"on the cluster: {error.get('detail')}",
        code=str(error.get("code")),
        hint=str(error.get("hint") or ""),
        problems=[_problem(one) for one in error.get("problems") or ()],
    )


def _problem(entry: Mapping[str, Any]) -> Problem:
    names = ("severity", "code", "where", "message", "hint", "path", "line", "row", "field")
    return Problem(**{name: entry[name] for name in names if entry.get(name) is not None})
