"""Has every part of a plan looked at in Agent Lightning's environment: what is no agent, or no algorithm, is told."""

from __future__ import annotations

import json
import os

from loopai_trainer.backends.agentlightning.launch import pinned_files, quiet_and_offline
from loopai_trainer.errors import BackendMissing
from loopai_trainer.records import Command, LaunchPaths, Plan, Problem, Question, Rehearsal

LIMIT_S = 300.0
"""Importing Agent Lightning takes 17 s of CPU, several times that on a busy host, and the agent's own imports."""

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_SCRIPT = os.path.join(_FOLDER, "inside", "agl_rehearse.py")
_COMPONENTS = os.path.join(os.path.dirname(os.path.dirname(_FOLDER)), "rules", "components.py")

_HINTS = {
    "AGENT_BROKEN": "mend the agent's file; its copy in inputs/ is what was tried",
    "AGENT_INVALID": "decorate the function, or name the right object in agent.name",
    "ALGORITHM_NOT_FAST": "derive it from FastAlgorithm, or use --stage apo or grpo",
}


def rehearse(plan: Plan, paths: LaunchPaths) -> Question:
    """The question: `inside/agl_rehearse.py`."""
    python = plan.loopai["backend"]["python"]
    env = {"LANG": "C.UTF-8", "PATH": os.path.dirname(python) + os.pathsep + "/usr/bin:/bin", **quiet_and_offline()}
    env["CUDA_VISIBLE_DEVICES"] = ""
    document = {
        "native": plan.native,
        "stage": plan.stage,
        "components": _COMPONENTS,
        "files": pinned_files(plan),
    }
    command = Command((python, "-I", "-B", _SCRIPT), paths.run, env)
    return Question("looking at the agent and its parts", command, json.dumps(document).encode("utf-8"), LIMIT_S)


def rehearsed(answer: bytes) -> Rehearsal:
    """Its findings and its summary. Raises BackendMissing for an answer that is none of ours."""
    try:
        document = json.loads(answer)
        problems = tuple(_problem(one["code"], one["message"], one["field"]) for one in document["problems"])
        summary = {str(name): value for name, value in document["summary"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BackendMissing(
            "looking at the agent and its parts: the answer is not understood",
            code="BACKEND_BROKEN",
            hint="see whether the environment is whole; trainer setup agentlightning makes one that was tried",
        ) from None
    return Rehearsal(problems, summary)


def _problem(code: str, message: str, field: str) -> Problem:
    return Problem("error", code, "config", message, _HINTS.get(code, f"change {field}"), field=field)
