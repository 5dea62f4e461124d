"""The keys of an Agent Lightning plan: which there are, what they may hold, and older names of some."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.records import Problem
from loopai_trainer.rules import dotted
from loopai_trainer.rules.components import ComponentError, is_dotted, split_spec

COMPONENTS = ("algorithm", "store", "runner", "tracer", "adapter", "strategy", "llm_proxy")
"""Source: spec/003 section 1.1."""

REGISTERED: Mapping[str, tuple[str, ...]] = {
    "algorithm": ("baseline", "apo", "verl", "none"),
    "store": ("memory", "external"),
    "runner": ("agent",),
    "tracer": ("agentops", "otel"),
    "adapter": ("triplet", "llm_proxy_triplet", "messages"),
    "strategy": ("client_server", "shared_memory", "split"),
    "llm_proxy": ("litellm",),
}
"""Registered names (inside/agl_parts.py builds them; a test holds the two together)."""

ALIASES: Mapping[str, str] = {"cs": "client_server", "shm": "shared_memory"}
"""Agent Lightning's own short names of strategies."""

OLD_NAMES: Mapping[str, str] = {
    "n_workers": "strategy.n_runners",
    "n_runners": "strategy.n_runners",
    "max_tasks": "max_rollouts",
    "triplet_exporter": "adapter",
    "port": "strategy.port",
}
"""Names of Agent Lightning's own Trainer, older ones first -> the key that a plan has. Source: spec/003 section 1.1."""

ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "baseline": {
        "n_epochs": "count", "polling_interval": "number", "max_queue_length": "count", "train_split": "number",
        "span_verbosity": "text",
    },
    "apo": {
        "beam_width": "count", "branch_factor": "count", "beam_rounds": "count", "gradient_batch_size": "count",
        "val_batch_size": "count", "diversity_temperature": "number", "run_initial_validation": "bool",
    },
    "none": {},
    "verl": {},
    "client_server": {"n_runners": "count", "port": "port"},
    "shared_memory": {"n_runners": "count"},
    "split": {"n_runners": "count", "port": "port"},
    "memory": {},
    "external": {},
}  # fmt: skip
"""Arguments of what is registered by us, and their kinds; others are checked when they are built."""

LIMITS: Mapping[str, str] = {"rollout_s": "number", "wall_s": "number", "llm_calls": "count", "rollouts": "whole"}
LLM: Mapping[str, str] = {
    "base_url": "text", "gradient_model": "text", "apply_edit_model": "text", "api_key_env": "text",
    "max_retries": "whole",
}  # fmt: skip
AGENT: Mapping[str, str] = {"file": "text", "name": "text"}

TOP = ("agent", "tasks", "resources", *COMPONENTS, "max_rollouts", "limits", "llm", "verl", "val_size")
FILE_KEYS = ("agent.file", *(f"{kind}.file" for kind in COMPONENTS))

_KINDS: Mapping[str, str] = {
    "count": "a whole number from 1 on", "whole": "a whole number from 0 on", "number": "a number above 0",
    "text": "text", "bool": "true or false", "port": "0 (a free one) or a port from 1024 to 65535",
}  # fmt: skip


def problems(native: Mapping[str, Any], lines: Mapping[str, int]) -> Iterator[Problem]:
    """Unknown keys, wrong values and old names, by line."""
    for key, value in native.items():
        if key in OLD_NAMES:
            new = OLD_NAMES[key]
            wins = dotted.get(native, new) is not None
            read = f"it is not read, since {new} is given too" if wins else f"it is read as {new}"
            message = f"'{key}' is an old name: {read}"
            yield _problem("warning", "OLD_NAME", message, f"write {OLD_NAMES[key]}", key, lines)
        elif key not in TOP:
            close = difflib.get_close_matches(str(key), (*TOP, *OLD_NAMES), 1)
            hint = f"did you mean {close[0]}?" if close else f"keys are: {', '.join(TOP)}"
            yield _problem("error", "UNKNOWN_KEY", f"'{key}' is no key of an Agent Lightning plan", hint, key, lines)
        elif key in COMPONENTS:
            yield from _component(key, value, lines)
    for key, known in (("agent", AGENT), ("limits", LIMITS), ("llm", LLM)):
        yield from _mapping(key, native.get(key), known, lines)
    yield from _resources(native.get("resources"), lines)


def _component(kind: str, spec: Any, lines: Mapping[str, int]) -> Iterator[Problem]:
    try:
        name, arguments = split_spec(spec, kind)
    except ComponentError as error:
        yield _problem("error", "COMPONENT_INVALID", str(error), error.hint, kind, lines)
        return
    if isinstance(spec, dict) and spec.get("file") is not None:
        if not isinstance(spec["file"], str) or name is None:
            message = f"{kind} names a file: 'name' has to say what in it"
            yield _problem("error", "COMPONENT_INVALID", message, "add name: CLASS", kind, lines)
        elif name in REGISTERED[kind]:
            message = f"{kind}: '{name}' is a registered name, and cannot be that of something in {spec['file']}"
            yield _problem("error", "COMPONENT_INVALID", message, "call it otherwise there", kind, lines)
        return
    name = ALIASES.get(name or "", name)
    if name is not None and not is_dotted(name) and name not in REGISTERED[kind]:
        hint = f"use one of: {', '.join(REGISTERED[kind])}, agentlightning.module:Class, or a mapping: file, name"
        yield _problem("error", "COMPONENT_UNKNOWN", f"there is no {kind} '{name}'", hint, kind, lines)
    known = ARGUMENTS.get(name or "")
    if known is not None:
        yield from _mapping(kind, arguments, known, lines)


def _mapping(key: str, value: Any, known: Mapping[str, str], lines: Mapping[str, int]) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield _problem(
            "error", "WRONG_TYPE", f"'{key}' has to be a mapping", f"it holds: {', '.join(known)}", key, lines
        )
        return
    for name, item in value.items():
        where = f"{key}.{name}"
        if name not in known:
            close = difflib.get_close_matches(str(name), list(known), 1)
            hint = f"did you mean {close[0]}?" if close else f"{key} takes: {', '.join(known) or 'nothing'}"
            yield _problem("error", "UNKNOWN_KEY", f"'{where}' is not known", hint, where, lines)
        elif item is not None and not fits(known[name], item):
            message = f"'{where}' is {item!r}, it has to be {_KINDS[known[name]]}"
            yield _problem("error", "WRONG_TYPE", message, "correct the value", where, lines)


def fits(kind: str, value: Any) -> bool:
    """Whether a value is of one of the kinds that `ARGUMENTS` names."""
    if kind == "text":
        return isinstance(value, str) and bool(value.strip())
    if kind == "bool":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    if kind == "number":
        return value > 0
    if not isinstance(value, int):
        return False
    return {"count": value >= 1, "whole": value >= 0, "port": value == 0 or 1024 <= value <= 65535}[kind]


def _resources(value: Any, lines: Mapping[str, int]) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield _problem(
            "error", "WRONG_TYPE", "'resources' has to be a mapping", "write name: {...}", "resources", lines
        )
        return
    for name, spec in value.items():
        where = f"resources.{name}"
        kind = spec.get("type", "prompt_template") if isinstance(spec, dict) else None
        if kind == "prompt_template" and isinstance(spec.get("template"), str):
            continue
        if kind == "llm" and isinstance(spec.get("model"), str) and isinstance(spec.get("endpoint"), str):
            continue
        hint = (
            "write {type: prompt_template, template: TEXT, engine: f-string} or {type: llm, model: NAME, endpoint: URL}"
        )
        yield _problem("error", "RESOURCE_INVALID", f"'{where}' is no resource", hint, where, lines)


def _problem(severity: Any, code: str, message: str, hint: str, key: str, lines: Mapping[str, int]) -> Problem:
    return Problem(severity, code, "template", message, hint, line=lines.get(key), field=key)
