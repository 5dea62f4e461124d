"""run-prepared --node-rank N: this host's share of a training over several nodes without a cluster.

Rank 0 owns the run: it is an ordinary run-prepared on the first host. A further rank waits for it, checks the same hash
and the same inputs here, runs the same command with its own NODE_RANK, and ends with the run. The run directory lies on
a file system that all hosts share.
"""

from __future__ import annotations

import os
import time

from loopai_trainer import backends
from loopai_trainer.errors import Busy, ConfigError, TrainingFailed, UsageError
from loopai_trainer.executors.node import Node, node_env
from loopai_trainer.host import locks
from loopai_trainer.operations import commands, inputs, run_place, waiting
from loopai_trainer.operations.prepared_config import check_identity, check_inspected, read_config, run_of_config
from loopai_trainer.operations.run_prepared import (
    check_devices,
    lock_devices,
    refuse_other_version,
    refuse_sandbox,
)
from loopai_trainer.rules import cluster
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules.run_state import LIVE, TERMINAL
from loopai_trainer.worker.observe import observe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.operations.answer import Answer
    from loopai_trainer.operations.waiting import Watcher
    from loopai_trainer.records import ApprovedPlan, Command, Plan
    from loopai_trainer.worker.observe import Observation

_PAUSE_S = 0.5
_GRACE_S = 20.0
_SETTLE_S = 60.0
"""How long the owner of the run may take to see that its training has ended, after this rank's has."""


def join(
    config_path: str,
    sha256: str,
    rank: int,
    environ: Mapping[str, str],
    *,
    version_id: str | None = None,
    wait_timeout_s: float | None = None,
    watch: Watcher | None = None,
    talk: Callable[[str], None] = lambda line: None,
) -> Answer:
    """The run's own outcome; exit 75 if rank 0 has not started training by `wait_timeout_s`.

    Raises what refuses the start: another hash, other inputs or environment on this host, devices that are not there
    or in use, a plan that is none for several hosts. Whoever ends this process ends its ranks, and so the training.
    """
    run = run_of_config(config_path)
    refuse_other_version(run, version_id)
    refuse_sandbox(run, sha256, environ)
    approved = plans.approve(read_config(run), sha256, run.config)
    plan = approved.plan
    check_identity(plan, run)
    check_inspected(plan, run)
    _check_rank(plan, rank)
    inputs.verify(plan, backends.get(plan.framework, plan.stage), environ)
    held = [_lock_rank(run, rank)]
    try:
        held += lock_devices(run, plan, check_devices(plan), environ)
        talk(f"rank {rank} of {run.version_id}: waiting for rank 0; log {run.node_log_stem}{rank}.log")
        deadline = None if wait_timeout_s is None else time.monotonic() + wait_timeout_s
        if not _wait_for_owner(run, sha256, deadline):
            return waiting.still_running("run-prepared", run)
        code = _take_part(run, _command(approved, run, environ), rank)
    finally:
        for fd in held:
            os.close(fd)
    return _ended(run, rank, code, watch)


def _lock_rank(run: RunDir, rank: int) -> int:
    """The lock of this rank, held for as long as this call lives. Raises Busy if another host takes part as it."""
    fd = locks.try_exclusive(f"{run.node_log_stem}{rank}.log")
    if fd is None:
        raise Busy(
            f"rank {rank} of {run.version_id} is taken: another call takes part as it",
            code="LOCKED",
            hint="give each host another --node-rank",
            next_command=commands.status(run.path),
        )
    return fd


def _check_rank(plan: Plan, rank: int) -> None:
    launch = plan.loopai["launch"]
    if not cluster.by_hand(launch):
        raise UsageError(
            f"--node-rank {rank}: the plan is none for several hosts without a cluster",
            code="NODE_RANK",
            hint="leave --node-rank out",
        )
    if not 0 <= rank < launch["nodes"]:
        raise UsageError(
            f"--node-rank {rank}: the plan's ranks are 0 to {launch['nodes'] - 1}",
            code="NODE_RANK",
            hint="give each host another one of them",
        )


def _wait_for_owner(run: RunDir, sha256: str, deadline: float | None) -> bool:
    """Until rank 0's training was exec'd. Raises PlanChanged, TrainingFailed if it never will be."""
    from loopai_trainer.worker.starting import another_plan

    while True:
        seen = observe(run)
        got = seen.state.get("config_sha256")
        if got and got != sha256:
            raise another_plan(str(got), sha256)
        if seen.verdict.status in TERMINAL:
            raise TrainingFailed(
                f"{run.version_id} is {seen.verdict.status} already: there is nothing to take part in",
                code="RUN_ENDED",
                hint="prepare a new version to train again",
                next_command=commands.status(run.path),
            )
        if seen.verdict.status in LIVE and os.path.exists(run.launch_started):
            return True
        if deadline is not None and time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)


def _command(approved: ApprovedPlan, run: RunDir, environ: Mapping[str, str]) -> Command:
    plan = approved.plan
    launch = backends.get(plan.framework, plan.stage).launch(approved, run_place.launch_paths(run), environ)
    if launch.helpers:
        raise ConfigError("a training with helper processes runs on one host alone", hint="prepare it for one node")
    return launch.main


def _take_part(run: RunDir, command: Command, rank: int) -> int | None:
    """Run this host's ranks until they end, or the run has; their exit status, None if they were stopped for it."""
    node = Node()
    try:
        node.start(
            command.argv, command.cwd, node_env(command.env, run.cache, rank, {}), f"{run.node_log_stem}{rank}.log"
        )
        while (code := node.poll()) is None:
            if not observe(run).verdict.goes_on:
                return None
            time.sleep(_PAUSE_S)
        return code
    finally:
        node.stop(_GRACE_S)


def _ended(run: RunDir, rank: int, code: int | None, watch: Watcher | None) -> Answer:
    seen: Observation | None = waiting.until_end(run, watch, deadline=time.monotonic() + _SETTLE_S)
    if seen is None and code == 0:
        seen = waiting.until_end(run, watch)  # the owner still exports
    if seen is None:
        raise TrainingFailed(
            f"rank {rank} ended with exit status {code}, and the run goes on without it",
            code="RANK_ENDED",
            hint=f"look at {run.node_log_stem}{rank}.log, and cancel the run",
            next_command=commands.status(run.path),
        )
    return waiting.ended("run-prepared", run, seen)
