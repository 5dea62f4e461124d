"""prepare: settings, data, model and template in; a final YAML and its hash out. Nothing starts."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from loopai_trainer.contract import Backend
from loopai_trainer.errors import HostUnfit, SettingsError
from loopai_trainer.files import atomic, run_index, small_inputs
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import (
    approval_policy,
    approvals,
    backend_environment,
    commands,
    device_use,
    guide,
    inheritance,
    model_input,
    plan_notes,
    prepare_events,
    prompt_manifest,
    provenance,
    refusals,
    resolving,
    resuming,
    rounds,
    run_place,
    secret_scan,
    sft_data,
    sources,
    stored_task,
    template_use,
)
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.review import Review, approval_data, counts, refuse, review
from loopai_trainer.records import (
    DataReport,
    Environment,
    InputFile,
    Model,
    Placement,
    Plan,
    Problem,
    Settings,
    Versions,
)
from loopai_trainer.rules import cluster, dotted, host_env, length_limits, policy, yaml_text
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules import settings as setting_rules

Progress = Callable[[str, int, int], None]
"""(what, bytes done, bytes in all): for the terminal."""


class _Parts(NamedTuple):
    template: template_use.TemplateUse
    data: DataReport
    model: Model
    reserved: Mapping[str, Any]


def prepare(request: sources.Request, progress: Progress | None = None) -> Answer:
    """Validate everything, write snapshots and the final YAML. Raises a TrainerError with all problems found."""
    environ = request.environ
    with stored_task.told_of_refusal(lambda: sources.task_address(request), environ, lambda: guide.fields(request)):
        answer, settings = _prepared(request, progress)
    return stored_task.note_prepared(answer, settings, environ, lambda: guide.fields(request))


def _prepared(request: sources.Request, progress: Progress | None) -> tuple[Answer, Settings]:
    resume = None if request.resume is None else resuming.begin(request)
    request = request if resume is None else resume.request
    resolved = sources.resolve(request)
    run = run_place.place(resolved.settings)
    begun = inheritance.begin(resolved, run, request.environ) if resume is None else resuming.as_round(resume, resolved)
    resolved = resolved._replace(settings=begun.settings, warnings=(*resolved.warnings, *begun.warnings))
    _refuse_early(resolved, request)
    settings, backend = resolved.settings, resolved.backend
    environment = backend_environment.find(resolved, request.environ)
    versions = backend.probe(environment)
    with (
        run_place.reserved(run, settings, request.environ),
        prepare_events.refusals(run, settings.text("task_id"), request.environ),
        _room(run),
        ExitStack() as kept,
    ):
        parts = _gather(resolved, request, run, versions, progress, begun)
        kept.enter_context(refusals.after_data(run, parts.data))
        if resume is not None:
            resuming.refuse_other_inputs(resume, parts.data, parts.model)
            resuming.refuse_other_reward(resume, begun, resolved, parts.reserved)
        if progress is not None:
            progress("writing the plan", 0, 0)
        plan, copies = _plan(resolved, parts, run, environment, versions, request.environ, resume)
        small_inputs.write(copies)  # before the review, which looks into them
        found = _judged(plan, resolved, parts, run, versions, progress, request.environ)
        parts = parts._replace(template=template_use.as_planned(parts.template, plan.native, backend.owned_keys()))
        warnings = _warnings(resolved, parts, found, versions, plan)
        template = parts.template._replace(notes=(*parts.template.notes, *begun.notes))
        noted = plan_notes.record(settings, template, plan, versions, warnings, time.time(), run.task.path)
        since = _write(run, plan, template, noted)
    run_index.add(run.path, request.environ, plan.version_id)
    following = approval_policy.next_command(plan, run, request.environ)
    data = approval_data(plan, run, found.summary, warnings, diff=since, next_command=following)
    message = f"prepared {plan.version_id}; nothing was started"
    return Answer("prepare", data, status="prepared", message=message), settings


def _judged(
    plan: Plan,
    resolved: sources.Resolved,
    parts: _Parts,
    run: RunDir,
    versions: Versions,
    progress: Progress | None,
    environ: Mapping[str, str],
) -> Review:
    """The review of the plan, with its part of the data's report. Raises ConfigError for a plan with errors."""
    document = yaml_text.load(plan.text, run.config, "config")
    found = review(plan, resolved.backend, versions, document.lines, run, progress, environ)
    sft_data.add_to_report(run, found.report, found.errors)
    if found.errors:
        raise refuse(found.errors, parts.template.path, refusals.cut_rows(found.warnings))
    return found


def _write(
    run: RunDir, plan: Plan, template: template_use.TemplateUse, noted: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What stands beside the YAML, then the YAML itself; returns what it changes since the last approved round."""
    atomic.write_text(run.explanation, plan_notes.explanation(template, plan))
    since = rounds.since_approved(run, plan.text)
    atomic.write_json(run.plan, {**noted, **approvals.moment(), **rounds.noted(since)})
    atomic.write_text(run.config, plan.text)
    prepare_events.note(run, plan, counts(plan.loopai["inputs"]))
    return since


def _refuse_early(resolved: sources.Resolved, request: sources.Request) -> None:
    """What the settings alone tell is refused before hours of reading, not after."""
    try:
        setting_rules.require(resolved.settings, resolved.fields)
    except SettingsError as error:
        error.next_command = commands.verb("guide")
        raise
    length_limits.of_settings(resolved.settings)
    secret_scan.refuse_settings(resolved.settings, request.environ)
    template_use.read_overrides(request.overrides, resolved.backend.owned_keys())


def _warnings(
    resolved: sources.Resolved, parts: _Parts, found: Review, versions: Versions, plan: Plan
) -> tuple[Problem, ...]:
    return (
        *resolved.warnings,
        *device_use.unused(resolved.settings, plan),
        *parts.template.warnings,
        *found.warnings,
        *_of_template(parts.template, resolved.backend, versions, found.warnings),
        *provenance.remarks(versions, backend_environment.flagged(resolved, "--backend-dir")),
        *(problem for problem in parts.data.problems if problem.severity == "warning"),
    )


@contextmanager
def _room(run: RunDir) -> Iterator[None]:
    """Says that the disk is full, or what else keeps the run directory from being written. Raises HostUnfit."""
    try:
        yield
    except OSError as error:
        code = "DISK_FULL" if atomic.means_full(error) else "NOT_WRITABLE"
        raise HostUnfit(
            f"{error.filename or run.path} could not be written: {error.strerror}",
            code=code,
            hint="make room there, or choose another --output-dir, and prepare again",
        ) from None


def _gather(
    resolved: sources.Resolved,
    request: sources.Request,
    run: RunDir,
    versions: Versions,
    progress: Progress | None,
    begun: inheritance.Round,
) -> _Parts:
    """Template, data and model, each checked even if another one is refused: all problems come back at once."""
    settings, refused = resolved.settings, refusals.Gathering()
    template = refused.collect(lambda: _checked_template(resolved, request, versions, begun.baseline))
    wanted = _validation_size(template, settings)
    data = refused.collect(lambda: _data(resolved, run, wanted, tell(progress, "reading data"), begun))
    model = refused.collect(lambda: model_input.read(settings, request.environ, tell(progress, "hashing the model")))
    if template is None or data is None or model is None:
        error = refused.merged()
        if data is not None:
            refusals.tell_of_data(error, run, data[0])
        raise error
    return _Parts(template, data[0], model, data[1])


def _data(
    resolved: sources.Resolved,
    run: RunDir,
    validation_size: float | int | None,
    progress: sft_data.Progress | None,
    begun: inheritance.Round,
) -> tuple[DataReport, dict[str, Any]]:
    """The data, and what the `loopai` block says because of them. Raises DataError, ConfigError."""
    data = read_data(resolved, run, validation_size, progress, begun.validation)
    with refusals.after_data(run, data):
        reserved = resolved.backend.reserved(resolved.settings, data)
    if begun.validation and not inheritance.same_contract(begun, resolved, reserved):
        # Rewards that mean something else: the last round's validation data no longer measure the same thing.
        data = read_data(resolved, run, validation_size, progress)
        reserved = resolved.backend.reserved(resolved.settings, data)
    prompt_manifest.note_reward(run, reserved.get("reward"))
    return data, reserved


def read_data(
    resolved: sources.Resolved,
    run: RunDir,
    validation_size: float | int | None,
    progress: sft_data.Progress | None,
    reused_validation: str | None = None,
) -> DataReport:
    """Check the data that the settings name and write what training will read. Raises DataError.

    `reused_validation`: the last round's validation Parquet, taken over instead of a split.
    """
    settings, backend = resolved.settings, resolved.backend
    if backend.data_kind == "prompts":
        from loopai_trainer.operations.prompt_data import prepare_prompt_data

        return prepare_prompt_data(settings, run, reused_validation, progress)
    if backend.data_kind == "tasks":
        from loopai_trainer.operations.task_data import prepare_task_data

        return prepare_task_data(settings, run, validation_size, progress)
    seed = settings.values["split_seed"]
    return sft_data.prepare_sft_data(backend, settings, run, validation_size, seed, progress)


def _checked_template(
    resolved: sources.Resolved, request: sources.Request, versions: Versions, baseline: Mapping[str, Any] | None
) -> template_use.TemplateUse:
    backend = resolved.backend
    tunes = backend.data_kind == "chat"  # the keyword rules speak of supervised training
    owned = backend.owned_keys()
    template = template_use.use(
        resolved.settings,
        request.overrides,
        owned,
        tunes=tunes,
        baseline=baseline,
        environ=request.environ,
        renamed=backend.renamed_keys(),
    )
    problems = backend.template_problems(template.values, template.lines, versions)
    errors = template_use.placed([problem for problem in problems if problem.severity == "error"], request.overrides)
    if errors:
        raise refuse(errors, "--set" if errors[0].origin == "--set" else template.path)
    return template


def _of_template(
    template: template_use.TemplateUse, backend: Backend, versions: Versions, told: Sequence[Problem]
) -> list[Problem]:
    """Warnings on the template that the plan does not show any more, such as a key's old name."""
    found = backend.template_problems(template.values, template.lines, versions)
    known = {(problem.code, problem.field) for problem in told}
    return [p for p in found if p.severity == "warning" and (p.code, p.field) not in known]


def _validation_size(template: template_use.TemplateUse | None, settings: Settings) -> float | int | None:
    # A template's val_size becomes our own split, so that what is held out is approved and counted too.
    size = template.values.get("val_size") if template else None
    return size if size and not settings.text("train_input_eval_dataset_path") else None


def for_draft(settings: Settings, versions: Versions, kept: frozenset[str]) -> Settings:
    """The settings as a draft gets them: the installed package's version may decide the names of keys."""
    return Settings({**settings.values, "backend_version": versions.version}, settings.origins, kept)


def _plan(
    resolved: sources.Resolved,
    parts: _Parts,
    run: RunDir,
    environment: Environment,
    versions: Versions,
    environ: Mapping[str, str],
    resume: resuming.Resume | None = None,
) -> tuple[Plan, list[small_inputs.Copy]]:
    settings, backend = resolved.settings, resolved.backend
    told = for_draft(settings, versions, template_use.set_keys(parts.template))
    native = backend.draft(told, parts.data, parts.template.values, parts.model, run_place.launch_paths(run))
    native, copies = small_inputs.take(native, backend.file_keys(), run.inputs, os.path.dirname(parts.template.path))
    copies += small_inputs.copies(backend.input_files(settings, native), run.inputs)
    secret_scan.refuse_copies(copies)
    checks = length_limits.to_plan(length_limits.of_settings(settings))
    taken = resuming.Taken({}, {}, []) if resume is None else resuming.take(resume, run, environ)
    for key, value in taken.native.items():
        dotted.put(native, key, value)
    loopai = {
        "format": plans.FORMAT,
        "task_id": settings.text("task_id"),
        "version_id": run.version_id,
        "framework": settings.text("train_framework"),
        "stage": settings.text("train_stage"),
        "backend": backend_block(resolved, native, run, environment, versions),
        "launch": _launch_block(
            settings, backend.placement(settings, native), environ, backend.launch_env(told, run.path)
        ),
        **parts.reserved,
        "inputs": {
            **split_entries(parts.data),
            **model_input.entries(parts.model, settings),
            "files": [*file_entries(parts.data, copies), *taken.files],
        },
        **taken.reserved,
        **({"tuning": parts.template.said} if parts.template.said else {}),
        **({"checks": checks} if checks else {}),
        **({"approval": {"require": "terminal"}} if settings.text(policy.KEY) == "terminal" else {}),
    }
    return plans.render(loopai, backend.result_block(settings, parts.data), native), copies


def backend_block(
    resolved: sources.Resolved, native: Mapping[str, Any], run: RunDir, environment: Environment, versions: Versions
) -> dict[str, Any]:
    """`loopai.backend`: what will run the native keys. Raises ConfigError for keys that the package refuses."""
    return {
        "package": versions.package,
        "version": versions.version,
        "python": environment.python,
        "environment": environment.root,
        "environment_sha256": versions.sha256,
        **provenance.entry(versions, backend_environment.flagged(resolved, "--backend-dir")),
        **resolving.entry(resolved.backend, native, environment, run_place.launch_paths(run)),
    }


def _launch_block(
    settings: Settings,
    placement: Placement,
    environ: Mapping[str, str],
    wanted: tuple[dict[str, str], tuple[str, ...]],
) -> dict[str, Any]:
    env, pass_env = wanted
    block = {
        "executor": "local" if settings.values["trainer_persistent_worker"] else "inline",
        "devices": placement.devices,
        "nodes": 1,
        "nproc_per_node": placement.processes,
        "host_env": host_env.pinned(environ),
        "env": env,
        "pass_env": list(pass_env),
    }
    return cluster.placed(block, settings.values, sys.executable)


def split_entries(data: DataReport) -> dict[str, Any]:
    """The entries of `loopai.inputs` for the data, by split."""
    return {split.where: _split_entry(split.snapshot, split.counts.rejected) for split in data.splits}


def _split_entry(file: InputFile, rejected: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": file.path, "sha256": file.sha256, "bytes": file.bytes, "rows": file.rows}
    if rejected:
        entry["rejected"] = rejected
    if file.source_path:
        entry["source"] = {"path": file.source_path, "sha256": file.source_sha256}
    return entry


def file_entries(data: DataReport, copies: list[small_inputs.Copy]) -> list[dict[str, Any]]:
    """The entries of `loopai.inputs.files`: the registry, then the copies."""
    entries = [data.registry] if data.registry else []
    return [
        *({"path": file.path, "sha256": file.sha256, "bytes": file.bytes} for file in entries),
        *({"path": copy.path, "sha256": copy.sha256, "bytes": len(copy.data)} for copy in copies),
    ]


def tell(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    """`progress` for one thing that takes long, named `what`."""
    if progress is None:
        return None
    return lambda done, total: progress(what, done, total)
