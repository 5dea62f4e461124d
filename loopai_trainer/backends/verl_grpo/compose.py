"""Asks the installed verl for the whole configuration that its Hydra files make of a plan's keys.

The text is what training reads; its digest is approved, and the worker asks again before the launch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from loopai_trainer.backends.verl_grpo.tree import OPEN_PLACES
from loopai_trainer.errors import BackendMissing
from loopai_trainer.records import Command, Environment, LaunchPaths, Problem, Question, Resolved

LIMIT_S = 120.0
"""It takes 1.4 s (0.9.1, two idle cores); a cold disk or a busy host takes many times that."""

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside", "compose.py")


def resolve(native: Mapping[str, Any], environment: Environment, paths: LaunchPaths) -> Question:
    """The question: `inside/compose.py` in verl's environment."""
    argv = (environment.python, "-I", "-B", _SCRIPT)
    env = {"PATH": environment.bin + os.pathsep + "/usr/bin:/bin", "LANG": "C.UTF-8"}
    stdin = json.dumps({"native": dict(native), "open": list(OPEN_PLACES)}).encode("utf-8")
    return Question("composing verl's configuration", Command(argv, paths.run, env), stdin, LIMIT_S)


def resolved(answer: bytes) -> Resolved:
    """The configuration, or what Hydra refused. Raises BackendMissing for an answer that is none of ours."""
    try:
        document = json.loads(answer)
        text, found = document["yaml"], document["problems"]
        problems = tuple(
            Problem(one["severity"], one["code"], "config", one["message"], one["hint"], field=one["field"] or None)
            for one in found
        )
    except (ValueError, KeyError, TypeError):
        raise BackendMissing(
            "composing verl's configuration: the answer is not understood",
            code="BACKEND_BROKEN",
            hint="see whether the environment is whole; trainer setup verl makes one that was tried",
        ) from None
    return Resolved(str(text), problems)
