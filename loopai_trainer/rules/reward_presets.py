"""What each reward preset calls: the table that the choice, the probe, the documents and the tests read.

Source: verl 0.9.1, utils/reward_score/__init__.py (the 0.8 line has the same routes), and spec/001 for the presets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ANSWER = "{answer}"
"""Stands in a reply's form for the answer."""


class Scorer(NamedTuple):
    """A scorer of verl, `calls`: what is called. `forms`: replies that give an answer as it wants it.

    `needs`: packages beyond verl's own, as pip names. `runs_code`: it executes what the model writes.
    """

    calls: str
    forms: tuple[str, ...]
    needs: tuple[str, ...] = ()
    runs_code: bool = False


_PACKAGE = "verl.utils.reward_score"

SCORERS: Mapping[str, Scorer] = {
    "gsm8k": Scorer(f"{_PACKAGE}.gsm8k.compute_score", ("#### {answer}",)),
    "math_reward": Scorer(f"{_PACKAGE}.math_reward.compute_score", ("\\boxed{{answer}}",)),
    "math_dapo": Scorer(f"{_PACKAGE}.math_dapo.compute_score", ("Answer: {answer}",)),
    "prime_math": Scorer(f"{_PACKAGE}.prime_math.compute_score", ("\\boxed{{answer}}",), ("sympy", "pylatexenc")),
    "geo3k": Scorer(
        f"{_PACKAGE}.geo3k.compute_score", ("<think>so it is</think> \\boxed{{answer}}",), ("mathruler",)
    ),
    "search_r1_like_qa_em": Scorer(
        f"{_PACKAGE}.search_r1_like_qa_em.compute_score", ("<answer>{answer}</answer>",)
    ),
    "prime_code": Scorer(f"{_PACKAGE}.prime_code.compute_score", (), (), runs_code=True),
}  # fmt: skip
"""By the name of the module below verl.utils.reward_score."""

ROUTES: Mapping[str, str] = {
    "openai/gsm8k": "gsm8k",
    "lighteval/MATH": "math_reward",
    "DigitalLearningGmbH/MATH-lighteval": "math_reward",
    "HuggingFaceH4/MATH-500": "math_reward",
    "math_dapo": "math_dapo",
    "math": "math_dapo",
    "math_dapo_reasoning": "math_dapo",
    "numina_aops_forum": "prime_math",
    "numina_synthetic_math": "prime_math",
    "numina_amc_aime": "prime_math",
    "numina_synthetic_amc": "prime_math",
    "numina_cn_k12": "prime_math",
    "numina_olympiads": "prime_math",
    "codecontests": "prime_code",
    "apps": "prime_code",
    "codeforces": "prime_code",
    "taco": "prime_code",
    "hiyouga/geometry3k": "geo3k",
    "searchR1_nq": "search_r1_like_qa_em",
    "searchR1_triviaqa": "search_r1_like_qa_em",
    "searchR1_popqa": "search_r1_like_qa_em",
    "searchR1_hotpotqa": "search_r1_like_qa_em",
    "searchR1_2wikimultihopqa": "search_r1_like_qa_em",
    "searchR1_musique": "search_r1_like_qa_em",
    "searchR1_bamboogle": "search_r1_like_qa_em",
}
"""data_source -> scorer, as verl's own router does it; exact names, case counts."""

PREFIX_ROUTES: Mapping[str, str] = {"aime": "math_dapo"}
"""Beginning of a data_source -> scorer."""


class Preset(NamedTuple):
    """`scorer`: name in SCORERS; None where each row's data_source decides. `says`: one sentence for people."""

    scorer: str | None
    calls: str
    returns: str
    says: str


_ROUTER = f"{_PACKAGE}.default_compute_score"

PRESETS: Mapping[str, Preset] = {
    "auto": Preset(
        None, _ROUTER, "a dict of score and acc",
        "verl's router by each row's data_source; every one has to be known, and all answers have the same keys",
    ),
    "verl_builtin": Preset(
        None, _ROUTER, "whatever the scorer returns",
        "verl's router by each row's data_source, its answer untouched, whatever sources the installed verl knows",
    ),
    "gsm8k_exact": Preset(
        "gsm8k", SCORERS["gsm8k"].calls, "a number", "the number after #### is the text of the ground truth"
    ),
    "math_boxed": Preset(
        "math_reward", SCORERS["math_reward"].calls, "a number", "the last \\boxed{} is the ground truth, as LaTeX"
    ),
    "math_dapo": Preset(
        "math_dapo", SCORERS["math_dapo"].calls, "a dict of score, acc and pred",
        "the text after 'Answer:' is the ground truth; a wrong answer scores -1",
    ),
    "prime_math": Preset(
        "prime_math", SCORERS["prime_math"].calls, "a number", "the answer found in the reply is mathematically equal"
    ),
    "geometry": Preset(
        "geo3k", SCORERS["geo3k"].calls, "a number", "0.9 for the right \\boxed{}, 0.1 for the form <think>..</think>"
    ),
    "qa_exact_match": Preset(
        "search_r1_like_qa_em", SCORERS["search_r1_like_qa_em"].calls, "a number",
        "the text in <answer></answer> is one of the ground truths, without case, articles and punctuation",
    ),
}  # fmt: skip
"""The eight presets of spec/001, in its order."""


def scorer_of(data_source: str) -> str | None:
    """The scorer that verl's router takes for a data_source; None: it raises NotImplementedError."""
    found = ROUTES.get(data_source)
    if found is not None:
        return found
    return next((scorer for start, scorer in PREFIX_ROUTES.items() if data_source.startswith(start)), None)


def scorers(preset: str, data_sources: Mapping[str, int]) -> dict[str, str]:
    """data_source -> scorer for the rows of a plan under a preset; sources without one are left out."""
    fixed = PRESETS[preset].scorer
    named = {source: fixed or scorer_of(source) for source in data_sources}
    return {source: scorer for source, scorer in named.items() if scorer is not None}
