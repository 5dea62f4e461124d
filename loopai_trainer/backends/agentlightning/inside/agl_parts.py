"""Makes the parts of an Agent Lightning run: agent, resources, tasks, and the components of spec/003 section 1.1."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import types

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

PACKAGE = "agentlightning"
OFFERS = "loopai_trainer.agentlightning"
"""Entry points of that group: parts that installed distributions offer, `any name = package.module:attribute`."""

_pinned: dict[str, str] = {}


class PartError(Exception):
    """A part of the plan that cannot be made; the text says which and why."""


def pin(files: Mapping[str, str]) -> None:
    """Only these files (absolute path -> SHA-256 in lower-case hex) may be imported from now on."""
    _pinned.clear()
    _pinned.update(files)


def find(native: Mapping[str, Any], kind: str, expected: Any) -> components.Found | None:
    """What would be called for the part that the plan describes; None for no part. Raises PartError.

    Code comes from a pinned file, from Agent Lightning, or from an entry point of `OFFERS`; nothing else is imported.
    Nothing is called. A factory is refused unless it is written in that file or annotated as giving such a part:
    `os:system` is a factory, too.
    """
    spec, module = native.get(kind), None
    names = dict(NAMES[kind])
    try:
        if isinstance(spec, dict) and spec.get("file"):
            module = module_name(spec["file"])
            spec = {key: value for key, value in spec.items() if key != "file"}
            name, _ = components.split_spec(spec, kind)
            if name is None:
                raise PartError(f"{kind} names a file, but nothing in it: add 'name'")
            names[name] = load_file(native[kind]["file"], name)
        found = components.find_component(spec, kind, expected, names=names, load=load_offered)
    except components.ComponentError as error:
        raise PartError(f"{error}; {error.hint}") from error
    if found is not None and not found.made and not components.factory_is_known(found.what, module, expected):
        raise PartError(
            f"{kind}: {getattr(found.what, '__name__', found.what)!r} is no {expected.__name__}, and nothing says that "
            f"it makes one: write the function in a file of yours, or annotate it with '-> {expected.__name__}'"
        )
    return found


def build(native: Mapping[str, Any], kind: str, expected: Any, **offered: Any) -> Any:
    """The component that the plan describes, or None. Raises PartError."""
    found = find(native, kind, expected)
    try:
        return components.made_component(found, kind, expected, offered)
    except components.ComponentError as error:
        raise PartError(f"{error}; {error.hint}") from error


def load_offered(path: str) -> Any:
    """The object at a dotted path into Agent Lightning or to an entry point of `OFFERS`. Raises ComponentError."""
    if path.partition(":")[0].partition(".")[0] != PACKAGE and path not in _offers():
        raise components.ComponentError(
            f"{path} is not imported: it is neither Agent Lightning's nor offered by an entry point of '{OFFERS}'",
            "write a file that imports it, and name that: {file: FILE.py, name: NAME}",
        )
    return components.load_dotted(path)


def _offers() -> set[str]:
    from importlib.metadata import entry_points

    return {f"{point.module}:{point.attr}" for point in entry_points(group=OFFERS)}


def module_name(path: str) -> str:
    """The name under which a file of the plan is imported."""
    return "loopai_" + os.path.basename(path).removesuffix(".py").replace(".", "_").replace("-", "_")


def load_file(path: str, name: str) -> Any:
    """The object called `name` in a pinned Python file, of the very bytes that were pinned. Raises PartError."""
    stem = module_name(path)
    module = sys.modules.get(stem)
    if module is None:
        code = _pinned_code(path)
        module = types.ModuleType(stem)
        module.__file__ = path
        sys.modules[stem] = module
        try:
            exec(code, module.__dict__)
        except BaseException:
            del sys.modules[stem]  # as an import does: nobody gets half of it
            raise
    if not hasattr(module, name):
        raise PartError(f"{os.path.basename(path)} has no '{name}'")
    return getattr(module, name)


def _pinned_code(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise PartError(f"{path} cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != _pinned.get(path):
        raise PartError(f"{path} is not the file that the plan pins: prepare again")
    return compile(data, path, "exec", dont_inherit=True)


def find_agent(native: Mapping[str, Any]) -> Any:
    """The user's agent: a LitAgent, its class, or what @rollout or @prompt_rollout made of a function.

    Nothing is called. Raises PartError.
    """
    from agentlightning.litagent import LitAgent

    name = native["agent"]["name"]
    found = load_file(native["agent"]["file"], name)
    if isinstance(found, type) and issubclass(found, LitAgent):
        try:
            components.bound_arguments(components.Found(found, {}), f"the agent '{name}'")
        except components.ComponentError as error:
            raise PartError(f"{error}; give its arguments defaults") from error
        return found
    if not isinstance(found, LitAgent):
        raise PartError(
            f"the agent '{name}' is a {type(found).__name__}: decorate a function with "
            "@agentlightning.rollout or @agentlightning.prompt_rollout, or write a LitAgent"
        )
    return found


def agent(native: Mapping[str, Any]) -> Any:
    """The user's agent, a LitAgent. Raises PartError."""
    found = find_agent(native)
    return found() if isinstance(found, type) else found


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
