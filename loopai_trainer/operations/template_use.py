"""The template of a plan: found, read, overridden by `--set`, tuned by rules or a model; changes have reasons."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from loopai_trainer.errors import ConfigError, SettingsError, UsageError
from loopai_trainer.files import templates
from loopai_trainer.operations import llm_tuning, secret_scan
from loopai_trainer.records import Problem, Settings
from loopai_trainer.rules import dotted, tuning, yaml_text

SET = "--set"
"""The reason of a change that a person asked for by key."""
SIZES = ("trainer.n_gpus_per_node", "trainer.nnodes")
"""Ends of the launcher's own keys that say how large a training is."""


class TemplateUse(NamedTuple):
    """`values` is what the draft starts from; `lines` maps keys that stand in the template to their 1-based lines.

    `asked`: the language model and its answer, for plan.json; `said`: what the YAML says of it. Both are empty where
    none was asked, `said` also where its answer was not used.
    """

    path: str
    sha256: str
    values: dict[str, Any]
    lines: Mapping[str, int]
    changes: Sequence[tuning.Change]
    notes: Sequence[str]
    warnings: tuple[Problem, ...] = ()
    asked: Mapping[str, Any] = {}
    said: Mapping[str, Any] = {}


class _Tuned(NamedTuple):
    values: dict[str, Any]
    changes: list[tuning.Change]
    notes: list[str]
    warnings: tuple[Problem, ...]
    asked: Mapping[str, Any]


def use(
    settings: Settings,
    overrides: Sequence[str],
    owned: Mapping[str, str] = {},
    *,
    tunes: bool = True,
    baseline: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] = {},
    renamed: Mapping[str, str] = {},
) -> TemplateUse:
    """Raises ConfigError (file and line) for a template that cannot be trusted, UsageError for a bad `--set`,

    SettingsError for config mode `llm` without a usable endpoint. `owned`: keys that `--set` must not give, and what to
    use instead. `tunes`: whether rules or a model may change values. `baseline`: values to begin with instead of the
    template's own. `environ`: where the endpoint's key stands, and the user's own templates. `renamed`: old names of
    keys -> present ones: what `--set` gives by an old name takes the place of the template's value by any name.
    """
    path = templates.find_template(
        settings.text("train_input_config_template_path"), settings.text("train_stage"), environ
    )
    text = _read(path)
    document = yaml_text.load(text, path, "template")
    _refuse_prepared(document.values, document.lines, path)
    _refuse_endless(document.values, document.lines, path)
    values: dict[str, Any] = dict(document.values if baseline is None else baseline)
    given: dict[str, tuning.Change] = {}
    wanted = read_overrides(overrides, owned)
    _give_way(values, [key for key, _ in wanted], renamed)
    for key, value in wanted:
        _refuse_under_a_value(values, key)
        before = dotted.put(values, key, value)
        given[key] = tuning.Change(key, given[key].before if key in given else before, value, SET)
    tuned = _tuned(values, settings, environ, given, tunes=tunes)
    return TemplateUse(
        path,
        hashlib.sha256(text.encode()).hexdigest(),
        tuned.values,
        document.lines if baseline is None else {},
        [*tuned.changes, *given.values()],
        tuned.notes,
        tuned.warnings,
        tuned.asked,
        _for_yaml(tuned),
    )


def _tuned(
    values: dict[str, Any], settings: Settings, environ: Mapping[str, str], given: Collection[str], *, tunes: bool
) -> _Tuned:
    """The values as rules or model change them; keys that were `given` by `--set` are nobody else's."""
    mode = settings.text("config_mode")
    if mode == "llm":
        if not tunes:
            raise SettingsError(
                f"config_mode llm (from {settings.origin('config_mode')}) is for supervised fine-tuning",
                hint="leave --config-mode out",
            )
        return _Tuned(*llm_tuning.tune(values, settings, environ, given))
    if tunes and mode == "rules":
        values, changes, notes = tuning.tune(values, settings.text("train_input_task_description"), given)
        return _Tuned(values, changes, notes, tuning.disagreements(notes), {})
    return _Tuned(values, [], [], (), {})


def _for_yaml(tuned: _Tuned) -> dict[str, Any]:
    """What the approved YAML says of a language model's answer: whose it is, and which keys it has changed."""
    asked = tuned.asked
    if not asked or asked["not_used"] is not None:
        return {}
    changed = {change.key: {"from": change.before, "to": change.after} for change in tuned.changes}
    return {"by": "llm", "model": asked["model"], "base_url": asked["base_url"], "changed": changed}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}", hint="save the template as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", hint="name a readable template") from None


def parse_override(text: str) -> tuple[str, Any]:
    """`KEY=VALUE` with the value read as YAML. Raises UsageError."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise UsageError(f"--set {text!r} is not KEY=VALUE", hint="for example --set learning_rate=1.0e-05")
    if key.split(".")[0] in ("loopai", "result"):
        raise UsageError(f"--set {key}: this key is reserved", hint="set keys of the backend only")
    try:
        read = yaml_text.load(f"value: {value}\n", f"--set {key}", "settings").values["value"]
    except ConfigError as error:
        raise UsageError(error.message, hint="quote the value as YAML", problems=error.problems) from None
    if not _is_finite(read):
        raise UsageError(f"--set {text}: the value is not a finite number", hint="give a number that training can use")
    return key, read


def read_overrides(texts: Sequence[str], owned: Mapping[str, str]) -> list[tuple[str, Any]]:
    """All `--set` texts. Raises UsageError, also for a key in `owned`, whose value would be replaced without a word."""
    secret_scan.refuse_overrides(texts)
    found = [parse_override(text) for text in texts]
    for key, _ in found:
        of_launcher = next((name for name in owned if dotted.related(key, name)), None)
        if of_launcher is not None:
            whose = "this key" if key == of_launcher else of_launcher
            raise UsageError(
                f"--set {key}: the launcher sets {whose} itself", hint=f"use instead: {owned[of_launcher]}"
            )
    return found


def _give_way(values: dict[str, Any], given: Sequence[str], renamed: Mapping[str, str]) -> None:
    """Take out what the template says by other names of what is `given` by an old one."""
    for old in {key.partition(".")[0] for key in given} & set(renamed):
        present = renamed[old]
        for name in (present, *(other for other, new in renamed.items() if new == present and other != old)):
            if not any(dotted.related(name, key) for key in given):
                dotted.take_out(values, name)


def _refuse_under_a_value(values: Mapping[str, Any], key: str) -> None:
    """A part of what is one value by now: the value would be gone without a word (`tracer: otel`, tracer.name)."""
    holder = dotted.in_the_way(values, key)
    if holder is not None:
        raise UsageError(
            f"--set {key}: {holder} is {dotted.get(values, holder)!r}, which holds no keys and would be lost",
            hint=f"give {holder} as a whole: --set '{holder}={{name: ..., ...}}'",
        )


def set_keys(template: TemplateUse) -> frozenset[str]:
    """The keys that `--set` gave."""
    return frozenset(change.key for change in template.changes if change.reason == SET)


def as_planned(template: TemplateUse, native: Mapping[str, Any], owned: Mapping[str, str]) -> TemplateUse:
    """With what became of its values in the plan's keys `native`: true changes, a note on each value that is another.

    What `--set` or the template says of the size of the training, and the plan does not, is warned of as well.
    """
    changes = [_as_planned(change, native) for change in template.changes]
    lost = [(old, new) for old, new in zip(template.changes, changes, strict=True) if old != new and old.reason == SET]
    of_launcher = [
        (key, dotted.get(template.values, key), dotted.get(native, key))
        for key in owned
        if dotted.has(template.values, key) and dotted.get(template.values, key) != dotted.get(native, key)
    ]
    known = {*owned, *(change.key for change in changes)}
    notes = [
        *template.notes,
        *(f"the template's {key} ({old!r}) is not used; what sets it: {owned[key]}" for key, old, _ in of_launcher),
        *(
            f"the template's {key} ({old!r}) became {native[key]!r}"
            for key, old in template.values.items()
            if key in native and key not in known and not isinstance(old, Mapping) and native[key] != old
        ),
    ]
    warnings = [
        *template.warnings,
        *(_not_kept(f"--set {old.key}", old.key, old.after, new.after, "change what it follows") for old, new in lost),
        *(
            _not_kept(f"the template's {key}", key, old, got, f"what sets it: {owned[key]}")
            for key, old, got in of_launcher
            if key.endswith(SIZES)
        ),
    ]
    return template._replace(changes=changes, notes=notes, warnings=tuple(warnings))


def _as_planned(change: tuning.Change, native: Mapping[str, Any]) -> tuning.Change:
    got = dotted.get(native, change.key)
    if not dotted.has(native, change.key) or got == change.after:
        return change
    return change._replace(after=got, reason=f"{change.reason}, then adjusted to data and devices")


def _not_kept(what: str, key: str, before: object, got: object, hint: str) -> Problem:
    message = f"{what} ({before!r}) is not kept: the plan has {got!r}"
    return Problem("warning", "VALUE_NOT_KEPT", "config", message, hint, field=key)


def placed(problems: Sequence[Problem], overrides: Sequence[str]) -> list[Problem]:
    """The template's problems; one of a value that `--set` gave names `--set` and no line of the template."""
    keys = {parse_override(text)[0] for text in overrides}
    return [
        replace(problem, path=None, line=None, origin="--set") if _is_below(problem.field or "", keys) else problem
        for problem in problems
    ]


def _is_below(field: str, keys: set[str]) -> bool:
    """Whether `field` is one of the dotted `keys`, lies below one or holds one."""
    return any(dotted.related(field, key) for key in keys)


def _is_finite(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _refuse_prepared(values: Mapping[str, Any], lines: Mapping[str, int], path: str) -> None:
    if "loopai" in values:
        raise ConfigError(
            f"{path}:{lines['loopai']}: a prepared YAML is not a template: it has the reserved key 'loopai'",
            hint="use a template, or inspect the prepared YAML",
        )


def _refuse_endless(values: Mapping[str, Any], lines: Mapping[str, int], path: str) -> None:
    for key, value in values.items():
        if not _is_finite(value):
            raise ConfigError(
                f"{path}:{lines.get(key, 1)}: {key} is not a finite number", hint="give a number that training can use"
            )
