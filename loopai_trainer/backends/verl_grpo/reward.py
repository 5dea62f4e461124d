"""The reward of a plan: the reserved block, the file that is copied into `inputs/`, and verl's keys for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from loopai_trainer.backends.verl_grpo import reward_file
from loopai_trainer.errors import ConfigError
from loopai_trainer.host import offered
from loopai_trainer.records import DataReport, Problem, PromptFacts, Settings
from loopai_trainer.rules import reward_choice, reward_presets

ROUTER = "loopai_reward.py"
"""Name in `inputs/` of our router, which modes auto and preset call."""

CUSTOM = "reward_function.py"
"""Name in `inputs/` of the copy of a custom reward."""

_ROUTER_SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside", ROUTER)


def reward_block(settings: Settings, data: DataReport) -> dict[str, Any]:
    """`loopai.reward`: {mode, preset, function, name, kwargs, origin}; `function`: the user's file, absolute.

    `runs_code`, only if there are any: data_sources whose scorer executes what the model writes.
    Raises ConfigError for what contradicts itself, is unknown or would have to be guessed.
    """
    facts = data.prompts or PromptFacts({}, {}, {}, native=True)
    try:
        choice = reward_choice.choose(settings, facts)
    except ConfigError as error:
        raise _counted(error, data, facts) from None
    function, name = _named_function(settings) if choice.function else (None, None)
    if function:
        problems = reward_file.check(function, name or reward_choice.DEFAULT_NAME, tuple(choice.kwargs))
        if problems:
            raise ConfigError(problems[0].message, code=problems[0].code, hint=problems[0].hint, problems=problems)
    block = {
        "mode": choice.mode,
        "preset": choice.preset,
        "function": function,
        "name": name,
        "kwargs": dict(choice.kwargs),
        "origin": choice.origin,
    }
    return {**block, "runs_code": list(choice.code_sources)} if choice.code_sources else block


def input_files(settings: Settings) -> dict[str, str]:
    """Name in `inputs/` -> where the file lies now: the custom reward, else our router."""
    if settings.text("verl_reward_function_path"):
        return {CUSTOM: _named_function(settings)[0]}
    return {ROUTER: _ROUTER_SOURCE}


def native_keys(block: Mapping[str, Any], inputs_folder: str, version_family: str) -> dict[str, Any]:
    """verl's keys for a reward block: what stands under `reward` (0.9 line) or `custom_reward_function` (0.8 line)."""
    given = block.get("kwargs") or {}  # a block that a person edited may lack anything: told by other checks
    if block.get("mode") == "custom":
        name, arguments = block.get("name"), dict(given)
        path = os.path.join(inputs_folder, CUSTOM)
    else:
        name, arguments = reward_choice.DEFAULT_NAME, {"preset": block.get("preset"), **given}
        path = os.path.join(inputs_folder, ROUTER)
    function = {"path": path, "name": name, "reward_kwargs": arguments}
    return function if version_family == "0.8" else {"custom_reward_function": function}


def called(block: Mapping[str, Any]) -> str:
    """For people: what scores a reply."""
    if block.get("mode") == "custom":
        return f"{block.get('name')} of inputs/{CUSTOM}, a copy of {block.get('function')}"
    preset = reward_presets.PRESETS.get(str(block.get("preset")))
    if preset is None:
        return f"inputs/{ROUTER}, which knows no preset {block.get('preset')}"
    return f"{preset.calls} through inputs/{ROUTER}: {preset.says}"


def red_flags(block: Mapping[str, Any]) -> list[Problem]:
    """What an approver has to know of a reward before everything else."""
    sources = block.get("runs_code") or []
    if not sources or (block.get("kwargs") or {}).get("sandbox_fusion_url"):
        return []
    message = f"the reward executes what the model writes, on this host, for data_source {', '.join(sources)}"
    hint = 'train where that may happen, or name a sandbox: --reward-kwargs \'{"sandbox_fusion_url": "http://..."}\''
    return [Problem("warning", "REWARD_RUNS_CODE", "config", message, hint, field="loopai.reward")]


def _named_function(settings: Settings) -> tuple[str, str]:
    """(absolute path of the file, name of the function) of FILE[:NAME], or of a reward that a package offers by name.

    Raises ConfigError for two different names.
    """
    text = settings.text("verl_reward_function_path")
    setting = settings.text("verl_reward_function_name")
    path, separator, name = text.rpartition(":")
    if os.path.isfile(text) or not (separator and path and os.sep not in name):
        path, name = text, ""
        point = None if os.path.exists(text) or not text.isidentifier() else offered.find(offered.REWARDS, text)
        if point is not None:
            path, name = offered.source_of(point)
    if name and setting and name != setting:
        message = f"the reward's function is named twice: '{name}' in {text}, '{setting}' in verl_reward_function_name"
        problem = Problem(
            "error", "REWARD_MODE_INVALID", "settings", message, "name it once", field="verl_reward_function_name"
        )
        raise ConfigError(message, code=problem.code, hint=problem.hint, problems=[problem])
    return os.path.abspath(path), name or setting or reward_choice.DEFAULT_NAME


def _counted(error: ConfigError, data: DataReport, facts: PromptFacts) -> ConfigError:
    """The refusal, with the rows of each split for a data_source that verl does not know."""
    if error.code != "REWARD_SOURCE_UNKNOWN":
        return error
    from loopai_trainer.backends.verl_grpo.source_counts import rows_of_splits

    counts = rows_of_splits(data)
    problems = []
    for source in sorted(source for source in facts.data_sources if reward_presets.scorer_of(source) is None):
        problems.append(reward_choice.source_problem(source, counts.get(source) or {"": facts.data_sources[source]}))
    return ConfigError(problems[0].message, code=error.code, hint=problems[0].hint, problems=problems)
