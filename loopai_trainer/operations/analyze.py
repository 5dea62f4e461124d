"""analyze: which checkpoint is the result of a run, or of a bare output folder, and why. Writes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from loopai_trainer import backends
from loopai_trainer.backends.verl_grpo.metrics import DEFAULT_METRIC
from loopai_trainer.errors import ConfigError, NotFound, SettingsError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import targets
from loopai_trainer.operations.answer import Answer
from loopai_trainer.records import Plan
from loopai_trainer.results import curve, points
from loopai_trainer.results.analysis import TRAINER_LOG, TRAINER_STATE, VERL_METRICS, Reader, Rule, analyze_folder
from loopai_trainer.results.verl_tracker import TRACKER
from loopai_trainer.rules import plan as plans

VERL_RULE = Rule(DEFAULT_METRIC, "max", losses_decide=False)
"""Source: spec/001 "Result Analysis" 1, for a verl run whose YAML names no metric."""

_LLAMAFACTORY_NAMES = re.compile(rf"{re.escape(TRAINER_LOG)}|{re.escape(TRAINER_STATE)}|checkpoint-\d+")
_VERL_NAMES = re.compile(rf"{VERL_METRICS}(-\d+)?\.jsonl|global_step_\d+|{re.escape(TRACKER)}")
_SHOWN_FOLDERS = 8
_OWN_NAMES = re.compile(r"metrics\.jsonl?")


class _Source(NamedTuple):
    """How a folder is read: whose it is, by which backend, by which rule. `remarks` are warnings."""

    framework: str
    reader: Reader
    rule: Rule
    remarks: tuple[str, ...] = ()


def analyze(target: str, scope: targets.Scope | None = None) -> dict[str, Any]:
    """The data of `analyze --json` for a run directory, a folder of LLaMA-Factory or verl, or (with `scope`) a version.

    Raises NotFound if there is nothing to analyse, ConfigError if the YAML's selection mode is not min or max.
    """
    if os.path.isdir(target) or scope is None or os.sep in target:
        path, remarks = _folder(os.path.abspath(target))
    else:
        path, remarks = targets.find(target, scope).path, ()
    source = _source(path)
    found = analyze_folder(path, source.reader, source.rule)
    found = replace(found, warnings=(*remarks, *source.remarks, *found.warnings))
    return {"framework": source.framework, **found.data(), "curve": curve.draw(points.curves(found.rows))}


def analyze_target(target: str, scope: targets.Scope) -> Answer:
    """`analyze` as the answer of the verb: the reason is its message."""
    data = analyze(target, scope)
    return Answer("analyze", data, message=data["summary"]["reason"])


def _folder(path: str) -> tuple[str, tuple[str, ...]]:
    """The folder to read: `path`, or its only subfolder that holds a training's output."""
    if not os.path.isdir(path):
        raise NotFound(f"there is no folder {path}", hint="name a run directory, or the output_dir of a training")
    if _is_training(path):
        return path, ()
    inner = list(_trainings(path))
    if len(inner) == 1:
        return inner[0], (f"read from {inner[0]}",)
    if inner:
        shown = ", ".join(os.path.relpath(folder, path) for folder in inner[:_SHOWN_FOLDERS])
        more = ", ..." if len(inner) > _SHOWN_FOLDERS else ""
        raise NotFound(f"{path} holds {len(inner)} trainings: {shown}{more}", hint="name one of these folders")
    raise NotFound(
        f"{path} holds neither metrics nor checkpoints",
        hint="name a folder with trainer_log.jsonl, checkpoint-N or global_step_N in it",
    )


def _source(path: str) -> _Source:
    plan, remarks = _plan(path)
    names = " ".join(_names(path))
    if plan is None:
        is_verl = bool(re.search(r"global_step_|verl_metrics|latest_checkpointed", names))
        return _unplanned("verl" if is_verl else "llamafactory", remarks)
    try:
        backend = backends.get(plan.framework, plan.stage)
    except SettingsError:
        source = _unplanned(plan.framework, remarks)
        block = plan.result
        rule = replace(
            source.rule,
            metric=block.get("selection_metric") or source.rule.metric,
            mode=block.get("selection_mode") or source.rule.mode,
        )
        return source._replace(rule=rule)
    metric, mode = backend.selection(plan)
    return _Source(plan.framework, backend, Rule(metric, mode, losses_decide=plan.stage == "sft"), remarks)


def _unplanned(framework: str, remarks: tuple[str, ...]) -> _Source:
    if framework == "verl":
        return _Source(framework, backends.get("verl", "grpo"), VERL_RULE, remarks)
    return _Source("llamafactory", backends.get("llamafactory", "sft"), Rule(), remarks)


def _plan(path: str) -> tuple[Plan | None, tuple[str, ...]]:
    """The approved YAML, else the prepared one; an unreadable one is said and then done without."""
    run = targets.open_run(path)
    for file_path in (run.approved_config, *_approved_elsewhere(run), run.config):
        try:
            with open(file_path, "rb") as file:
                return plans.read(file.read(), file_path), ()
        except FileNotFoundError:
            continue
        except (OSError, ConfigError) as error:
            return None, (f"the run's YAML cannot be read, so the general rule chooses: {error}",)
    return None, ()


def _approved_elsewhere(run: RunDir) -> list[str]:
    """The approved YAML of a run directory that is not named by its version (--trainer-output-dir)."""
    folder = os.path.dirname(run.approved_config)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [os.path.join(folder, name) for name in names if len(names) == 1 and name.endswith(".yaml")]


def _names(path: str) -> list[str]:
    """The names in a folder (and its checkpoints/ and metrics/) that a training writes."""
    found = []
    for folder in (path, os.path.join(path, "checkpoints"), os.path.join(path, "metrics")):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        found += [n for n in names if _LLAMAFACTORY_NAMES.fullmatch(n) or _VERL_NAMES.fullmatch(n)]
        found += [n for n in names if folder.endswith("metrics") and _OWN_NAMES.fullmatch(n)]
    return found


def _trainings(path: str) -> Iterator[str]:
    """The folders of trainings in `path`, a prepared run among them; also if it holds tasks, or is a task's folder."""
    for folder in _subfolders(path):
        if _is_training(folder):
            yield folder
            continue
        runs = folder if os.path.basename(folder) == "trainer" else os.path.join(folder, "trainer")
        if os.path.isdir(runs):
            yield from filter(_is_training, _subfolders(runs))


def _is_training(folder: str) -> bool:
    return os.path.isfile(RunDir(folder).config) or bool(_names(folder))


def _subfolders(path: str) -> Iterator[str]:
    with os.scandir(path) as entries:
        yield from sorted(entry.path for entry in entries if entry.is_dir())
