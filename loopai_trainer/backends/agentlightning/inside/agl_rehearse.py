"""Looks at every part of a plan in Agent Lightning's environment and runs nothing: what could not be made is told.

stdin: {"native", "stage", "components", "files"} (path of rules/components.py; path -> SHA-256 of each file that may be
imported); stdout: {"problems", "summary"}.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def main() -> int:
    """Answer the question on stdin."""
    question = json.load(sys.stdin)
    answer, sys.stdout = sys.stdout, sys.stderr  # what a user's code prints at import is no answer
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    _load("components", question["components"])
    import agl_parts

    agl_parts.pin(question["files"])
    found: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    for problem in _problems(question["native"], question["stage"], summary):
        found.append(problem)
    json.dump({"problems": found, "summary": summary}, answer)
    answer.flush()
    return 0


def _load(name: str, path: str) -> None:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _problems(native: dict[str, Any], stage: str, summary: dict[str, Any]) -> Iterator[dict[str, Any]]:
    import agl_parts

    try:
        summary["agent_kind"] = _kind_of(agl_parts.find_agent(native))
    except agl_parts.PartError as error:
        yield _error("AGENT_INVALID", str(error), "agent")
    except Exception as error:  # noqa: BLE001 - the user's own code, imported: whatever it raises is told
        yield _error("AGENT_BROKEN", f"importing the agent raises {type(error).__name__}: {error}", "agent")
    for kind, expected in _expected().items():
        try:
            with contextlib.redirect_stdout(sys.stderr):
                found = _tried(native, kind, expected)
        except agl_parts.PartError as error:
            yield _error("COMPONENT_INVALID", str(error), kind)
            continue
        except Exception as error:  # noqa: BLE001 - code of the user's or of a package: whatever it raises is told
            yield _error("COMPONENT_BROKEN", f"importing the {kind} raises {type(error).__name__}: {error}", kind)
            continue
        if kind == "algorithm" and found is not None:
            yield from _judged(found, stage)
    try:
        agl_parts.resources(native)
    except agl_parts.PartError as error:
        yield _error("RESOURCE_INVALID", str(error), "resources")


def _expected() -> dict[str, Any]:
    from agentlightning.adapter import TraceAdapter
    from agentlightning.algorithm import Algorithm
    from agentlightning.llm_proxy import LLMProxy
    from agentlightning.runner import Runner
    from agentlightning.store.base import LightningStore
    from agentlightning.tracer.base import Tracer

    return {
        "tracer": Tracer,
        "adapter": TraceAdapter,
        "store": LightningStore,
        "runner": Runner,
        "llm_proxy": LLMProxy,
        "algorithm": Algorithm,
    }


_OFFERED: dict[str, tuple[str, ...]] = {"runner": ("tracer", "max_rollouts"), "llm_proxy": ("store",)}
"""Arguments that the driver gives, if a part takes them."""


def _tried(native: dict[str, Any], kind: str, expected: Any) -> type | None:
    """The class of a part, as far as it is known; None for a factory's, and for what is made when the run starts.

    Nobody has approved the plan: Agent Lightning's own classes, by their registered names, are made; all other code is
    imported and looked at, and no function of it is called.
    """
    import agl_parts
    import components

    spec = native.get(kind) or {}
    name, offered = str(spec.get("name")), _offered(kind)
    if (kind, name) in (("store", "external"), ("algorithm", agl_parts.NONE), ("algorithm", "verl")):
        return None
    if name in agl_parts.NAMES[kind] and not spec.get("file"):
        if (kind, name) == ("algorithm", "apo"):
            import agl_prompts

            offered["async_openai_client"] = agl_prompts.client(native["llm"], native["limits"])
        return type(agl_parts.build(native, kind, expected, **offered))
    found = agl_parts.find(native, kind, expected)
    if found is None or found.made:
        return None if found is None else type(found.what)
    try:
        components.bound_arguments(found, kind, offered)
    except components.ComponentError as error:
        raise agl_parts.PartError(f"{error}; {error.hint}") from error
    return found.what if isinstance(found.what, type) else None


def _offered(kind: str) -> dict[str, Any]:
    return dict.fromkeys(_OFFERED.get(kind, ()))


def _judged(algorithm: type, stage: str) -> Iterator[dict[str, Any]]:
    from agentlightning.algorithm import FastAlgorithm

    if stage == "dev" and not issubclass(algorithm, FastAlgorithm):
        message = f"{algorithm.__name__} is not a FastAlgorithm: the stage dev runs what is fast alone"
        yield _error("ALGORITHM_NOT_FAST", message, "algorithm")
    for name in ("set_store", "set_adapter", "set_llm_proxy", "set_initial_resources", "run"):
        if not callable(getattr(algorithm, name, None)):
            yield _error("COMPONENT_INVALID", f"the algorithm has no method {name}", "algorithm")


def _kind_of(agent: Any) -> str:
    """The class's name, or 'solve (async)' of a decorated function."""
    if isinstance(agent, type):
        return agent.__name__
    function = getattr(agent, "_rollout_func", None)
    if function is None:
        return type(agent).__name__
    how = "async" if inspect.iscoroutinefunction(function) else "sync"
    return f"{getattr(function, '__name__', 'a function')} ({how})"


def _error(code: str, message: str, field: str) -> dict[str, Any]:
    return {"code": code, "message": message, "field": field}


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)
