"""Makes the parts of an Agent Lightning run: agent, resources, tasks, and the components of spec/003 section 1.1."""

from __future__ import annotations

import importlib.util
import json
import os
import sys

import components  # a copy of loopai_trainer/rules/components.py

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

NAMES: Mapping[str, Mapping[str, str]] = {
    "algorithm": {
        "baseline": "agentlightning.algorithm:Baseline",
        "apo": "agentlightning.algorithm.apo:APO",
        "verl": "agentlightning.algorithm.verl:VERL",
    },
    "store": {"memory": "agentlightning.store.memory:InMemoryLightningStore"},
    "runner": {"agent": "agentlightning.runner:LitAgentRunner"},
    "tracer": {
        "agentops": "agentlightning.tracer.agentops:AgentOpsTracer",
        "otel": "agentlightning.tracer.otel:OtelTracer",
    },
    "adapter": {
        "triplet": "agentlightning.adapter:TracerTraceToTriplet",
        "llm_proxy_triplet": "agentlightning.adapter:LlmProxyTraceToTriplet",
        "messages": "agentlightning.adapter:TraceToMessages",
    },
    "strategy": {
        "client_server": "agentlightning.execution.client_server:ClientServerExecutionStrategy",
        "shared_memory": "agentlightning.execution.shared_memory:SharedMemoryExecutionStrategy",
    },
    "llm_proxy": {"litellm": "agentlightning.llm_proxy:LLMProxy"},
}
"""Registered names of each component. Source: Agent Lightning 0.3.0."""

NONE = "none"
"""The algorithm that is none: runners work on what somebody else queues."""


class PartError(Exception):
    """A part of the plan that cannot be made; the text says which and why."""


def build(native: Mapping[str, Any], kind: str, expected: Any, **offered: Any) -> Any:
    """The component that the plan describes, or None. Raises PartError."""
    spec = native.get(kind)
    names = dict(NAMES[kind])
    default = None
    if isinstance(spec, dict) and spec.get("file"):
        spec = {key: value for key, value in spec.items() if key != "file"}
        name, _ = components.split_spec(spec, kind)
        if name is None:
            raise PartError(f"{kind} names a file, but nothing in it: add 'name'")
        names[name] = load_file(native[kind]["file"], name)
    try:
        return components.build_component(spec, kind, expected, names=names, default=default, offered=offered)
    except components.ComponentError as error:
        raise PartError(f"{error}; {error.hint}") from error


def load_file(path: str, name: str) -> Any:
    """The object called `name` in a Python file. Raises PartError."""
    stem = "loopai_" + os.path.basename(path).removesuffix(".py").replace(".", "_").replace("-", "_")
    module = sys.modules.get(stem)
    if module is None:
        spec = importlib.util.spec_from_file_location(stem, path)
        if spec is None or spec.loader is None:
            raise PartError(f"{path} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[stem] = module
        spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise PartError(f"{os.path.basename(path)} has no '{name}'")
    return getattr(module, name)


def agent(native: Mapping[str, Any]) -> Any:
    """The user's agent: a LitAgent, or what @rollout or @prompt_rollout made of a function. Raises PartError."""
    from agentlightning.litagent import LitAgent

    found = load_file(native["agent"]["file"], native["agent"]["name"])
    if isinstance(found, type) and issubclass(found, LitAgent):
        found = found()
    if not isinstance(found, LitAgent):
        raise PartError(
            f"the agent '{native['agent']['name']}' is a {type(found).__name__}: decorate a function with "
            "@agentlightning.rollout or @agentlightning.prompt_rollout, or write a LitAgent"
        )
    return found


def resources(native: Mapping[str, Any]) -> dict[str, Any]:
    """The initial resources, prompt templates and models by name; there may be none. Raises PartError."""
    from agentlightning.types import LLM, PromptTemplate

    makers = {"prompt_template": PromptTemplate, "llm": LLM}
    found = {}
    for name, spec in (native.get("resources") or {}).items():
        arguments = {key: value for key, value in spec.items() if key != "type"}
        try:
            found[name] = makers[spec.get("type", "prompt_template")](**arguments)
        except (KeyError, TypeError, ValueError) as error:
            raise PartError(f"resources.{name}: {error}") from error
    return found


def tasks(path: str | None) -> list[Any] | None:
    """The tasks of a snapshot, in order; None for no file."""
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]
