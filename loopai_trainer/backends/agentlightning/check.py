"""Everything that can be known of an Agent Lightning plan before it starts: each rule is a generator of problems."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.agentlightning import verl_keys
from loopai_trainer.backends.agentlightning.keys import FILE_KEYS
from loopai_trainer.records import Plan, Problem, Versions
from loopai_trainer.rules import dotted, host_env, launch_env

EXECUTORS = ("local", "inline")
_FAST = ("baseline", "none")
"""Registered algorithms that the stage dev may run; a class of the user's is judged in its environment."""

_STAGE_ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "dev": _FAST,
    "apo": ("apo", *_FAST),
    "grpo": ("verl", *_FAST),
}


def check(plan: Plan, versions: Versions) -> list[Problem]:
    """All findings, errors first."""
    found: list[Problem] = []
    for rule in (_launch, _agent, _covered, _algorithm, _strategy, _limits, _prompt_search, _files):
        found += rule(plan)
    if plan.stage == "grpo" and component_name(plan.native, "algorithm") == "verl":
        found += verl_keys.problems(plan, versions)
    return sorted(found, key=lambda problem: problem.severity)


def component_name(native: Mapping[str, Any], kind: str) -> str:
    """The name that a plan gives for a component; empty if there is none."""
    spec = native.get(kind)
    name = (spec.get("name") or spec.get("type")) if isinstance(spec, dict) else spec
    return str(name) if name else ""


def is_own(native: Mapping[str, Any], kind: str) -> bool:
    """Whether a component comes from a file of the user's, or from any installed package."""
    spec = native.get(kind)
    return bool(isinstance(spec, dict) and spec.get("file")) or ":" in component_name(native, kind)


def _launch(plan: Plan) -> Iterator[Problem]:
    launch: Mapping[str, Any] = plan.loopai["launch"]
    if launch["executor"] not in EXECUTORS:
        message = f"there is no executor '{launch['executor']}'"
        yield _error("EXECUTOR_UNKNOWN", message, f"write {' or '.join(EXECUTORS)}", "loopai.launch.executor")
    if launch["nodes"] != 1:
        yield _error("NODES", "agents are trained on one node", "leave --nodes out", "loopai.launch.nodes")
    if launch["nproc_per_node"] != 1:
        message = f"nproc_per_node is {launch['nproc_per_node']}: runners are counted by strategy.n_runners"
        yield _error("PROCESSES_INVALID", message, "set it to 1", "loopai.launch.nproc_per_node")
    if plan.stage != "grpo" and launch["devices"]:
        message = f"{plan.stage} uses no device, but the plan names {launch['devices']}"
        yield _error("DEVICES_DIFFER", message, "set loopai.launch.devices: ''", "loopai.launch.devices")
    yield from (_error(*fault) for fault in launch_env.env_faults(launch))
    for message, hint in host_env.faults(launch):
        yield _error("ENV_NOT_ALLOWED", message, hint, "loopai.launch.host_env")


def _agent(plan: Plan) -> Iterator[Problem]:
    spec = plan.native.get("agent")
    spec = spec if isinstance(spec, dict) else {}
    if not spec.get("file") or not spec.get("name"):
        hint = "--set agent.file=FILE.py --set agent.name=NAME, or the same in the template"
        yield _error(
            "AGENT_MISSING", "the plan names no agent: a Python file and what in it is the agent", hint, "agent"
        )
        return
    yield from _named_in(spec["file"], spec["name"], "agent")


def _covered(plan: Plan) -> Iterator[Problem]:
    """A finding for each file that the approved hash does not cover: an edit may name any."""
    inputs = plan.loopai["inputs"]
    pinned = {entry["path"] for entry in inputs["files"]}
    for key in FILE_KEYS:
        path = dotted.get(plan.native, key)
        if path and path not in pinned:
            message = f"'{key}' names {path}, which is no input of the plan: code that nobody has hashed would run"
            yield _error("UNCOVERED_INPUT", message, "undo that edit, or take it in: inspect with --refresh", key)
    for split in ("train", "validation"):
        path = (plan.native.get("tasks") or {}).get(split)
        if path and path != (inputs.get(split) or {}).get("path"):
            message = f"'tasks.{split}' names {path}, which are not the tasks that the plan pins"
            yield _error("UNCOVERED_INPUT", message, "undo that edit, or prepare again", f"tasks.{split}")


def _files(plan: Plan) -> Iterator[Problem]:
    for key in FILE_KEYS[1:]:
        path = dotted.get(plan.native, key)
        if path:
            kind = key.partition(".")[0]
            yield from _named_in(str(path), component_name(plan.native, kind), kind)


def _named_in(path: str, name: str, field: str) -> Iterator[Problem]:
    """A finding where a Python file does not compile, or has nothing of that name at its top level."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(), path)
    except OSError as error:
        yield _error("FILE_UNREADABLE", f"{path} cannot be read: {error.strerror}", "name a readable file", field)
        return
    except (SyntaxError, ValueError) as error:
        yield _error("CODE_INVALID", f"{os.path.basename(path)} is no Python: {error}", "mend the file", field)
        return
    if name not in set(_top_names(tree)):
        message = f"{os.path.basename(path)} has nothing called '{name}' at its top level"
        yield _error("CODE_NAME_MISSING", message, f"set {field}.name to what it is called there", f"{field}.name")


def _top_names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def _algorithm(plan: Plan) -> Iterator[Problem]:
    name, allowed = component_name(plan.native, "algorithm"), _STAGE_ALGORITHMS[plan.stage]
    if name in allowed or is_own(plan.native, "algorithm"):
        return
    if plan.stage == "dev":
        message = f"the stage dev runs fast algorithms alone, and '{name}' is none: it would train in a dry run"
        hint = f"use --stage {'apo' if name == 'apo' else 'grpo'}, or algorithm: baseline"
        yield _error("ALGORITHM_NOT_FAST", message, hint, "algorithm")
        return
    hint = f"use {' or '.join(allowed)}, or a class of your own (file and name)"
    yield _error("ALGORITHM_INVALID", f"the stage {plan.stage} cannot run '{name}'", hint, "algorithm")


def _strategy(plan: Plan) -> Iterator[Problem]:
    native, name = plan.native, component_name(plan.native, "strategy")
    if is_own(native, "strategy"):
        message = "a strategy of your own starts processes that nobody here could supervise"
        yield _error("STRATEGY_INVALID", message, "use client_server, shared_memory or split", "strategy")
        return
    runners = native["strategy"].get("n_runners")
    if name == "shared_memory" and runners != 1:
        message = (
            f"shared_memory with {runners} runners: all of them are threads with one global tracer, and rollouts that "
            "meet there fail with 'An active tracer is already set'"
        )
        yield _error("RUNNERS_INVALID", message, "set n_runners to 1, or use client_server", "strategy.n_runners")
    external = component_name(native, "store") == "external"
    if external != (name == "split"):
        message = "the store 'external' and the strategy 'split' go together, and with nothing else"
        yield _error("STORE_INVALID", message, "set both, or store: memory", "store")
    if plan.stage == "grpo" and name == "shared_memory":
        message = "reinforcement learning in one process: training and rollouts would wait for each other"
        yield _error("STRATEGY_INVALID", message, "use client_server or split", "strategy")


def _limits(plan: Plan) -> Iterator[Problem]:
    limits = plan.native.get("limits") or {}
    for name in ("rollout_s", "wall_s"):
        if not isinstance(limits.get(name), int | float) or limits[name] <= 0:
            message = f"limits.{name} is missing: an agent that hangs would hold the run for ever"
            yield _error("LIMIT_MISSING", message, f"set limits.{name} to seconds", f"limits.{name}")


def _prompt_search(plan: Plan) -> Iterator[Problem]:
    native = plan.native
    if plan.stage != "apo":
        return
    if component_name(native, "algorithm") != "apo":
        return
    if not native["tasks"].get("validation"):
        hint = "name them with --eval-dataset, or hold some out with val_size in the template"
        yield _error("VALIDATION_MISSING", "prompts are scored on validation tasks, and there are none", hint, "tasks")
    seeds = [one for one in (native.get("resources") or {}).values() if one.get("type") != "llm"]
    if len(seeds) != 1:
        message = f"the plan has {len(seeds)} prompt templates: the search begins with one and changes that one"
        yield _error("PROMPT_MISSING", message, "write one under resources", "resources")
    llm = native.get("llm") or {}
    if not str(llm.get("base_url") or "").startswith(("http://", "https://")):
        message = "llm.base_url is missing: the endpoint that criticises and rewrites prompts"
        yield _error("ENDPOINT_MISSING", message, "set llm.base_url: http(s)://HOST/v1", "llm.base_url")
    if not llm.get("api_key_env") or llm["api_key_env"] not in plan.loopai["launch"]["pass_env"]:
        message = f"llm.api_key_env names {llm.get('api_key_env')!r}, which loopai.launch.pass_env does not pass"
        yield _error("KEY_NOT_PASSED", message, "prepare again with --option agentlightning_api_key_env=NAME", "llm")


def _error(code: str, message: str, hint: str, field: str) -> Problem:
    return Problem("error", code, "config", message, hint, field=field)
