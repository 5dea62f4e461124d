"""Where settings come from on this machine: starter.yaml, an explicit state, keyword arguments and the environment."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from loopai_trainer import backends
from loopai_trainer.contract import Backend
from loopai_trainer.errors import SettingsError, UsageError
from loopai_trainer.operations import dataset_info, stored_task
from loopai_trainer.records import Field, Problem, Settings
from loopai_trainer.rules import settings as rules
from loopai_trainer.rules import wrapped, yaml_text

DEFAULT_STAGES = {"llamafactory": "sft", "verl": "grpo", "agentlightning": "dev"}
DEFAULT_TEMPLATES = {
    "sft": "qwen_full_sft",
    "grpo": "verl_grpo_vllm",
    "dev": "agentlightning_dev",
    "apo": "agentlightning_apo",
    "agentlightning/grpo": "agentlightning_grpo",
}
"""The bundled template of each stage, or of a pair where that differs (spec/001, "Prefill Guidance")."""


_OTHERS_PREFIXES = ("trainer_", "train_output_", "training_", "verl_", "swanlab_")
_OTHERS_NAMES = frozenset((
    *("update_model_path", "train_input_use_swanlab", "train_input_swanlab_project", "use_swanlab"),
    *("trainer_version_uuid", "llamafactory_dir", "llamafactory_env_path", "train_input_dataset_info"),
))  # fmt: skip
"""Keys of a trainer section that are somebody's: LoopAI's outputs, and settings of another backend than the one named.

Source: spec/001 "Runtime Configuration" and its result fields; spec/000, the same of the older TrainerAgent.
"""


_SURELY_MEANT, _PERHAPS_MEANT = 0.9, 0.6
"""Likeness from which a key is called a misspelt setting: where it may as well be somebody's, and elsewhere."""


class Request(NamedTuple):
    """What a caller says: settings by name, files of settings, native overrides (`--set`), and its environment.

    `thread_id` is the API's name for the task, below those of a call, a variable and a state (decisions/0077). `state`
    beats `state_path`. `backend_flags` are flags whose setting is called differently by each backend (`--env`,
    `--backend-dir`). `resume`: the version that is to be continued.
    """

    keyword: Mapping[str, Any]
    environ: Mapping[str, str]
    config_path: str | None = None
    state_path: str | None = None
    state: Mapping[str, Any] | None = None
    overrides: Sequence[str] = ()
    backend_flags: Mapping[str, str] = {}
    thread_id: str | None = None
    resume: str | None = None


class Resolved(NamedTuple):
    """Settings with the backend that they name and all fields that apply; `warnings`: what is given but not read."""

    settings: Settings
    backend: Backend
    fields: tuple[Field, ...]
    warnings: tuple[Problem, ...] = ()


def resolve(request: Request) -> Resolved:
    """Settings by the order of interface section 2. Raises SettingsError, and DataError for a registry that is none."""
    layers, warnings = _layers(request)
    keyword = {name: value for name, value in request.keyword.items() if value is not None}
    framework, stage = _framework(keyword, request.environ, layers)
    backend = backends.get(framework, stage)
    fields = _merged(_general(framework, stage), backend.fields())
    _refuse_foreign_flags(request.backend_flags, fields, f"{framework}/{stage}")
    for field in fields:
        if field.flag and field.flag in request.backend_flags:
            keyword[field.name] = request.backend_flags[field.flag]
    if backend.data_kind == "chat":
        layers = stored_task.made_as_dataset(layers, fields, keyword, request.environ)
    settings = dataset_info.complete(rules.resolve(fields, keyword, request.environ, layers))
    sources = _Sources(keyword, request.environ, layers)
    if backend.data_kind == "prompts":
        settings = _with_source(settings, fields, sources)
    told = (*warnings, *_unknown_keys(layers, fields), *rules.old_names(fields, keyword, request.environ, layers))
    told += (*_ambient_devices(fields, sources), *stored_task.made_but_not_used(layers, settings))
    return Resolved(_absolute(settings), backend, fields, told)


class _Sources(NamedTuple):
    keyword: Mapping[str, Any]
    environ: Mapping[str, str]
    layers: Sequence[rules.Layer]

    def given(self, name: str, fields: Sequence[Field]) -> list[rules.Given]:
        """Every value that they have for the setting of that name."""
        return [one for field in fields if field.name == name for one in rules.given(field, *self)]


def _absolute(settings: Settings) -> Settings:
    """The store's path as the worker will need it, from its own working folder."""
    path = settings.text("db_path")
    return Settings({**settings.values, "db_path": os.path.abspath(path) if path else None}, settings.origins)


def _ambient_devices(fields: Sequence[Field], sources: _Sources) -> Iterator[Problem]:
    """A warning if this shell's devices go before other ones that the task names (interface section 2)."""
    name = "CUDA_VISIBLE_DEVICES"
    found = sources.given(name, fields)
    if found and found[0].rank == 1:
        other = next((one for one in found[1:] if str(one.value) != str(found[0].value)), None)
        if other is not None:
            message = f"{name}={found[0].value} of this shell goes before {other.value!r} (from {other.origin})"
            hint = "unset it, or give --devices"
            yield Problem("warning", "DEVICES_FROM_SHELL", "settings", message, hint, field=name)


def _refuse_foreign_flags(flags: Mapping[str, str], fields: Sequence[Field], pair: str) -> None:
    known = {field.flag for field in fields}
    for flag in flags:
        if flag not in known:
            raise UsageError(f"{flag} means nothing to {pair}", hint="leave it out, or name another --framework")


def _with_source(settings: Settings, fields: Sequence[Field], sources: _Sources) -> Settings:
    """Generated records are the dataset where no source before theirs names another one (interface section 2)."""
    values, origins = dict(settings.values), dict(settings.origins)
    for name, source in (
        ("train_input_dataset_path", "verl_source_dataset_path"),
        ("train_input_eval_dataset_path", "verl_source_eval_dataset_path"),
    ):
        named, made = sources.given(name, fields), sources.given(source, fields)
        if made and (not named or made[0].rank < named[0].rank):
            values[name], origins[name] = settings.text(source), settings.origin(source)
    return Settings(values, origins)


def named_options(options: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` texts of `--option`. Raises UsageError."""
    named: dict[str, str] = {}
    for text in options:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--option {text!r} is not NAME=VALUE", hint="for example --option allow_overlap=true")
        named[name.strip()] = value
    return named


def read_state(path: str) -> dict[str, Any]:
    """A state file, JSON or YAML by its content. Raises SettingsError with file and line."""
    text = _text(path)
    if text.lstrip().startswith("{"):
        try:
            value = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{path}: not valid JSON: {error}", hint="correct the state file") from None
        if isinstance(value, dict):
            return value
    return yaml_text.load(text, path, "settings").values


def _unknown_keys(layers: Sequence[rules.Layer], fields: Sequence[Field]) -> Iterator[Problem]:
    """A warning on each key of a trainer section that nobody reads; LoopAI keeps what it was answered there too."""
    known = {name for field in fields for name in field.names}
    for layer in layers:
        for key in layer.values if layer.label.endswith(".trainer") else ():
            name = str(key)
            if name in known or name in _OTHERS_NAMES:
                continue
            others = name.startswith(_OTHERS_PREFIXES)
            near = difflib.get_close_matches(name, known, 1, _SURELY_MEANT if others else _PERHAPS_MEANT)
            if others and not near:
                continue
            hint = f"did you mean {near[0]}?" if near else "see `trainer guide` for the names"
            origin = f"{layer.label}.{name}"
            message = f"there is no setting '{name}' (from {layer.label}); it is not read"
            yield Problem("warning", "SETTING_UNKNOWN", "settings", message, hint, field=name, origin=origin)


def _framework(
    keyword: Mapping[str, Any], environ: Mapping[str, str], layers: Sequence[rules.Layer]
) -> tuple[str, str]:
    wanted = [field for field in rules.GENERAL if field.name in ("train_framework", "train_stage")]
    known = {name: keyword[name] for name in ("train_framework", "train_stage") if name in keyword}
    chosen = rules.resolve(wanted, known, environ, layers)
    stage = chosen.text("train_stage")
    framework = chosen.text("train_framework")
    if chosen.origin("train_framework") == "default" and stage == "grpo":
        framework = "verl"
    return framework, stage or DEFAULT_STAGES.get(framework, "")


def _merged(general: Sequence[Field], own: Sequence[Field]) -> tuple[Field, ...]:
    """All fields; a backend's own one takes the place of the general one of that name."""
    replaced = {field.name: field for field in own}
    names = {field.name for field in general}
    return (*(replaced.get(field.name, field) for field in general), *(one for one in own if one.name not in names))


def _general(framework: str, stage: str) -> tuple[Field, ...]:
    # These defaults depend on framework and task type (spec/001); everything else stands in the table.
    template = DEFAULT_TEMPLATES.get(f"{framework}/{stage}") or DEFAULT_TEMPLATES.get(stage)
    defaults = {
        "train_framework": framework,
        "train_stage": stage,
        "train_input_config_template_path": template,
    }
    return tuple(
        Field(**{**_as_keywords(field), "default": defaults[field.name]}) if field.name in defaults else field
        for field in rules.GENERAL
    )


def _as_keywords(field: Field) -> dict[str, Any]:
    return {name: getattr(field, name) for name in field.__slots__}


def task_address(request: Request) -> stored_task.Address:
    """The task, and the store, that a request names. Raises SettingsError, ConfigError."""
    explicit, last = _own_layers(request)
    return stored_task.address(request.keyword, request.environ, [*explicit, *last])


def _layers(request: Request) -> tuple[list[rules.Layer], tuple[Problem, ...]]:
    """All layers in their order, the task store's among them, and what there is to say of that store."""
    explicit, last = _own_layers(request)
    stored = stored_task.stored(request.keyword, request.environ, [*explicit, *last])
    return [*explicit, *stored.layers, *last], stored.warnings


def _own_layers(request: Request) -> tuple[list[rules.Layer], list[rules.Layer]]:
    """(the explicit state's and below it the `thread_id`, starter.yaml's): the task store's stand between them."""
    explicit: list[rules.Layer] = []
    state = request.state if request.state is not None else None
    if state is None and request.state_path:
        state = read_state(request.state_path)
    if state is not None:
        explicit += _state_layers(state, "state")
    if request.thread_id:
        explicit.append(rules.Layer("thread_id", {"task_id": request.thread_id}))
    return explicit, _starter_layers(request.config_path) if request.config_path else []


_GENERAL_NAMES = frozenset(field.name for field in rules.GENERAL)


def _state_layers(state: Mapping[str, Any], label: str) -> list[rules.Layer]:
    if not isinstance(state, Mapping):
        raise SettingsError(f"{label} is not a mapping", hint="give a mapping with 'trainer' and 'system' in it")
    # Sections of other agents are none of our business, but a setting that is one has a value that cannot be meant.
    top = {key: value for key, value in state.items() if not isinstance(value, Mapping) or key in _GENERAL_NAMES}
    return [
        rules.Layer(f"{label}.trainer", stored_task.as_input(_section(state, "trainer", label))),
        rules.Layer(f"{label}.system", wrapped.unwrapped(_section(state, "system", label))),
        rules.Layer(label, wrapped.unwrapped(top)),
        *_mapping_results(state, label),
    ]


def _mapping_results(state: Mapping[str, Any], label: str) -> Iterator[rules.Layer]:
    """What another agent has made for this task, the constructor's before the obtainer's (spec/001); nothing else."""
    for name in ("constructor", "obtainer"):
        section = state.get(name)
        made = wrapped.output_file(section.get("mapping_results")) if isinstance(section, Mapping) else None
        if made:
            yield rules.Layer(f"{label}.{name}.mapping_results", {"verl_source_dataset_path": made}, "output_file")


def _starter_layers(path: str) -> list[rules.Layer]:
    document = yaml_text.load(_text(path), path, "settings")
    states = _section(document.values, "default_states", path)
    trainer = _section(states, "trainer", f"{path} default_states")
    return [
        rules.Layer(f"{path} default_states.trainer", trainer),
        rules.Layer(f"{path} default_states", {k: v for k, v in states.items() if not isinstance(v, dict)}),
        rules.Layer(f"{path} system", _section(document.values, "system", path)),
    ]


def _section(mapping: Mapping[str, Any], name: str, label: str) -> Mapping[str, Any]:
    section = mapping.get(name)
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise SettingsError(f"{label}: '{name}' is not a mapping", hint=f"make '{name}' a mapping of settings")
    return section


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SettingsError(f"there is no file {path}", hint="name an existing file") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 at byte {error.start}", hint="save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}", hint="name a readable file") from None
