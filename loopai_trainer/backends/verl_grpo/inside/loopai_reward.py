"""Scores a reply with the scorer of verl that a preset names; runs inside verl's environment, imports nothing of ours.

This file is copied into a run's `inputs/` and hashed with it; verl's custom reward function names the copy. There is no
fallback: a preset or a data_source that is not known raises. A reply of None scores as an empty one, which every scorer
of verl takes as a wrong answer (several raise for None). Ground truths are passed on as they are, except that
`qa_exact_match` wraps a text or a list into the mapping {"target": ...} that verl's scorer wants.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

SCORERS = {
    "gsm8k_exact": "gsm8k",
    "math_boxed": "math_reward",
    "math_dapo": "math_dapo",
    "prime_math": "prime_math",
    "geometry": "geo3k",
    "qa_exact_match": "search_r1_like_qa_em",
}
"""Preset -> module below verl.utils.reward_score."""

ROUTED = ("auto", "verl_builtin")
"""Presets that leave the choice to verl's router."""

_PIP_NAMES = {"mathruler": "mathruler", "sympy": "sympy", "pylatexenc": "pylatexenc"}


def compute_score(
    data_source: str,
    solution_str: str | None,
    ground_truth: Any,
    extra_info: Any = None,
    preset: str | None = None,
    **kwargs: Any,
) -> Any:
    """A finite number, or a dict with a finite `score` and the same keys for every reply of a preset.

    `kwargs` are passed on to the scorer. Raises ValueError for an unknown preset, NotImplementedError for a data_source
    that verl's router does not know, ModuleNotFoundError for a package that the scorer needs.
    """
    reply = "" if solution_str is None else solution_str
    if preset in SCORERS:
        if preset == "qa_exact_match" and not isinstance(ground_truth, dict):
            ground_truth = {"target": ground_truth}
        return _plain(_scorer(SCORERS[preset])(reply, ground_truth, **_without_router_arguments(kwargs)), preset)
    if preset in ROUTED:
        scored = _routed(data_source, reply, ground_truth, extra_info, kwargs)
        return scored if preset == "verl_builtin" else _uniform(scored, preset)
    known = ", ".join((*ROUTED, *SCORERS))
    raise ValueError(f"reward preset {preset!r} is not known; the presets are {known}")


def _scorer(module: str) -> Any:
    try:
        return importlib.import_module(f"verl.utils.reward_score.{module}").compute_score
    except ModuleNotFoundError as error:
        raise _missing(error, module) from error


def _routed(data_source: str, reply: str, ground_truth: Any, extra_info: Any, kwargs: dict[str, Any]) -> Any:
    router = importlib.import_module("verl.utils.reward_score").default_compute_score
    try:
        return router(data_source, reply, ground_truth, extra_info=extra_info, **kwargs)
    except NotImplementedError as error:
        raise NotImplementedError(
            f"verl's router has no scorer for data_source {data_source!r}; choose a preset or a custom reward"
        ) from error
    except ModuleNotFoundError as error:
        raise _missing(error, f"data_source {data_source}") from error


def _without_router_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """What verl adds for a reward model is not for a rule."""
    return {name: value for name, value in kwargs.items() if not name.startswith("reward_")}


def _missing(error: ModuleNotFoundError, what: str) -> ModuleNotFoundError:
    name = (error.name or str(error)).partition(".")[0]
    package = _PIP_NAMES.get(name, name)
    return ModuleNotFoundError(
        f"the reward ({what}) needs the package {package}, which is not installed: pip install {package}", name=name
    )


def _plain(scored: Any, preset: str) -> Any:
    """A number as float; a dict as it is, if its score is finite; of a tuple the first, as verl's router does."""
    if isinstance(scored, dict):
        return {**scored, "score": _finite(scored["score"], preset)}
    return _finite(scored[0] if isinstance(scored, tuple) else scored, preset)


def _uniform(scored: Any, preset: str) -> dict[str, float]:
    """The same two keys whatever scorer answered: rows of several data_sources come into one batch."""
    if isinstance(scored, dict):
        score = _finite(scored["score"], preset)
        return {"score": score, "acc": float(scored.get("acc", score))}
    score = _finite(scored, preset)
    return {"score": score, "acc": score}


def _finite(score: Any, preset: str) -> float:
    number = float(score)
    if not math.isfinite(number):
        raise ValueError(f"the scorer of preset {preset} gave {number}")
    return number
