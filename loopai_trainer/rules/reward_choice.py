"""Which reward a GRPO run has: exactly one mode, a user's own choice first, and never a guess.

Source: spec/001 "Use exactly one reward mode" and "Generated Data and Multi-Round Verl".
"""

from __future__ import annotations

import difflib
import json
import keyword
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from loopai_trainer.errors import ConfigError
from loopai_trainer.records import Problem, PromptFacts, Settings, Where
from loopai_trainer.rules.reward_presets import PRESETS, ROUTES, SCORERS, scorer_of, scorers

OWN_ARGUMENTS = ("data_source", "solution_str", "ground_truth", "extra_info", "preset")
"""What verl or the router passes to a reward: no keyword argument of the user may replace it."""

DEFAULT_NAME = "compute_score"

_NAMES: Mapping[str, re.Pattern[str]] = {
    preset: re.compile(rf"(?<![a-z0-9])(?:{'|'.join(words)})(?![a-z0-9])")
    for preset, words in {
        "gsm8k_exact": ("gsm[-_ ]?8k",),
        "math_boxed": (
            "math[-_ ]?500", "lighteval/math", "math[-_ ]lighteval", "hendrycks[-_ ]?(?:competition[-_ ]?)?math",
            "competition[-_ ]math",
        ),
        "math_dapo": ("dapo", "aime(?:[-_ ]?(?:20)?[0-9]{2})?"),
        "prime_math": ("numina[-_a-z]*", "prime[-_ ]math"),
        "geometry": ("geometry[-_ ]?3k", "geo3k"),
        "qa_exact_match": (
            "search[-_ ]?r1[-_a-z0-9]*", "nq", "natural[-_ ]questions", "trivia[-_ ]?qa", "pop[-_ ]?qa",
            "hotpot[-_ ]?qa", "2wikimultihopqa", "musique", "bamboogle",
        ),
    }.items()
}  # fmt: skip
"""Preset -> names of datasets and benchmarks that it was written for. A topic alone ("math", "qa") is no name."""

_TOPICS = frozenset((
    "math", "maths", "mathematics", "reasoning", "qa", "question-answering", "arithmetic", "geometry", "algebra",
    "grpo", "rl", "rlvr", "train",
))  # fmt: skip
"""Names that say what rows are about, not where they come from: no evidence for a reward, and none against it."""

_MARKERS: Mapping[str, str] = {
    "####": "gsm8k_exact",
    "boxed": "math_boxed",
    "final_answer": "math_dapo",
    "answer_tag": "qa_exact_match",
}
"""Marker by which a reference answer was read (rules.prompts.answers) -> preset that looks for it in replies."""

_DECISIVE = ("####", "boxed")
"""Markers that one kind of reward alone uses. Answer tags stand around numbers too, of which an exact match of texts
without punctuation takes -5 for 5."""


RECOMMENDED = "recommended: "
"""How the origin of a preset begins that the data themselves named."""


class Choice(NamedTuple):
    """The reward of a run. `preset` for modes auto and preset, `function` (as the user named it) for mode custom.

    `origin`: who chose it, and why. `code_sources`: data_sources whose scorer executes what the model writes.
    """

    mode: str
    preset: str | None
    function: str | None
    name: str | None
    kwargs: Mapping[str, Any]
    origin: str
    code_sources: tuple[str, ...] = ()


def choose(settings: Settings, facts: PromptFacts) -> Choice:
    """The reward that settings and data name. Raises ConfigError: REWARD_MODE_INVALID for settings that contradict each
    other, REWARD_SOURCE_UNKNOWN for a data_source without a scorer, REWARD_AMBIGUOUS where a person has to choose."""
    mode, why = _mode(settings)
    kwargs = read_kwargs(settings)
    if mode == "custom":
        function = settings.text("verl_reward_function_path")
        return Choice(mode, None, function, settings.text("verl_reward_function_name") or None, kwargs, why)
    if mode == "preset":
        preset = settings.text("verl_reward_preset")
    else:
        preset, why = _automatic(facts)
    if preset == "auto":
        _all_routed(facts)
    sources = scorers(preset, facts.data_sources)
    code = tuple(sorted(source for source, scorer in sources.items() if SCORERS[scorer].runs_code))
    # A recommendation is a preset, whoever asked for it: later rounds and readers see what runs.
    return Choice("auto" if preset == "auto" and mode == "auto" else "preset", preset, None, None, kwargs, why, code)


def _mode(settings: Settings) -> tuple[str, str]:
    """(mode, who chose it). A preset or a function that the user named decides, if nothing contradicts it."""
    preset, function = settings.text("verl_reward_preset"), settings.text("verl_reward_function_path")
    mode = settings.text("verl_reward_mode", "auto")
    named = settings.origin("verl_reward_preset" if preset else "verl_reward_function_path")
    if preset and function:
        first, second = settings.origin("verl_reward_preset"), settings.origin("verl_reward_function_path")
        raise _mode_error(f"a preset ({preset}, from {first}) and a function ({function}, from {second}) are named")
    if mode == "preset" and not preset:
        raise _mode_error("the mode is preset and no preset is named" + (f", but {function}" if function else ""))
    if mode == "custom" and not function:
        raise _mode_error("the mode is custom and no function is named" + (f", but preset {preset}" if preset else ""))
    if not preset and not function:
        return "auto", settings.origin("verl_reward_mode")
    return ("preset" if preset else "custom"), f"named by the user ({named})"


def read_kwargs(settings: Settings) -> dict[str, Any]:
    """`verl_reward_kwargs` as a mapping. Raises ConfigError REWARD_KWARGS_INVALID."""
    value = settings.values.get("verl_reward_kwargs")
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise _kwargs_error(settings, f"is not JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise _kwargs_error(settings, "is not a JSON object")
    for name in value:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise _kwargs_error(settings, f"has {name!r}, which cannot be the name of an argument")
        if name in OWN_ARGUMENTS:
            raise _kwargs_error(settings, f"has {name!r}, which is given to the reward for each reply")
    if not _plain(value):
        raise _kwargs_error(settings, "holds a number that is not finite, or something that JSON has not")
    return dict(value)


def _automatic(facts: PromptFacts) -> tuple[str, str]:
    """(preset, why) for mode auto."""
    unknown = [source for source in facts.data_sources if scorer_of(source) is None]
    if not unknown:
        named = ", ".join(f"{source} ({rows} rows)" for source, rows in sorted(facts.data_sources.items()))
        return "auto", f"verl's router knows every data_source: {named}"
    if facts.native:
        return "auto", ""  # refused by _all_routed, which names each
    return _recommended(facts)


def _recommended(facts: PromptFacts) -> tuple[str, str]:
    """(preset, why) for generated data, where its own names or markers leave no doubt. Raises ConfigError."""
    rows = sum(facts.data_sources.values())
    names = [name for name in facts.metadata if name.strip().lower() not in _TOPICS]
    by_name = _named_presets((*names, *facts.data_sources))
    by_marker = {_MARKERS[marker]: marker for marker, count in facts.markers.items() if count and marker in _MARKERS}
    if len(by_name) == 1 and set(by_marker) <= set(by_name):
        # All rows have to agree: either each data_source is such a name, or each row names itself, by such names alone.
        own = names if all(set(names).intersection(together) for together in facts.named_together) else []
        if any(names and all(_named_presets([name]) for name in names) for names in (facts.data_sources, own)):
            preset, name = next(iter(by_name.items()))
            return preset, f"{RECOMMENDED}the data name themselves '{name}'"
    elif not by_name and len(by_marker) == 1:
        preset, marker = next(iter(by_marker.items()))
        if marker in _DECISIVE and facts.markers[marker] == rows:
            return preset, f"{RECOMMENDED}every reference answer is marked with '{marker}' ({rows} rows)"
    raise _ambiguous(facts, by_name, by_marker, rows)


def _named_presets(names: Iterable[str]) -> dict[str, str]:
    """preset -> a name that means it."""
    found: dict[str, str] = {}
    for name in names:
        for preset, pattern in _NAMES.items():
            if pattern.search(name.lower()):
                found.setdefault(preset, name)
    return found


def _all_routed(facts: PromptFacts) -> None:
    """Raises ConfigError REWARD_SOURCE_UNKNOWN, one problem for each data_source that verl's router does not know."""
    problems = [
        source_problem(source, {"": rows})
        for source, rows in sorted(facts.data_sources.items())
        if scorer_of(source) is None
    ]
    if problems:
        raise ConfigError(problems[0].message, code="REWARD_SOURCE_UNKNOWN", hint=problems[0].hint, problems=problems)


def source_problem(source: str, rows: Mapping[str, int]) -> Problem:
    """What to say of a data_source without a scorer; `rows`: split -> number of its rows."""
    near = nearest(source)
    meant = f"; the nearest that it knows is '{near}'" if near else ""
    counted = " + ".join(f"{count} {where}".rstrip() for where, count in rows.items())
    message = f"verl has no scorer for data_source '{source}' ({counted} rows){meant}"
    change = f"write data_source '{near}' into the data if that is meant, or " if near else ""
    hint = f"{change}choose the reward: {choices()}"
    where: Where = "validation" if "train" not in rows and "validation" in rows else "train"
    return Problem("error", "REWARD_SOURCE_UNKNOWN", where, message, hint, field="data_source")


def nearest(source: str) -> str | None:
    """A data_source of verl that may be meant: its last part is this one, or it is spelt nearly so."""
    low = source.strip().lower()
    for known in ROUTES:
        if low in (known.lower(), known.lower().rpartition("/")[2]) or low.rpartition("/")[2] == known.lower():
            return known
    lowered = {known.lower(): known for known in ROUTES}
    lowered.update({known.lower().rpartition("/")[2]: known for known in ROUTES})
    near = difflib.get_close_matches(low, lowered, 1, cutoff=0.75)
    return lowered[near[0]] if near else None


_FIXED = tuple(name for name, preset in PRESETS.items() if preset.scorer)
"""Presets that need no data_source: those that route would not know it either."""


def choices() -> str:
    """What a person may choose, as flags."""
    return f"--reward-preset {'|'.join(_FIXED)}, or --reward-function FILE[:NAME]"


def _ambiguous(facts: PromptFacts, by_name: Mapping[str, str], by_marker: Mapping[str, str], rows: int) -> ConfigError:
    evidence = [f"'{name}' would be {preset}" for preset, name in by_name.items()]
    evidence += [
        f"'{marker}' in {facts.markers[marker]} of {rows} rows would be {preset}"
        for preset, marker in by_marker.items()
    ]
    said = "; ".join(evidence) or "no dataset name and no answer marker that a preset belongs to"
    message = f"the data do not say which reward fits ({rows} rows): {said}"
    problem = Problem(
        "error", "REWARD_AMBIGUOUS", "settings", message, f"choose: {choices()}", field="verl_reward_preset"
    )
    return ConfigError(
        message,
        code="REWARD_AMBIGUOUS",
        hint=problem.hint,
        problems=[problem],
        details={"choices": list(_FIXED)},
    )


def _mode_error(said: str) -> ConfigError:
    message = f"a run has exactly one reward: {said}"
    hint = f"name one of {choices()}; or leave both out and let data_source decide (--reward-mode auto)"
    problem = Problem("error", "REWARD_MODE_INVALID", "settings", message, hint, field="verl_reward_mode")
    return ConfigError(message, code=problem.code, hint=hint, problems=[problem])


def _kwargs_error(settings: Settings, said: str) -> ConfigError:
    message = f"verl_reward_kwargs (from {settings.origin('verl_reward_kwargs')}) {said}"
    hint = """write a JSON object of plain values, such as {"format_score": 0.1}"""
    problem = Problem("error", "REWARD_KWARGS_INVALID", "settings", message, hint, field="verl_reward_kwargs")
    return ConfigError(message, code=problem.code, hint=hint, problems=[problem])


def _plain(value: object) -> bool:
    """Whether YAML and JSON write the value alike."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(_plain(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | int)
