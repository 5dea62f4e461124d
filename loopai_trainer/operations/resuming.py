"""prepare --resume: a new round that goes on from the newest complete checkpoint of one that has stopped.

Everything else is as it was approved: settings, native keys, data, model. What differs is refused, or was asked for by
a flag and stands in the diff to that round. The checkpoint's files come into the new run's `inputs/` and are pinned.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any, NamedTuple

from loopai_trainer import backends
from loopai_trainer.contract import Backend, Resumes
from loopai_trainer.errors import Busy, ConfigError, TrainerError, UsageError
from loopai_trainer.files import atomic, hashing, user_dirs
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import commands, inheritance, targets, unstarted
from loopai_trainer.operations.sources import Request, Resolved
from loopai_trainer.records import Checkpoint, DataReport, Model, Plan, Problem
from loopai_trainer.results.metric_files import normalised_rows
from loopai_trainer.rules import dev_bounds
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules.run_state import ANSWER
from loopai_trainer.worker.observe import observe
from loopai_trainer.worker.watching import metric_line

_NOT_CARRIED = ("trainer_version_id", "trainer_output_dir", "config_mode")
_REWARD_SETTINGS = "verl_reward_"
_FILES_SHOWN = 3


class Resume(NamedTuple):
    """The round that goes on: its directory, its approved plan, the checkpoint, and the request with its settings.

    `asked`: the settings that this call names itself.
    """

    run: RunDir
    plan: Plan
    checkpoint: Checkpoint
    request: Request
    validation_size: Any
    asked: frozenset[str]


class Taken(NamedTuple):
    """What a plan gets by a resume: native keys, keys of the reserved block, entries of `inputs.files`."""

    native: dict[str, Any]
    reserved: dict[str, Any]
    files: list[dict[str, Any]]


def begin(request: Request) -> Resume:
    """Find what is to be continued. Raises NotFound, UsageError, Busy for a run that goes on, ConfigError without a
    checkpoint that training can go on from."""
    assert request.resume is not None  # prepare() asks first
    scope = targets.Scope(request.environ, request.keyword.get("output_dir"), request.keyword.get("task_id"))
    run = targets.find(request.resume, scope)
    _refuse_unended(run)
    plan = _approved_plan(run)
    if dev_bounds.is_dev(plan):
        raise UsageError(
            f"{run.version_id} is a dev run, which nothing goes on from",
            code="DEV_PLAN",
            hint="resume a training, or prepare a new one",
        )
    backend = backends.get(plan.framework, plan.stage)
    noted = atomic.read_json(run.plan) or {}
    asked = frozenset(name for name, value in request.keyword.items() if value is not None)
    checkpoint = _newest(run, plan, backend)
    return Resume(run, plan, checkpoint, _with_settings(request, noted), noted.get("validation_size"), asked)


def as_round(resume: Resume, resolved: Resolved) -> inheritance.Round:
    """The round before is the one that is continued: its keys instead of a template's, its data, its settings."""
    backend = resolved.backend
    native = inheritance.without(resume.plan.native, {**backend.owned_keys(), **_resumes(backend).resume_keys("")})
    if resume.validation_size:
        native["val_size"] = resume.validation_size
    note = f"training goes on from {resume.checkpoint.name} of {resume.run.version_id}; all keys are that round's"
    previous = inheritance.Previous(resume.run, resume.plan, {})
    return inheritance.Round(resolved.settings, previous, native, _reused_validation(resume, backend), (), (note,))


def _reused_validation(resume: Resume, backend: Backend) -> str | None:
    """That round's validation file, where it was itself taken over from a round before; a split is made again."""
    inputs = resume.plan.loopai["inputs"]
    train, validation = ((inputs.get(split) or {}) for split in ("train", "validation"))
    if backend.data_kind != "prompts" or not validation:
        return None
    sources = [(entry.get("source") or {}).get("path") for entry in (train, validation)]
    return None if sources[0] == sources[1] else str(validation["path"])


def refuse_other_inputs(resume: Resume, data: DataReport, model: Model) -> None:
    """Raises ConfigError RESUME_INPUT_CHANGED unless data and model are byte for byte those of the round before."""
    before = resume.plan.loopai["inputs"]
    got = {split.where: split.snapshot.sha256 for split in data.splits} | {"model": model.fingerprint}
    expected = {name: before[name]["sha256"] for name in ("train", "validation") if before.get(name)}
    expected["model"] = before["model"]["fingerprint"]
    for name in sorted({*got, *expected}):
        if got.get(name) != expected.get(name):
            raise ConfigError(
                f"{name} is not what {resume.run.version_id} trained with, so it cannot be continued\n"
                f"  expected: {expected.get(name)}\n  got:      {got.get(name)}",
                code="RESUME_INPUT_CHANGED",
                hint="bring the former inputs back, or prepare a new training without --resume",
            )


def refuse_other_reward(
    resume: Resume, begun: inheritance.Round, resolved: Resolved, reserved: Mapping[str, Any]
) -> None:
    """Raises ConfigError RESUME_INPUT_CHANGED for a reward that means something else, unless this call asks for it."""
    asked = any(name.startswith(_REWARD_SETTINGS) for name in resume.asked)
    if "reward" in reserved and not asked and not inheritance.same_contract(begun, resolved, reserved):
        raise ConfigError(
            f"the reward is not what {resume.run.version_id} trained with, so it cannot be continued",
            code="RESUME_INPUT_CHANGED",
            hint="bring the former reward back, or name the new one in this call: it then stands in the diff",
        )


def take(resume: Resume, run: RunDir, environ: Mapping[str, str]) -> Taken:
    """Bring checkpoint and earlier metrics into `run`."""
    target = run.at("inputs", resume.checkpoint.name)
    _link_tree(resume.checkpoint.path, target)
    cache = hashing.HashCache(user_dirs.hash_cache(environ), trust=True)
    paths = [*_files(target), _write_earlier_metrics(resume, run)]
    entries = [
        {"path": path, "sha256": hashing.sha256_file(path, cache), "bytes": os.path.getsize(path)} for path in paths
    ]
    block = {
        "version_id": resume.run.version_id,
        "config_sha256": resume.plan.sha256,
        "checkpoint": resume.checkpoint.path,
        "step": resume.checkpoint.step,
        "path": target,
    }
    keys = _resumes(backends.get(resume.plan.framework, resume.plan.stage)).resume_keys(target)
    return Taken(keys, {"resume": block}, entries)


def _refuse_unended(run: RunDir) -> None:
    seen = observe(run)
    unstarted.refuse(run, seen, "to continue")
    if seen.verdict.action != ANSWER:
        raise Busy(
            f"{run.version_id} is {seen.verdict.status}: only a run that has ended and was finalised is continued",
            hint="cancel it, wait for it, or finish it with its run-prepared call first",
            next_command=commands.status(run.path),
        )


def _approved_plan(run: RunDir) -> Plan:
    try:
        with open(run.approved_config, "rb") as file:
            return plans.read(file.read(), run.approved_config)
    except (OSError, TrainerError) as error:
        raise ConfigError(
            f"the approved YAML of {run.version_id} cannot be read: {error}", hint="prepare a new training"
        ) from None


def _resumes(backend: Backend) -> Resumes:
    if not isinstance(backend, Resumes):
        raise UsageError(
            f"{backend.name} runs cannot be continued by this version",
            code="RESUME_UNSUPPORTED",
            hint="prepare a new training without --resume",
        )
    return backend


def _newest(run: RunDir, plan: Plan, backend: Backend) -> Checkpoint:
    resumes, problems = _resumes(backend), list[Problem]()
    for checkpoint in reversed(backend.find_checkpoints(run.checkpoints)):
        found = resumes.resume_problems(checkpoint, plan)
        if not found:
            return checkpoint
        problems += found
    why = "; ".join(problem.message for problem in problems[:_FILES_SHOWN]) or "it has none"
    raise ConfigError(
        f"no checkpoint of {run.version_id} can be continued: {why}",
        code="RESUME_NO_CHECKPOINT",
        hint="prepare a new training, one that saves more often and with its optimizer",
        problems=problems,
    )


def _with_settings(request: Request, noted: Mapping[str, Any]) -> Request:
    """The request with the former round's settings below its own, and above everything else that speaks here."""
    former = noted.get("settings")
    kept = {
        name: entry["value"]
        for name, entry in (former.items() if isinstance(former, Mapping) else ())
        if name not in _NOT_CARRIED
        and isinstance(entry, Mapping)
        and entry.get("value") not in (None, "")
        and entry.get("origin") != "default"
    }
    own = {name: value for name, value in request.keyword.items() if value is not None}
    return request._replace(keyword={**kept, "config_mode": "template", **own})


def _link_tree(source: str, target: str) -> None:
    """The same files under another folder: by hard link (no copy of what may be many gigabytes), else copied."""
    shutil.rmtree(target, ignore_errors=True)  # of a prepare that failed
    for path in _files(source):
        place = os.path.join(target, os.path.relpath(path, source))
        atomic.make_private_dir(os.path.dirname(place))
        try:
            os.link(path, place, follow_symlinks=True)
        except OSError:
            shutil.copyfile(path, place)
        os.chmod(place, 0o444)


def _write_earlier_metrics(resume: Resume, run: RunDir) -> str:
    """The rows of all earlier attempts up to the checkpoint, with attempts that count down from 0."""
    rows = [*normalised_rows(resume.run.earlier_metrics), *normalised_rows(resume.run.metric_rows)]
    attempts = [row.attempt for row in rows]
    last = max(attempts, default=0)
    lines = [metric_line(row, row.attempt - last) for row in rows if row.step <= resume.checkpoint.step]
    path = run.earlier_metrics
    atomic.write_bytes(path, b"".join(lines), mode=0o444)
    return path


def _files(folder: str) -> list[str]:
    return sorted(os.path.join(root, name) for root, _, names in os.walk(folder) for name in names)
