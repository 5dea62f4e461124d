"""What a job of the cluster looks at before an approval is used up: the same bytes, the same environment, enough nodes.

It runs there, by the interpreter that the plan names; operations/cluster_check.py submits it and reads its answer.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from loopai_trainer import backends
from loopai_trainer.errors import HostUnfit, TrainerError
from loopai_trainer.files.run_dir import RunDir, TaskDir
from loopai_trainer.host import environments, locks
from loopai_trainer.operations import inputs
from loopai_trainer.operations.answer import problem_json
from loopai_trainer.operations.prepared_config import read_config
from loopai_trainer.records import Plan
from loopai_trainer.rules import cluster, digest
from loopai_trainer.rules import plan as plans
from loopai_trainer.version import __version__

MARK = "loopai-trainer-probe: "
"""Beginning of the one line that is the answer, among whatever else a cluster writes into a job's log."""

_NODE_LIMIT_S = 120.0
_END_BYTES = 1024 * 1024
_AT_ONCE = 16
"""Nodes that are asked at the same time: all of them read the same files of one file system."""
_NODES_LIMIT_S = 240.0
"""After so long no further nodes are asked, and whoever starts the run is told which."""


def main(words: Sequence[str]) -> int:
    """Print the answer: {"ok", "locks_reach", "nodes", "not_asked", "error"}. Exit status 0 also for a refusal."""
    path, version_id, task_path, sha256, version = words
    run = RunDir(path, version_id, TaskDir(os.path.dirname(task_path), os.path.basename(task_path)))
    answer: dict[str, Any] = {"ok": True, "locks_reach": False, "nodes": [], "not_asked": [], "error": None}
    try:
        _same_program(version)
        plan = plans.approve(read_config(run), sha256, run.config).plan
        answer["locks_reach"] = locks.held(run.run_lock)
        inputs.verify(plan, backends.get(plan.framework, plan.stage), os.environ)
        if cluster.on_cluster(plan.loopai["launch"]):
            answer["nodes"], answer["not_asked"] = _nodes(plan, run)
    except TrainerError as error:
        problems = [problem_json(problem) for problem in error.problems]
        answer |= {"ok": False, "error": {**error.brief(), "problems": problems}}
    sys.stdout.write(f"\n{MARK}{json.dumps(answer)}\n")
    sys.stdout.flush()
    return 0


def _same_program(version: str) -> None:
    if version != __version__:
        raise HostUnfit(
            f"loopai-trainer is another one on the cluster\n  expected: {version}\n  got:      {__version__}",
            code="CLUSTER_DIFFERS",
            hint=f"install the same version in {sys.executable}, or name another interpreter (ray_interpreter)",
        )


def _nodes(plan: Plan, run: RunDir) -> tuple[list[str], list[str]]:
    """The nodes that training could take: those that were asked for what they see, and those that were not.

    Raises HostUnfit, InputChanged.
    """
    import ray

    try:
        ray.init(runtime_env={"py_executable": sys.executable}, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        raise HostUnfit(
            f"{sys.executable} (Python {platform.python_version()}, Ray {ray.__version__}) cannot join it: {error}",
            code="CLUSTER_DIFFERS",
            hint="give that interpreter the cluster's own versions of Python and Ray",
        ) from None
    try:
        fitting = fitting_nodes(ray.nodes(), cluster.bundle(plan.loopai["launch"]))
        _refuse_too_few(plan, fitting, ray.nodes())
        return ask_nodes(fitting, plan, run.config, looks_of(_paths(plan)))
    finally:
        ray.shutdown()


def fitting_nodes(nodes: Sequence[Mapping[str, Any]], bundle: Mapping[str, float]) -> list[Mapping[str, Any]]:
    """Living nodes that could ever give a bundle of resources, those with most GPUs first. `nodes`: as ray.nodes()."""
    alive = [node for node in nodes if node.get("Alive")]
    fits = [node for node in alive if all(node["Resources"].get(name, 0) >= amount for name, amount in bundle.items())]
    return sorted(fits, key=lambda node: (-node["Resources"].get("GPU", 0), node["NodeID"]))


def _refuse_too_few(plan: Plan, fitting: Sequence[object], nodes: Sequence[Mapping[str, Any]]) -> None:
    launch = plan.loopai["launch"]
    if len(fitting) < launch["nodes"]:
        alive = sum(1 for node in nodes if node.get("Alive"))
        raise HostUnfit(
            f"the plan wants {launch['nodes']} nodes with {cluster.bundle(launch)} each; of the cluster's {alive} "
            f"living nodes {len(fitting)} have that",
            code="CLUSTER_TOO_SMALL",
            hint="prepare for fewer nodes or less of each, or wait for more nodes",
        )


def _paths(plan: Plan) -> list[str]:
    """The files that the plan pins, and those in the folder of its model."""
    pinned = [entry.path for entry in plans.inputs(plan)]
    model = (plan.loopai["inputs"].get("model") or {}).get("path")
    if model:
        pinned += (entry.path for entry in os.scandir(model) if entry.is_file())
    return sorted(pinned)


def looks_of(paths: Sequence[str]) -> dict[str, str]:
    """By path: size, and the hash of the first and the last megabyte. Whole files were hashed on the job's host; a
    node with a copy of its own, older or cut off, is told from it at the price of a few reads.
    """
    found = {}
    for path in paths:
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                ends = file.read(_END_BYTES)
                file.seek(max(size - _END_BYTES, 0))
                found[path] = f"{size} bytes, {digest.sha256(ends + file.read(_END_BYTES))}"
        except OSError as error:
            found[path] = f"({error.strerror})"
    return found


def ask_nodes(
    nodes: Sequence[Mapping[str, Any]], plan: Plan, config: str, looks: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """(host names of the nodes that see the same, those that were not asked since the time was up).

    Raises HostUnfit NODE_UNFIT for one that sees anything else, or does not answer, CLUSTER_TIMEOUT if there was time
    for fewer nodes than training takes.
    """
    until = time.monotonic() + _NODES_LIMIT_S
    expected = {**_expected(plan), "files": dict(looks)}
    asked: list[str] = []
    for begin in range(0, len(nodes), _AT_ONCE):
        if time.monotonic() > until:
            break
        batch = nodes[begin : begin + _AT_ONCE]
        answers = [_question(node, config, plan, list(looks)) for node in batch]
        asked += [_agreeing(node, answer, expected) for node, answer in zip(batch, answers, strict=True)]
    if len(asked) < plan.loopai["launch"]["nodes"]:
        raise HostUnfit(
            f"only {len(asked)} of {len(nodes)} nodes could be asked what they see within {_NODES_LIMIT_S:.0f} s",
            code="CLUSTER_TIMEOUT",
            hint="see whether the cluster is overloaded, or its shared file system slow; then make the same call again",
        )
    return asked, [_name(node) for node in nodes[len(asked) :]]


def _question(node: Mapping[str, Any], config: str, plan: Plan, paths: Sequence[str]) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    task = ray.remote(seen).options(num_cpus=0, max_retries=0, scheduling_strategy=place)
    environment = plan.loopai["backend"]["environment"]
    return task.remote(config, (plan.framework, plan.stage, environment), paths)


def _agreeing(node: Mapping[str, Any], answer: Any, expected: Mapping[str, Any]) -> str:
    """The node's host name. Raises HostUnfit NODE_UNFIT."""
    import ray

    try:
        found = ray.get(answer, timeout=_NODE_LIMIT_S)
    except ray.exceptions.RayError as error:
        raise _unfit(node, str(error).strip().splitlines()[0]) from None
    for what, wanted in expected.items():
        got = found[what]
        if wanted == got:
            continue
        if what == "files":
            path = next(path for path, look in wanted.items() if got.get(path) != look)
            what, wanted, got = path, wanted[path], got.get(path)
        raise _unfit(node, f"{what}\n  expected: {wanted}\n  got:      {got}")
    return _name(node)


def _name(node: Mapping[str, Any]) -> str:
    return str(node.get("NodeManagerHostname") or node["NodeManagerAddress"])


def _expected(plan: Plan) -> dict[str, Any]:
    pinned = plan.loopai["backend"]
    environment = f"{pinned['package']} {pinned['version']}, packages and code {pinned['environment_sha256']}"
    return {
        "the plan (sha256)": plan.sha256,
        "loopai-trainer": __version__,
        "interpreter": _interpreter(),
        "the backend's interpreter": pinned["python"],
        "the backend": environment,
    }


def _interpreter() -> str:
    return f"Python {platform.python_version()} at {os.path.realpath(sys.executable)}"


def _unfit(node: Mapping[str, Any], why: str) -> HostUnfit:
    return HostUnfit(
        f"node {node.get('NodeManagerAddress')} of the cluster cannot run the plan: {why}",
        code="NODE_UNFIT",
        hint="run directory, data, model, environment and interpreter have to lie on a file system of all nodes; or "
        "name in node_resources something that only nodes with them have",
    )


def seen(config: str, backend: tuple[str, str, str], paths: Sequence[str] = ()) -> dict[str, Any]:
    """What one node sees (run there by Ray). `backend`: framework, stage and the plan's word for the environment."""
    try:
        with open(config, "rb") as file:
            sha256 = digest.sha256(file.read())
    except OSError as error:
        sha256 = f"({error.strerror})"
    python, environment = _seen_backend(*backend)
    return {
        "the plan (sha256)": sha256,
        "loopai-trainer": __version__,
        "interpreter": _interpreter(),
        "the backend's interpreter": python,
        "the backend": environment,
        "files": looks_of(paths),
    }


def _seen_backend(framework: str, stage: str, name: str) -> tuple[str, str]:
    try:
        environment = environments.resolve(name, framework, os.environ)
        versions = backends.get(framework, stage).probe(environment)
    except TrainerError as error:
        return f"({error.message})", f"({error.message})"
    return environment.python, f"{versions.package} {versions.version}, packages and code {versions.sha256}"
