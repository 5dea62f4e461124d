"""What a run left: prompts with their scores, the store's content, and the verdict that this content allows.

Agent Lightning's own exit status says nothing of it: it is 0 after Ctrl-C, and with failed rollouts.
"""

from __future__ import annotations

import json
import math
import os
import re

from loopai_trainer.backends.agentlightning.launch import BEST_PROMPT, STORE_FOLDER
from loopai_trainer.records import Artefact, Checkpoint, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from loopai_trainer.records import Plan

PROMPTS = "prompts.jsonl"
"""Every evaluation, as it came (inside/agl_prompts.py writes it)."""

_FOLDER = re.compile(r"prompt-(\d+)")
_SHOWN = 3


def find_checkpoints(folder: str) -> list[Checkpoint]:
    """Every prompt that was scored on the whole validation data, by step."""
    found = [(int(match[1]), name) for name in _names(folder) if (match := _FOLDER.fullmatch(name))]
    return [_checkpoint(folder, name, step) for step, name in sorted(found)]


def final_artefact(folder: str, stage: str) -> Artefact:
    """The best prompt of a search; else the store's content."""
    if stage == "apo" and os.path.exists(os.path.join(folder, PROMPTS)):
        path = os.path.join(folder, BEST_PROMPT)
        found = _object(path)
        if isinstance(found.get("template"), str):
            return Artefact(path, True, True)
        return Artefact(path, False, True, "no prompt was scored on all validation tasks without a failure")
    path = os.path.join(folder, STORE_FOLDER)
    whole = bool(_object(os.path.join(path, "closed.json")))
    return Artefact(path, whole, True, "" if whole else "the store was not written to its end")


def verdict_problems(plan: Plan, run: str) -> list[Problem]:
    """What the store says against a good end: every attempt succeeded, every rollout has a reward and spans.

    Reinforcement learning goes on over rollouts that failed, as verl does: its steps and checkpoints decide.
    """
    if plan.stage == "grpo" and (plan.native.get("algorithm") or {}).get("name") == "verl":
        return []
    return [Problem("error", code, "host", message) for code, message in _findings(plan, run)]


def _findings(plan: Plan, run: str) -> Iterator[tuple[str, str]]:
    folder = os.path.join(run, "checkpoints", STORE_FOLDER)
    rollouts = list(_lines(os.path.join(folder, "rollouts.jsonl")))
    attempts = list(_lines(os.path.join(folder, "attempts.jsonl")))
    if not rollouts:
        yield "NO_ROLLOUTS", "no rollout came to an end"
        return
    failed = [one for one in rollouts if one.get("status") != "succeeded"]
    tried = [one for one in attempts if one.get("status") != "succeeded"]
    silent = [one for one in rollouts if one not in failed and not one.get("spans")]
    unpaid = [one for one in rollouts if one not in failed and not _is_finite(one.get("reward"))]
    if failed:
        yield "ROLLOUTS_FAILED", f"{len(failed)} of {len(rollouts)} rollouts did not succeed: {_named(failed)}"
    elif tried:
        yield "ATTEMPTS_FAILED", f"{len(tried)} of {len(attempts)} attempts did not succeed"
    if silent:
        yield "NO_SPANS", f"{len(silent)} of {len(rollouts)} rollouts left no span: {_named(silent)}"
    if unpaid:
        yield "NO_REWARD", f"{len(unpaid)} of {len(rollouts)} rollouts gave no finite reward: {_named(unpaid)}"
    planned = planned_rollouts(plan)
    if planned and len(rollouts) < planned:
        yield "ROLLOUTS_MISSING", f"{len(rollouts)} of {planned} rollouts were made"


def planned_rollouts(plan: Plan) -> int:
    """Rollouts that Baseline makes of the approved tasks; 0 where nobody can know."""
    algorithm, inputs = plan.native.get("algorithm") or {}, plan.loopai["inputs"]
    if algorithm.get("name") != "baseline" or algorithm.get("file"):
        return 0
    rows = sum(int((inputs.get(split) or {}).get("rows") or 0) for split in ("train", "validation"))
    return rows * int(algorithm.get("n_epochs") or 1)


def _is_finite(reward: Any) -> bool:
    return isinstance(reward, int | float) and math.isfinite(reward)


def _named(rollouts: list[dict[str, Any]]) -> str:
    names = ", ".join(f"{one.get('rollout_id')} ({one.get('status')})" for one in rollouts[:_SHOWN])
    return names + (f" and {len(rollouts) - _SHOWN} more" if len(rollouts) > _SHOWN else "")


def _checkpoint(folder: str, name: str, step: int) -> Checkpoint:
    path = os.path.join(folder, name)
    entry = _object(os.path.join(path, "prompt.json"))
    if not isinstance(entry.get("template"), str):
        return Checkpoint(name, step, path, False, "prompt.json is missing or damaged")
    failed = entry.get("failed") or 0
    return Checkpoint(name, step, path, not failed, f"{failed} of its rollouts failed" if failed else "")


def _lines(path: str) -> Iterator[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            for line in file:
                try:
                    value = json.loads(line)
                except ValueError:
                    continue  # torn by a kill
                if isinstance(value, dict):
                    yield value
    except OSError:
        return


def _object(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            value = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
