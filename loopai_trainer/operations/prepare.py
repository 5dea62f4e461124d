"""prepare: settings, data, model and template in; a final YAML and its hash out. Nothing starts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from loopai_trainer.errors import BackendMissing, ConfigError, DataError, HostUnfit, ValidationError
from loopai_trainer.files import atomic, fingerprints, run_index, small_inputs, user_dirs
from loopai_trainer.files.hashing import HashCache
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import environments
from loopai_trainer.operations import plan_notes, run_place, sft_data, sources, template_use
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.review import approval_data, refuse, review
from loopai_trainer.records import (
    DataReport,
    Environment,
    InputFile,
    LaunchPaths,
    Model,
    Plan,
    Problem,
    Settings,
    Versions,
)
from loopai_trainer.rules import length_limits, yaml_text
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules import settings as setting_rules

Progress = Callable[[str, int, int], None]
"""(what, bytes done, bytes in all): for the terminal."""

T = TypeVar("T")


class _Parts(NamedTuple):
    template: template_use.TemplateUse
    data: DataReport
    model: Model


def prepare(request: sources.Request, progress: Progress | None = None) -> Answer:
    """Validate everything, write snapshots and the final YAML. Raises a TrainerError with all problems found."""
    resolved = sources.resolve(request)
    setting_rules.require(resolved.settings, resolved.fields)
    length_limits.of_settings(resolved.settings)  # refused before hours of reading, not after
    settings, backend = resolved.settings, resolved.backend
    template_use.read_overrides(request.overrides, backend.owned_keys())
    run = run_place.place(settings)
    environment = _environment(resolved, request.environ)
    versions = backend.probe(environment)
    with run_place.reserved(run, settings, request.environ), _room(run):
        parts = _gather(resolved, request, run, versions, progress)
        plan, copies = _plan(resolved, parts, run, environment, versions)
        small_inputs.write(copies)  # before the review, which looks into them
        document = yaml_text.load(plan.text, run.config, "config")
        found = review(plan, backend, versions, document.lines, run, _tell(progress, "measuring rows in tokens"))
        sft_data.add_to_report(run, found.report)
        if found.errors:
            raise refuse(found.errors, parts.template.path)
        warnings = (*resolved.warnings, *found.warnings, *(p for p in parts.data.problems if p.severity == "warning"))
        notes = template_use.replaced(parts.template, plan.native, backend.owned_keys())
        template = parts.template._replace(notes=(*parts.template.notes, *notes))
        atomic.write_text(run.explanation, plan_notes.explanation(template, plan))
        atomic.write_json(
            run.plan, plan_notes.record(settings, template, plan, versions, warnings, time.time(), run.task.path)
        )
        atomic.write_text(run.config, plan.text)
    run_index.add(run.path, request.environ, plan.version_id)
    data = approval_data(plan, run, found.summary, warnings)
    message = f"prepared {plan.version_id}; nothing was started"
    return Answer("prepare", data, status="prepared", message=message)


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


def _environment(resolved: sources.Resolved, environ: Mapping[str, str]) -> Environment:
    """The environment that was named, else the one that `trainer setup` made. Raises BackendMissing (exit 69)."""
    settings = resolved.settings
    for field in resolved.fields:
        if field.flag == "--env" and settings.text(field.name):
            framework, origin = settings.text("train_framework"), settings.origin(field.name)
            return environments.resolve(settings.text(field.name), framework, environ, origin)
    spec = resolved.backend.environment_spec()
    if spec is None:
        raise BackendMissing("no environment was named", hint="name one with --env")
    return environments.default(spec, environ)


def _gather(
    resolved: sources.Resolved, request: sources.Request, run: RunDir, versions: Versions, progress: Progress | None
) -> _Parts:
    """Template, data and model, each checked even if another one is refused: all problems come back at once."""
    settings, refusals = resolved.settings, _Refusals()
    template = refusals.collect(lambda: _checked_template(resolved, request, versions))
    wanted = _validation_size(template, settings)
    data = refusals.collect(
        lambda: sft_data.prepare_sft_data(
            resolved.backend, settings, run, wanted, settings.values["split_seed"], _tell(progress, "reading data")
        )
    )
    model = refusals.collect(lambda: _model(settings, request.environ, _tell(progress, "hashing the model")))
    if template is None or data is None or model is None:
        raise refusals.merged()
    return _Parts(template, data, model)


def _checked_template(
    resolved: sources.Resolved, request: sources.Request, versions: Versions
) -> template_use.TemplateUse:
    template = template_use.use(resolved.settings, request.overrides, resolved.backend.owned_keys())
    problems = resolved.backend.template_problems(template.values, template.lines, versions)
    errors = template_use.placed([problem for problem in problems if problem.severity == "error"], request.overrides)
    if errors:
        raise refuse(errors, "--set" if errors[0].origin == "--set" else template.path)
    return template


def _validation_size(template: template_use.TemplateUse | None, settings: Settings) -> float | int | None:
    # A template's val_size becomes our own split, so that what is held out is approved and counted too.
    size = template.values.get("val_size") if template else None
    return size if size and not settings.text("train_input_eval_dataset_path") else None


def _model(settings: Settings, environ: Mapping[str, str], progress: Callable[[int, int], None] | None) -> Model:
    path = os.path.abspath(settings.text("train_input_model_name"))
    if not os.path.isdir(path):
        problem = Problem(
            "error",
            "MODEL_NOT_FOUND",
            "model",
            f"there is no model folder {path}",
            "name a folder that holds config.json, weights and tokenizer; a hub id is not read",
            path=path,
            field="train_input_model_name",
            origin=settings.origin("train_input_model_name"),
        )
        raise ConfigError(problem.message, hint=problem.hint, problems=[problem])
    return fingerprints.fingerprint_model(path, HashCache(user_dirs.hash_cache(environ)), progress)


def _plan(
    resolved: sources.Resolved,
    parts: _Parts,
    run: RunDir,
    environment: Environment,
    versions: Versions,
) -> tuple[Plan, list[small_inputs.Copy]]:
    settings, backend = resolved.settings, resolved.backend
    native = backend.draft(settings, parts.data, parts.template.values, parts.model, launch_paths(run))
    native, copies = small_inputs.take(native, backend.file_keys(), run.inputs, os.path.dirname(parts.template.path))
    checks = length_limits.to_plan(length_limits.of_settings(settings))
    loopai = {
        "format": plans.FORMAT,
        "task_id": settings.text("task_id"),
        "version_id": run.version_id,
        "framework": settings.text("train_framework"),
        "stage": settings.text("train_stage"),
        "backend": {
            "package": versions.package,
            "version": versions.version,
            "python": environment.python,
            "environment": environment.root,
            "environment_sha256": versions.sha256,
        },
        "launch": _launch_block(settings, native),
        "inputs": {
            **_split_entries(parts.data),
            "model": {"path": parts.model.path, "fingerprint": parts.model.fingerprint},
            "files": _file_entries(parts.data, copies),
        },
        **({"checks": checks} if checks else {}),
    }
    metric, mode = ("eval_loss", "min") if parts.data.split("validation") else ("loss", "min")
    result = {"selection_metric": metric, "selection_mode": mode, "export_huggingface": False}
    return plans.render(loopai, result, native), copies


def _launch_block(settings: Settings, native: Mapping[str, Any]) -> dict[str, Any]:
    # A plan that says use_cpu is a CPU smoke one: it names no devices, whatever CUDA_VISIBLE_DEVICES says here.
    devices = "" if native.get("use_cpu") is True else settings.text("CUDA_VISIBLE_DEVICES")
    named = [device for device in devices.split(",") if device.strip()]
    return {
        "executor": "local" if settings.values["trainer_persistent_worker"] else "inline",
        "devices": devices,
        "nodes": 1,
        "nproc_per_node": settings.values.get("nproc_per_node") or max(1, len(named)),
        "env": {},
        "pass_env": [],
    }


def launch_paths(run: RunDir) -> LaunchPaths:
    """The folders that a launch of this run may name."""
    return LaunchPaths(run.path, run.launch, run.checkpoints, run.metrics, run.cache, run.tmp)


def _split_entries(data: DataReport) -> dict[str, Any]:
    return {split.where: _split_entry(split.snapshot, split.counts.rejected) for split in data.splits}


def _split_entry(file: InputFile, rejected: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": file.path, "sha256": file.sha256, "bytes": file.bytes, "rows": file.rows}
    if rejected:
        entry["rejected"] = rejected
    if file.source_path:
        entry["source"] = {"path": file.source_path, "sha256": file.source_sha256}
    return entry


def _file_entries(data: DataReport, copies: list[small_inputs.Copy]) -> list[dict[str, Any]]:
    entries = [data.registry] if data.registry else []
    return [
        *({"path": file.path, "sha256": file.sha256, "bytes": file.bytes} for file in entries),
        *({"path": copy.path, "sha256": copy.sha256, "bytes": len(copy.data)} for copy in copies),
    ]


def _tell(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(what, done, total)


class _Refusals:
    """Gathers what several checks refuse, so that a person sees all of it in one go."""

    def __init__(self) -> None:
        self.errors: list[ValidationError] = []

    def collect(self, check: Callable[[], T]) -> T | None:
        try:
            return check()
        except ValidationError as error:
            self.errors.append(error)
            return None

    def merged(self) -> ValidationError:
        if len(self.errors) == 1:
            return self.errors[0]
        problems = [problem for error in self.errors for problem in error.problems]
        details = {key: value for error in self.errors for key, value in error.details.items()}
        kind = DataError if any(isinstance(error, DataError) for error in self.errors) else ConfigError
        message = "; ".join(error.message for error in self.errors)
        return kind(message, hint=self.errors[0].hint, problems=problems, details=details)
