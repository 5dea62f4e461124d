"""How a training command gets onto the nodes of the cluster whose job this process is: argument list and environment.

A program that joins Ray by itself (verl) is given the cluster and an environment for its Ray workers. Any other is run
once a node by the driver (`driver.py`), in a placement group that holds the nodes for as long as it lives.
"""

from __future__ import annotations

import json
import os
import sys

from loopai_trainer.errors import TrainingFailed
from loopai_trainer.records import Command
from loopai_trainer.rules import cluster

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_DRIVER = "import sys; from loopai_trainer.executors.ray_jobs.driver import main; sys.exit(main(sys.argv[1:]))"

_JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Ray's own variable: what a driver inherits of its job. Source: ray 2.60 _private/worker.py."""

_NOT_FOR_WORKERS = ("CUDA_VISIBLE_DEVICES", "TMPDIR")
"""Ray says which GPUs a worker has; and a folder that was made on this node is not there on another one."""

_TOKEN_FILE = os.path.join(".ray", "auth_token")


def place(
    command: Command, launch: Mapping[str, Any], places: Mapping[str, str], environ: Mapping[str, str]
) -> Command:
    """`places`: `joins` (the Python of a program that joins Ray itself, else empty), `logs` (beginning of the names of
    the nodes' logs), `cache` and `tmp` (the run's folders). `environ`: of this job of the cluster.

    Raises TrainingFailed if this process is no job of a cluster.
    """
    if not environ.get("RAY_ADDRESS"):
        raise TrainingFailed(
            "this worker is no job of a Ray cluster (RAY_ADDRESS is not set), but its plan names one",
            code="NOT_ON_CLUSTER",
            hint="make the same run-prepared call again",
        )
    if places["joins"]:
        return Command(command.argv, command.cwd, {**command.env, **_joining(command, places["joins"], environ)})
    spec = {
        "nodes": launch["nodes"],
        "bundle": cluster.bundle(launch),
        "cwd": command.cwd,
        "env": sorted(command.env),
        **{name: places[name] for name in ("logs", "cache", "tmp")},
    }
    argv = (sys.executable, "-P", "-c", _DRIVER, json.dumps(spec), *command.argv)
    inherited = {_JOB_CONFIG: environ[_JOB_CONFIG]} if _JOB_CONFIG in environ else {}
    return Command(argv, command.cwd, {**inherited, **command.env, **_cluster_env(environ)})


def _joining(command: Command, python: str, environ: Mapping[str, str]) -> dict[str, str]:
    workers = {name: value for name, value in command.env.items() if name not in _NOT_FOR_WORKERS}
    own = {name: value for name, value in workers.items() if not name.startswith("RAY_")}
    # Said even where it is empty: a node's own PYTHONPATH would load what nobody approved.
    runtime_env = {"py_executable": python, "env_vars": {"PYTHONPATH": "", **own}}
    config = {"runtime_env": runtime_env, "metadata": _metadata(environ)}
    # What verl itself tells its workers goes before what is told here: the values come from the same environment.
    return {_JOB_CONFIG: json.dumps(config), "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1", **_cluster_env(environ)}


def _metadata(environ: Mapping[str, str]) -> dict[str, str]:
    """By which Ray knows that a driver belongs to a submitted job."""
    try:
        found = json.loads(environ.get(_JOB_CONFIG, "{}")).get("metadata")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _cluster_env(environ: Mapping[str, str]) -> dict[str, str]:
    """The cluster and the right to use it. HOME is another one in training, so Ray's own place is named outright."""
    found = {name: value for name, value in environ.items() if name == "RAY_ADDRESS" or name.startswith("RAY_AUTH_")}
    own = os.path.join(environ.get("HOME") or os.path.expanduser("~"), _TOKEN_FILE)
    if "RAY_AUTH_TOKEN" not in found and "RAY_AUTH_TOKEN_PATH" not in found and os.path.isfile(own):
        found["RAY_AUTH_TOKEN_PATH"] = own
    return found
