"""What a job of the cluster looks at before an approval is used up: the same bytes, the same environment, enough nodes.

It runs there, by the interpreter that the plan names; operations/cluster_check.py submits it and reads its answer.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from loopai_trainer import backends
from loopai_trainer.errors import HostUnfit, TrainerError
from loopai_trainer.files.run_dir import RunDir, TaskDir
from loopai_trainer.host import locks
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
_MOST_ASKED = 32
"""Nodes that are asked; of more, those with the most free devices."""


def main(words: Sequence[str]) -> int:
    """Print the answer: {"ok", "locks_reach", "nodes", "error"}. Exit status 0 also for a refusal."""
    path, version_id, task_path, sha256, version = words
    run = RunDir(path, version_id, TaskDir(os.path.dirname(task_path), os.path.basename(task_path)))
    answer: dict[str, Any] = {"ok": True, "locks_reach": False, "nodes": [], "error": None}
    try:
        _same_program(version)
        plan = plans.approve(read_config(run), sha256, run.config).plan
        answer["locks_reach"] = locks.held(run.run_lock)
        inputs.verify(plan, backends.get(plan.framework, plan.stage), os.environ)
        answer["nodes"] = _nodes(plan, run) if cluster.on_cluster(plan.loopai["launch"]) else []
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


def _nodes(plan: Plan, run: RunDir) -> list[str]:
    """The nodes that training could take, each asked for what it sees. Raises HostUnfit, InputChanged."""
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
        looks = looks_of(_paths(plan))
        return [_asked(node, plan, run, looks) for node in fitting[:_MOST_ASKED]]
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


def _asked(node: Mapping[str, Any], plan: Plan, run: RunDir, looks: Mapping[str, str]) -> str:
    """The node's host name, if it sees the same plan, files and programs. Raises HostUnfit NODE_UNFIT."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    task = ray.remote(seen).options(num_cpus=0, max_retries=0, scheduling_strategy=place)
    try:
        found = ray.get(task.remote(run.config, plan.loopai["backend"]["python"], list(looks)), timeout=_NODE_LIMIT_S)
    except ray.exceptions.RayError as error:
        raise _unfit(node, str(error).strip().splitlines()[0]) from None
    for what, expected, got in (
        ("the plan (sha256)", plan.sha256, found["sha256"]),
        ("loopai-trainer", __version__, found["version"]),
        ("the backend's interpreter is there", True, found["python"]),
        *((path, look, found["files"][path]) for path, look in looks.items()),
    ):
        if expected != got:
            raise _unfit(node, f"{what}\n  expected: {expected}\n  got:      {got}")
    return str(node.get("NodeManagerHostname") or node["NodeManagerAddress"])


def _unfit(node: Mapping[str, Any], why: str) -> HostUnfit:
    return HostUnfit(
        f"node {node.get('NodeManagerAddress')} of the cluster cannot run the plan: {why}",
        code="NODE_UNFIT",
        hint="run directory, data, model, environment and interpreter have to lie on a file system of all nodes",
    )


def seen(config: str, python: str, paths: Sequence[str] = ()) -> dict[str, Any]:
    """What one node sees (run there by Ray)."""
    try:
        with open(config, "rb") as file:
            sha256 = digest.sha256(file.read())
    except OSError as error:
        sha256 = f"({error.strerror})"
    return {"sha256": sha256, "version": __version__, "python": os.access(python, os.X_OK), "files": looks_of(paths)}
