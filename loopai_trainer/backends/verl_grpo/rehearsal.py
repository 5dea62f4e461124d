"""Asks verl's environment to try the plan: its own validation, the reward on real rows, prompts in tokens."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from loopai_trainer.backends.verl_grpo.tree import OPEN_PLACES
from loopai_trainer.errors import BackendMissing
from loopai_trainer.records import Command, LaunchPaths, Plan, Problem, Question, Rehearsal, Versions
from loopai_trainer.rules import host_env, launch_env, length_limits
from loopai_trainer.rules.reward_presets import PREFIX_ROUTES, PRESETS, ROUTES, SCORERS

LIMIT_S = 1200.0
"""Importing verl takes 6 to 60 s, the reward at most 5 minutes and a call, a sample of prompts seconds."""

LIMIT_ALL_S = 7200.0
"""With `length_sample: all`: some 10,000 prompts a second, so that it is enough for 50 million."""

SAMPLE_ROWS = 24
"""Rows of each file that the reward is tried on, more if there are more data_sources."""

PLAIN_FORMS = ("{answer}", "#### {answer}", "\\boxed{{answer}}", "<answer>{answer}</answer>", "Answer: {answer}")
"""The usual forms of an answer, for a reward that we know nothing of: any may score."""

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside", "rehearse.py")


def rehearse(plan: Plan, versions: Versions, paths: LaunchPaths) -> Question:
    """The question: `inside/rehearse.py` in verl's environment."""
    python = plan.loopai["backend"]["python"]
    argv = (python, "-I", "-B", _SCRIPT)
    env = {
        "LANG": "C.UTF-8",
        **_approved(plan),
        "PATH": os.path.dirname(python) + os.pathsep + "/usr/bin:/bin",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "true",
    }
    document = question_document(plan)
    limit_s = LIMIT_S if document["checks"]["length_sample"] else LIMIT_ALL_S
    stdin = json.dumps(document).encode("utf-8")
    return Question("rehearsing reward and prompts", Command(argv, paths.run, env), stdin, limit_s)


def _approved(plan: Plan) -> dict[str, str]:
    """The host's libraries, threads and network as training will have them; nothing of a block that was damaged."""
    launch = plan.loopai.get("launch")
    if not isinstance(launch, Mapping) or not all(
        isinstance(launch.get(name) or {}, Mapping) for name in ("host_env", "env")
    ):
        return {}
    added = {name: str(value) for name, value in (launch.get("env") or {}).items() if launch_env.is_settable(name)}
    return {**host_env.reaching(launch, {}), **added}


def question_document(plan: Plan) -> dict[str, Any]:
    """What the program needs: native keys, the reward block, the tables of presets, the limits of lengths."""
    block = plan.loopai.get("reward") or {}
    limits, _ = length_limits.of_plan(plan.loopai)
    preset = block.get("preset")
    known = PRESETS.get(str(preset))
    return {
        "native": plan.native,
        "open": list(OPEN_PLACES),
        "reward": {
            "preset": preset,
            "scorer": known.scorer if known else None,
            "shown": _shown(block),
        },
        "routes": dict(ROUTES),
        "prefix_routes": dict(PREFIX_ROUTES),
        "forms": {name: list(scorer.forms) for name, scorer in SCORERS.items()},
        "runs_code": [name for name, scorer in SCORERS.items() if scorer.runs_code],
        "all_forms": list(PLAIN_FORMS),
        "sample": SAMPLE_ROWS,
        "checks": {"max_cut_share": limits.max_cut_share, "length_sample": limits.length_sample},
    }


def _shown(block: Mapping[str, Any]) -> str:
    """The reward as its author knows it."""
    if block.get("function"):
        return f"the reward function {block.get('name')} of {block['function']}"
    return f"the reward preset {block.get('preset')}"


def rehearsed(plan: Plan, answer: bytes) -> Rehearsal:
    """Its findings and its summary. Raises BackendMissing for an answer that is none of ours."""
    try:
        document = json.loads(answer)
        problems = tuple(_problem(found) for found in document["problems"])
        summary = {str(name): value for name, value in document["summary"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BackendMissing(
            "rehearsing reward and prompts: the answer is not understood",
            code="BACKEND_BROKEN",
            hint="see whether the environment is whole; trainer setup verl makes one that was tried",
        ) from None
    return Rehearsal(problems, summary)


def _problem(found: Mapping[str, Any]) -> Problem:
    return Problem(
        found["severity"],
        found["code"],
        found["where"],
        found["message"],
        found.get("hint", ""),
        path=found.get("path"),
        row=found.get("row"),
        field=found.get("field"),
    )
