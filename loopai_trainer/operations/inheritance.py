"""The round before this one: what a new round of a task takes over from its last successful one (spec/001)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from loopai_trainer.errors import SettingsError, TrainerError
from loopai_trainer.files import hashing, result_file, run_index, safetensors
from loopai_trainer.files.run_dir import RunDir, TaskDir
from loopai_trainer.operations import sources
from loopai_trainer.records import Plan, Problem, Settings, Severity
from loopai_trainer.rules import dotted
from loopai_trainer.rules import plan as plans

_MODEL = "train_input_model_name"
_CONTRACT = ("mode", "preset", "name", "kwargs")
_COPIED_REWARD = "reward_function.py"
_EVAL = ("train_input_eval_dataset_path", "verl_source_eval_dataset_path")


class Previous(NamedTuple):
    """The last completed round: its directory, its approved plan, its result."""

    run: RunDir
    plan: Plan
    result: Mapping[str, Any]


class Round(NamedTuple):
    """What a new round begins with.

    `settings` names the model to go on with. `baseline`: native keys instead of the template's. `validation`: a
    Parquet file of the previous round, to be used while the reward contract stays what it was. `notes` for people.
    """

    settings: Settings
    previous: Previous | None = None
    baseline: Mapping[str, Any] | None = None
    validation: str | None = None
    warnings: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def begin(resolved: sources.Resolved, run: RunDir, environ: Mapping[str, str]) -> Round:
    """What the settings allow to be taken over; nothing for a framework without rounds, or in a first round.

    Raises SettingsError if the previous round's model cannot be gone on with and no other one is named.
    """
    settings = resolved.settings
    if "verl_inherit_previous_config" not in settings.values:
        return Round(settings)
    previous = find_previous(run, settings.text("train_framework"), settings.text("train_stage"), environ)
    if previous is None:
        return Round(settings)
    settings, warnings, notes = _promoted(settings, previous)
    baseline = None
    if settings.values["verl_inherit_previous_config"]:
        baseline = without(previous.plan.native, resolved.backend.owned_keys())
        notes.append(f"the hyper-parameters are those approved for round {previous.run.version_id}")
        warnings += _other_template(settings, previous)
    return Round(settings, previous, baseline, _validation(settings, previous), tuple(warnings), tuple(notes))


def find_previous(run: RunDir, framework: str, stage: str, environ: Mapping[str, str]) -> Previous | None:
    """The task's completed version of that framework and stage that ended last."""
    found = [previous for one in _versions(run, environ) if (previous := _completed(one, framework, stage))]
    return max(found, key=lambda previous: _ended(previous.result), default=None)


def same_contract(begun: Round, resolved: sources.Resolved, reserved: Mapping[str, Any]) -> bool:
    """Whether the new reward means what the previous round's meant: only then its validation data still do."""
    reward = reserved.get("reward")
    if begun.previous is None or reward is None:
        return False
    loopai = begun.previous.plan.loopai
    before = loopai.get("reward")
    if not isinstance(before, Mapping) or any(before.get(name) != reward.get(name) for name in _CONTRACT):
        return False
    own = resolved.settings.text("verl_reward_function_path")
    if reward.get("mode") != "custom" or not own:
        return True
    hashes = {os.path.basename(entry["path"]): entry["sha256"] for entry in loopai["inputs"]["files"]}
    path = own if os.path.isfile(own) else own.rpartition(":")[0]
    try:
        return hashes.get(_COPIED_REWARD) == hashing.sha256_file(path)
    except OSError:
        return False


def _versions(run: RunDir, environ: Mapping[str, str]) -> Iterator[RunDir]:
    seen: set[str] = set()
    for one in (*_in_task(run.task), *run_index.known_runs(environ)):
        path = os.path.realpath(one.path)
        if path not in seen and path != os.path.realpath(run.path) and _of_task(one, run.task):
            seen.add(path)
            yield one


def _in_task(task: TaskDir) -> Iterator[RunDir]:
    try:
        names = sorted(os.listdir(task.runs))
    except OSError:
        return
    for name in names:
        yield task.run(name)


def _of_task(one: RunDir, task: TaskDir) -> bool:
    from loopai_trainer.files import atomic

    try:
        noted = atomic.read_json(one.plan) or {}
    except (OSError, ValueError, RecursionError):
        return False
    return noted.get("task_dir") == task.path


def _completed(run: RunDir, framework: str, stage: str) -> Previous | None:
    result = result_file.read(run)
    if result is None or result["status"] != "completed":
        return None
    try:
        with open(run.approved_config, "rb") as file:
            plan = plans.read(file.read(), run.approved_config)
    except (OSError, TrainerError):
        return None
    return Previous(run, plan, result) if (plan.framework, plan.stage) == (framework, stage) else None


def _ended(result: Mapping[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(result.get("finished_at"))).timestamp()
    except ValueError:
        return 0.0


def _promoted(settings: Settings, previous: Previous) -> tuple[Settings, list[Problem], list[str]]:
    """The settings with the previous round's exported model, unless this call names another one (interface 2)."""
    if not settings.values["verl_use_previous_best_model"] or _is_this_calls(settings, _MODEL):
        return settings, [], []
    path = previous.result.get("update_model_path")
    why = "it has none" if not isinstance(path, str) or not path else _not_loadable(path)
    version = previous.run.version_id
    if not why:
        origin = f"update_model_path of round {version}"
        values, origins = {**settings.values, _MODEL: path}, {**settings.origins, _MODEL: origin}
        return Settings(values, origins), [], [f"the model is the one that round {version} exported"]
    message = f"the model of round {version} is not taken over: {why}"
    hint = f"trainer export {version}, or name the model with --model"
    field, other = "verl_use_previous_best_model", settings.text(_MODEL)
    severity: Severity = "warning" if other else "error"
    told = Problem(severity, "PREVIOUS_MODEL_NOT_USED", "model", message, hint, field=field)
    if not other:
        raise SettingsError(
            f"{message}; and no other one is named", code="SETTINGS_MISSING", hint=hint, problems=[told]
        )
    return settings, [told], []


def _is_this_calls(settings: Settings, name: str) -> bool:
    return settings.origin(name).startswith(("--", "environment variable"))


def _not_loadable(path: str) -> str:
    """Why a folder is no whole Hugging Face model: its config and all of its weights have to be there."""
    if not os.path.isfile(os.path.join(path, "config.json")):
        return f"{path} has no config.json"
    weights = [name for name in os.listdir(path) if name.endswith(".safetensors")]
    if not weights:
        return f"{path} has no weights"
    for name in weights:
        try:
            safetensors.read_header(os.path.join(path, name))
        except (OSError, safetensors.Damaged) as error:
            return f"{name}: {error}"
    return ""


def without(native: Mapping[str, Any], owned: Mapping[str, str]) -> dict[str, Any]:
    """The keys that a new round may take over: all but those that a plan sets itself."""
    kept: dict[str, Any] = {}
    for key, value in dotted.leaves(native):
        if not any(key == name or key.startswith(f"{name}.") for name in owned):
            dotted.put(kept, key, value)
    return kept


def _other_template(settings: Settings, previous: Previous) -> list[Problem]:
    from loopai_trainer.files import atomic

    name = "train_input_config_template_path"
    if not _is_this_calls(settings, name):
        return []
    try:
        noted = (atomic.read_json(previous.run.plan) or {}).get("settings")
        before = noted[name]["value"] if isinstance(noted, dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        before = None
    if before is None or before == settings.text(name):
        return []
    message = f"the template {settings.text(name)} is not used: the last round's approved configuration is the baseline"
    hint = "to begin from the template: --option verl_inherit_previous_config=false"
    return [Problem("warning", "TEMPLATE_NOT_USED", "template", message, hint, field=name)]


def _validation(settings: Settings, previous: Previous) -> str | None:
    if not settings.values["verl_reuse_previous_validation"] or any(settings.text(name) for name in _EVAL):
        return None
    entry = previous.plan.loopai["inputs"].get("validation")
    if not entry:
        return None
    try:
        whole = hashing.sha256_file(entry["path"]) == entry["sha256"]
    except OSError:
        return None
    return str(entry["path"]) if whole else None
