"""What an approver has to see: the summary in reading order, and the red flags that stand before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from loopai_trainer.backends.agentlightning.check import component_name, is_own
from loopai_trainer.backends.agentlightning.keys import COMPONENTS
from loopai_trainer.records import Plan, Problem

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def summary(plan: Plan) -> dict[str, Any]:
    """Name -> value, in reading order."""
    native, inputs = plan.native, plan.loopai["inputs"]
    agent, llm = native.get("agent") or {}, native.get("llm") or {}
    backend = plan.loopai["backend"]
    shown = {
        "agent": f"{agent.get('name')} in {agent.get('file')}",
        "train_data": inputs["train"]["path"],
        "train_tasks": inputs["train"].get("rows"),
        "validation_data": (inputs.get("validation") or {}).get("path"),
        "validation_tasks": (inputs.get("validation") or {}).get("rows"),
        **{f"resource {name}": _resource(one) for name, one in (native.get("resources") or {}).items()},
        **{kind: _component(native.get(kind)) for kind in COMPONENTS},
        "max_rollouts": native.get("max_rollouts"),
        "optimiser_endpoint": llm.get("base_url"),
        "optimiser_models": f"{llm.get('gradient_model')}, {llm.get('apply_edit_model')}" if llm else None,
        "api_key": f"from the variable {llm['api_key_env']}" if llm.get("api_key_env") else None,
        **{f"limit {name}": value for name, value in (native.get("limits") or {}).items()},
        "selection_metric": f"{plan.result.get('selection_metric')} ({plan.result.get('selection_mode')})",
        "environment": f"{backend['package']} {backend['version']} ({backend['python']})",
    }
    return {name: value for name, value in shown.items() if value is not None}


def red_flags(plan: Plan) -> list[Problem]:
    """Settings that an approver should stop at."""
    return [Problem("warning", "RED_FLAG", "config", *flag) for flag in _flags(plan.native, plan)]


def _flags(native: Mapping[str, Any], plan: Plan) -> Iterator[tuple[str, str, None, None, None, str]]:
    agent = native.get("agent") or {}
    yield _flag(
        "agent", f"the agent is code of your own: {agent.get('name')} in {agent.get('file')}; it runs as you", "read it"
    )
    for kind in COMPONENTS:
        if is_own(native, kind):
            spec = native[kind]
            where = spec.get("file") or "an installed package, of which the name and version are known alone"
            yield _flag(kind, f"the {kind} is code of your own: {component_name(native, kind)} ({where})", "read it")
    endpoints = {"llm.base_url": (native.get("llm") or {}).get("base_url")}
    endpoints |= {f"resources.{name}": one.get("endpoint") for name, one in (native.get("resources") or {}).items()}
    for field, url in endpoints.items():
        host = urlsplit(str(url)).hostname if url else None
        if host and host not in _LOOPBACK:
            yield _flag(field, f"{field}: tasks and replies are sent to {host}", "make sure that they may be")
    if component_name(native, "tracer") == "agentops":
        yield _flag("tracer", "the tracer agentops is made to report to a service", "use tracer: otel")
    port = (native.get("strategy") or {}).get("port")
    if port:
        message = (
            f"the store listens at the fixed port {port} of the loopback: any program of this host can write to it"
        )
        yield _flag("strategy.port", message, "set it to 0, unless somebody has to queue tasks by hand")
    for name in plan.loopai["launch"].get("pass_env") or ():
        message = f"training gets the variable {name} from whoever starts it"
        yield _flag("loopai.launch.pass_env", message, "remove it if it is not needed")


def _flag(field: str, message: str, advice: str) -> tuple[str, str, None, None, None, str]:
    return message, advice, None, None, None, field


def _component(spec: Any) -> str | None:
    """`name (argument value, ...)`."""
    if not spec:
        return None
    arguments = ", ".join(f"{key} {value}" for key, value in spec.items() if key not in ("name", "type"))
    name = spec.get("name") or spec.get("type")
    return f"{name} ({arguments})" if arguments else str(name)


def _resource(one: Mapping[str, Any]) -> str:
    if one.get("type") == "llm":
        return f"{one.get('model')} at {one.get('endpoint')}"
    return repr(one.get("template"))
