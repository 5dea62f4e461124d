"""Writes the native keys of the final YAML: every part by name, with its defaults, so that an approver sees all."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from loopai_trainer.backends.agentlightning import verl_keys
from loopai_trainer.backends.agentlightning.fields import API_KEY_ENV
from loopai_trainer.backends.agentlightning.keys import ALIASES, COMPONENTS, OLD_NAMES
from loopai_trainer.records import DataReport, LaunchPaths, Model, Settings
from loopai_trainer.rules import dotted

OWNED_KEYS: Mapping[str, str] = {
    "tasks": "--dataset and --eval-dataset",
    "llm.api_key_env": f"--option {API_KEY_ENV}=NAME",
    **verl_keys.OWNED,
}

BACKEND_VERSION = "backend_version"
"""Setting that prepare adds for the draft: the installed Agent Lightning's version."""

_ORDER = ("agent", "tasks", "resources", *COMPONENTS, "max_rollouts", "llm", "verl", "limits")

_ADAPTERS: Mapping[str, str] = {"dev": "triplet", "apo": "messages", "grpo": "triplet"}
_ALGORITHMS: Mapping[str, str] = {"dev": "baseline", "apo": "apo", "grpo": "verl"}
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "baseline": {"n_epochs": 1, "max_queue_length": 4, "polling_interval": 1.0},
    "apo": {
        "beam_width": 4, "branch_factor": 4, "beam_rounds": 3, "gradient_batch_size": 4, "val_batch_size": 16,
        "diversity_temperature": 1.0, "run_initial_validation": True,
    },
    "client_server": {"n_runners": 1, "port": 0},
    "shared_memory": {"n_runners": 1},
    "split": {"n_runners": 1, "port": 0},
}  # fmt: skip
"""What an approver has to see. Source: the defaults of Agent Lightning 0.3.0, but for polling (5 s there) and the port
(4747 there; 0 is a free one)."""

_LIMITS: Mapping[str, Any] = {"rollout_s": 300, "wall_s": 3600, "rollouts": 0}
_LLM: Mapping[str, Any] = {"gradient_model": "gpt-5-mini", "apply_edit_model": "gpt-4.1-mini", "max_retries": 2}


def draft(
    settings: Settings, data: DataReport, base: Mapping[str, Any], stage: str, model: Model, paths: LaunchPaths
) -> dict[str, Any]:
    """The native keys, in reading order. The same arguments give the same mapping; its own result may be the base."""
    native = _renamed(copy.deepcopy(dict(base)))
    native.pop("val_size", None)  # the split is made: the tasks that are held out stand in a file of their own
    train, held = data.split("train"), data.split("validation")
    native["tasks"] = {"train": train.snapshot.path if train else None}
    if held is not None:
        native["tasks"]["validation"] = held.snapshot.path
    of_1 = stage == "grpo" and not settings.text(BACKEND_VERSION, "0.3").startswith("0.")
    native.update(_components(native, stage, of_1))
    native["limits"] = {**_LIMITS, **({"llm_calls": 200} if stage == "apo" else {}), **(native.get("limits") or {})}
    if stage == "apo":
        native["llm"] = {**_LLM, **(native.get("llm") or {}), "api_key_env": settings.text(API_KEY_ENV)}
    if stage == "grpo":
        native["verl"] = verl_keys.drafted(native.get("verl"), settings, model, paths)
    return {key: native[key] for key in (*_ORDER, *native) if key in native}


def _components(native: Mapping[str, Any], stage: str, of_1: bool) -> dict[str, Any]:
    """Every component by name. Agent Lightning 1.x (`of_1`) has none but its algorithm: a server and a controller."""
    if of_1:
        runners = (_component(native.get("strategy"), None) or {}).get("n_runners", 1)
        own = {"algorithm": {"name": "verl"}, "store": {"name": "external"}}
        return {**dict.fromkeys(COMPONENTS), **own, "strategy": {"name": "split", "n_runners": runners, "port": 0}}
    defaults = {"algorithm": _ALGORITHMS[stage], "adapter": _ADAPTERS[stage], "runner": "agent", "tracer": "agentops"}
    found = {kind: _component(native.get(kind), defaults.get(kind)) for kind in COMPONENTS}
    found["strategy"] = _with_defaults(found["strategy"] or {"name": "client_server"})
    if found["store"] is None:
        found["store"] = {"name": "external" if found["strategy"].get("name") == "split" else "memory"}
    found["algorithm"] = _with_defaults(found["algorithm"])
    return found


def _renamed(native: dict[str, Any]) -> dict[str, Any]:
    """Old names give their values to the present ones, which win where both are given."""
    for old, new in OLD_NAMES.items():
        value = native.pop(old, None)
        kind = new.split(".")[0]
        if new != kind and isinstance(native.get(kind), str):
            native[kind] = {"name": native[kind]}
        if value is not None and dotted.get(native, new) is None:
            dotted.put(native, new, value)
    return native


def _component(spec: Any, default: str | None) -> Any:
    """A part as a mapping with `name`; None where there is none."""
    if isinstance(spec, str):
        spec = {"name": spec}
    if isinstance(spec, dict):
        spec = dict(spec)
        name = spec.pop("name", None) or spec.pop("type", None) or default
        return {"name": ALIASES.get(name, name), **spec} if name else spec
    return {"name": default} if default else None


def _with_defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    name = spec.get("name") or "client_server"
    known = {} if spec.get("file") else ARGUMENTS.get(name, {})
    return {"name": name, **known, **{key: value for key, value in spec.items() if key != "name"}}
