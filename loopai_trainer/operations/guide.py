"""guide: the first of the two gates: what is set and by whom, what a person still has to give, and what to type next.

The second gate is the approval of the YAML that `prepare` makes of these inputs. Source: spec/001 "Prefill Guidance",
"Trainer MCP Status".
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from loopai_trainer.errors import BackendMissing, NotFound, TrainerError, UsageError
from loopai_trainer.files import templates
from loopai_trainer.operations import backend_environment, commands, model_input, sources
from loopai_trainer.operations.answer import Answer, error_json, problem_json
from loopai_trainer.records import Field, Problem, Settings
from loopai_trainer.rules import messages

_EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "llamafactory/sft": ("trainer prepare --dataset data.jsonl --model DIR --task-description 'SFT a chat assistant'",),
    "verl/grpo": (
        "trainer prepare --stage grpo --dataset train.parquet --eval-dataset validation.parquet --model DIR "
        "--reward-mode preset --reward-preset math_boxed --task-description 'Optimize task accuracy with GRPO'",
    ),
}
_FILES = ("train_input_dataset_path", "train_input_eval_dataset_path")
_MODEL = "train_input_model_name"
_TEMPLATE = "train_input_config_template_path"


class _Guide(NamedTuple):
    request: sources.Request
    resolved: sources.Resolved
    language: messages.Language
    say: messages.Say

    @property
    def settings(self) -> Settings:
        return self.resolved.settings


def guide(request: sources.Request, task_type: str | None = None) -> Answer:
    """The guide as an answer; `data["ready"]`: prepare has all it needs. Raises SettingsError, DataError."""
    data = prefill(request, task_type)
    return Answer("guide", data, status="ready" if data["ready"] else "incomplete", message=data["message"])


def prefill(request: sources.Request, task_type: str | None = None) -> dict[str, Any]:
    """The specification's guide: ready, missing_fields, user_required_fields, auto_filled_fields, field_hints, ...

    `missing_fields` have no value; `user_required_fields` are these and those whose value cannot be used here, and
    `problems` says why. `settings` (ours) maps each name to its value and origin. Raises SettingsError, DataError.
    """
    if task_type:
        request = request._replace(keyword={"train_stage": task_type, **request.keyword})
    resolved = sources.resolve(request)
    language = messages.language_of(resolved.settings.text("language"))
    return _data(_Guide(request, resolved, language, messages.speaker(language)), task_type)


def fields(request: sources.Request) -> dict[str, Any]:
    """What `prepare` answers of it in a task's state; nothing for a resumed run, which asks for no settings."""
    if request.resume is not None:
        return {}
    try:
        found = prefill(request)
    except TrainerError as error:
        found = refused(error)
    return {"trainer_prefill_guide": found, "trainer_missing_fields": found["missing_fields"]}


def refused(error: TrainerError, task_type: str | None = None) -> dict[str, Any]:
    """The same shape for settings that cannot even be resolved; `error` is the common error shape."""
    lists = ("missing_fields", "user_required_fields", "auto_filled_fields", "examples", "warnings")
    return {
        "task_type": task_type,
        "ready": False,
        **{name: [] for name in lists},
        "field_hints": {},
        "defaults": {},
        "settings": {},
        "problems": [problem_json(problem) for problem in error.problems],
        "message": error.message,
        "next_command": error.next_command,
        "error": error_json(error),
    }


def _data(asked: _Guide, task_type: str | None) -> dict[str, Any]:
    resolved, settings = asked.resolved, asked.settings
    missing = [field.name for field in resolved.fields if field.required and _is_unset(settings, field.name)]
    unusable = list(_unusable(asked))
    needed = [*missing, *dict.fromkeys(str(problem.field) for problem in unusable if problem.field not in missing)]
    stage = settings.text("train_stage")
    said = asked.say("guide.not_ready", fields=", ".join(needed)) if needed else asked.say("guide.ready")
    return {
        "task_type": task_type or stage,
        "task_id": settings.text("task_id"),
        "train_framework": settings.text("train_framework"),
        "train_stage": stage,
        "language": asked.language,
        "ready": not needed,
        "missing_fields": missing,
        "user_required_fields": needed,
        "auto_filled_fields": [field.name for field in resolved.fields if _is_filled(settings, field)],
        "field_hints": {field.name: _hint(field, asked.language) for field in resolved.fields},
        "defaults": {field.name: field.default for field in resolved.fields if field.default is not None},
        "settings": {
            field.name: {"value": settings.values.get(field.name), "origin": settings.origin(field.name)}
            for field in resolved.fields
        },
        "problems": [problem_json(problem) for problem in unusable],
        "warnings": [problem_json(problem) for problem in resolved.warnings],
        "examples": _examples(asked),
        "message": said,
        "next_command": "" if needed or asked.request.state is not None else _prepare_command(asked),
    }


def _examples(asked: _Guide) -> list[str]:
    """The specification's for its own pairs; for others a call with all that is required."""
    settings = asked.settings
    written = _EXAMPLES.get(f"{settings.text('train_framework')}/{settings.text('train_stage')}")
    if written is not None:
        return list(written)
    words: list[str] = []
    for field in asked.resolved.fields:
        if field.required and (field.default is None or field.name in ("train_framework", "train_stage")):
            value = settings.text(field.name) or "VALUE"
            words += [field.flag, value] if field.flag else ["--option", f"{field.name}={value}"]
    return [commands.prepare(words)]


def _is_unset(settings: Settings, name: str) -> bool:
    return settings.values.get(name) in (None, "")


def _is_filled(settings: Settings, field: Field) -> bool:
    return settings.origin(field.name) == "default" and field.default is not None


def _hint(field: Field, language: messages.Language) -> dict[str, Any]:
    return {
        "help": messages.field_help(language, field.name, field.help),
        "flag": field.flag,
        "option": field.name,
        "environment": list(field.env),
        "state": f'state["trainer"]["{field.name}"]',
        "choices": list(field.choices),
    }


def _unusable(asked: _Guide) -> Iterator[Problem]:
    """What is given and cannot be used on this host: what costs nothing to see; `prepare` looks into all of it."""
    settings, say = asked.settings, asked.say
    for name in _FILES:
        path = settings.text(name)
        if path and not os.path.isfile(path):
            yield _problem(asked, "FILE_NOT_FOUND", name, say("guide.no_file", path=os.path.abspath(path)))
    model = settings.text(_MODEL)
    if model and not os.path.isdir(model):
        is_id = model_input.looks_like_hub_id(model)
        said = say("guide.hub_id") if is_id else say("guide.no_folder", path=os.path.abspath(model))
        yield _problem(asked, "MODEL_IS_HUB_ID" if is_id else "MODEL_NOT_FOUND", _MODEL, said)
    try:
        templates.find_template(settings.text(_TEMPLATE), settings.text("train_stage"), asked.request.environ)
    except (NotFound, UsageError) as error:
        yield _problem(asked, error.code, _TEMPLATE, error.message)
    yield from _environment_problems(asked)


def _environment_problems(asked: _Guide) -> Iterator[Problem]:
    field = backend_environment.field_of(asked.resolved, backend_environment.FLAG)
    if field is None:
        return
    try:
        backend_environment.find(asked.resolved, asked.request.environ)
    except BackendMissing as error:
        package = asked.resolved.backend.package
        named = not _is_unset(asked.settings, field.name)
        said = error.message if named else asked.say("guide.no_environment", package=package)
        hint = asked.say("guide.environment_hint", package=asked.resolved.backend.name, ways=ways(field, asked.say))
        yield _problem(asked, error.code, field.name, said, hint)


def ways(field: Field, say: messages.Say) -> str:
    """How a setting is given: flag, variable, state."""
    flag = f"{field.flag} VALUE" if field.flag else f"--option {field.name}=VALUE"
    return say("guide.or").join((flag, *field.env, f'state["trainer"]["{field.name}"]'))


def _problem(asked: _Guide, code: str, name: str, said: str, hint: str = "") -> Problem:
    field = next(field for field in asked.resolved.fields if field.name == name)
    hint = hint or asked.say("guide.how", ways=ways(field, asked.say))
    origin = asked.settings.origin(name)
    return Problem("error", code, "settings", said, hint, field=name, origin=origin)


def _prepare_command(asked: _Guide) -> str:
    """`trainer prepare` with what this call was given; what environment and files say need not be said again."""
    request = asked.request
    words: list[str] = []
    flags = {field.name: field.flag for field in asked.resolved.fields}
    for name, value in request.keyword.items():
        flag = flags.get(name)
        told = json.dumps(value) if isinstance(value, Mapping) else str(value)
        words += [flag, told] if flag else ["--option", f"{name}={told}"]
    for flag, value in request.backend_flags.items():
        words += [flag, value]
    for flag, path in (("--config", request.config_path), ("--state", request.state_path)):
        words += [flag, path] if path else []
    return commands.prepare(words)
