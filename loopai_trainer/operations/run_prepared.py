"""run-prepared: check the approved hash and all under it, start exactly that or attach to it, wait for the end."""

from __future__ import annotations

import os
import time

from loopai_trainer import backends, executors
from loopai_trainer.errors import ConfigError, HostUnfit, Orphaned, PlanChanged, UsageError
from loopai_trainer.host import sandbox
from loopai_trainer.operations import approvals, commands, inputs, waiting
from loopai_trainer.operations.prepared_config import (
    check_identity,
    check_inspected,
    diff_to_shown,
    read_config,
    run_of_config,
)
from loopai_trainer.rules import cluster
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules.run_state import FINISH, ORPHAN, START
from loopai_trainer.worker.attach import Attachment, StartRequest, start_or_attach
from loopai_trainer.worker.observe import observe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from loopai_trainer.contract import Backend
    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.operations.answer import Answer
    from loopai_trainer.operations.waiting import Watcher
    from loopai_trainer.records import Device, Plan, Problem
    from loopai_trainer.worker.inputs import Progress
    from loopai_trainer.worker.observe import Observation

APPROVED_VIA = ("hash", "auto")
"""What a caller may say of its own approval; an approval at a terminal is given by `trainer approve` alone."""

MAX_ROUNDS = 3
"""A worker that dies while finishing is followed by another; more deaths than this are no accident."""


def run_prepared(
    config_path: str,
    sha256: str,
    environ: Mapping[str, str],
    *,
    version_id: str | None = None,
    wait_timeout_s: float | None = None,
    verify_all: bool = False,
    watch: Watcher | None = None,
    talk: Callable[[str], None] = lambda line: None,
    progress: Progress | None = None,
    approved_via: str = "hash",
    node_rank: int | None = None,
) -> Answer:
    """The run's own outcome, or exit 75 at `wait_timeout_s`. Raises what refuses the start (interface section 6).

    `node_rank`: 0 for the host that owns a training over several ones; further ones take part by join_node.
    """
    if approved_via not in APPROVED_VIA:
        raise UsageError(f"approved_via cannot be {approved_via!r}", hint=f"say one of {', '.join(APPROVED_VIA)}")
    deadline = None if wait_timeout_s is None else time.monotonic() + wait_timeout_s
    run = run_of_config(config_path)
    refuse_other_version(run, version_id)
    refuse_sandbox(run, sha256, environ)
    start = _Start(run, sha256, environ, verify_all, approved_via, progress, node_rank, talk)
    rounds = 0
    while True:
        rounds += 1
        attached = _attached(run, sha256, start, deadline)
        if rounds == 1:  # not of a run that was refused
            talk(f"run {run.version_id}\nre-attach at any time with: {commands.run_prepared(run.config, sha256)}")
        seen = attached.observation
        if attached.kind != "finished" or seen is None:
            seen = waiting.until_end(run, watch, deadline=deadline, child_pid=attached.worker_pid)
        if seen is None:
            return waiting.still_running("run-prepared", run)
        gave_up = rounds == MAX_ROUNDS or bool(seen.state.get("error")) or seen.verdict.code == "JOB_FAILED"
        if gave_up or seen.verdict.action not in (FINISH, START):
            if seen.verdict.action == ORPHAN or seen.state.get("task_store_error"):
                _tell_loopai(run, seen, talk)
            return waiting.ended("run-prepared", run, seen)


def _attached(run: RunDir, sha256: str, start: _Start, deadline: float | None) -> Attachment:
    try:
        return start_or_attach(run, sha256, start, deadline=deadline)
    except Orphaned:
        _tell_loopai(run, observe(run), lambda line: None)
        raise


def _tell_loopai(run: RunDir, seen: Observation, talk: Callable[[str], None]) -> None:
    """What no worker is left to tell the task store: that the run is orphaned, or how it has ended."""
    from loopai_trainer.operations import run_told

    if seen.verdict.action == ORPHAN:
        run_told.tell_orphaned(run, seen)
    else:
        run_told.tell_again(run, seen, talk)


class _Start:
    """Called under run.lock, at most once a start: every check, then the approval is used up (interface section 6)."""

    def __init__(
        self,
        run: RunDir,
        sha256: str,
        environ: Mapping[str, str],
        verify_all: bool,
        approved_via: str,
        progress: Progress | None,
        node_rank: int | None = None,
        talk: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.run = run
        self.sha256 = sha256
        self.environ = environ
        self.verify_all = verify_all
        self.approved_via = approved_via
        self.progress = progress
        self.node_rank = node_rank
        self.talk = talk

    def __call__(self) -> StartRequest:
        run = self.run
        data = read_config(run)
        plan = self._approved(data)
        check_identity(plan, run)
        check_inspected(plan, run)
        check_output_fresh(run)
        approvals.check(run, plan, self.approved_via, self.environ)
        backend = backends.get(plan.framework, plan.stage)
        inputs.verify(plan, backend, self.environ, verify_all=self.verify_all, progress=self.progress)
        launch = plan.loopai["launch"]
        self._check_rank(launch)
        if executors.submitting(launch["executor"]) is not None:
            request = self._for_cluster(data, plan)
        else:
            device_fds = lock_devices(run, plan, check_host(plan, backend), self.environ)
            request = StartRequest(data, self.sha256, plan.task_id, launch["executor"], device_fds)
        try:
            approvals.consume(run, plan, self.approved_via, self.environ)
        except BaseException:
            request.close()
            raise
        return request

    def _for_cluster(self, data: bytes, plan: Plan) -> StartRequest:
        """After a look from there: the cluster has devices and ports of its own."""
        from loopai_trainer.operations import cluster_check

        request = StartRequest(data, self.sha256, plan.task_id, plan.loopai["launch"]["executor"])
        request.locks_reach, request.not_asked = cluster_check.check(self.run, plan, self.environ)
        request.launch = dict(plan.loopai["launch"])
        if request.not_asked:
            self.talk(cluster.not_asked_text(request.not_asked))
        return request

    def _check_rank(self, launch: Mapping[str, Any]) -> None:
        """Refuse a start that does not say which of several hosts this is. Raises UsageError NODE_RANK."""
        if cluster.by_hand(launch) and self.node_rank is None:
            raise UsageError(
                f"the plan is for {launch['nodes']} hosts, and --node-rank is not given",
                code="NODE_RANK",
                hint="give --node-rank 0 here, and 1, 2, ... on the others",
            )
        if self.node_rank is not None and not cluster.by_hand(launch):
            raise UsageError(
                f"--node-rank {self.node_rank}: the plan is none for several hosts by hand",
                code="NODE_RANK",
                hint="leave it out",
            )

    def _approved(self, data: bytes) -> Plan:
        try:
            return plans.approve(data, self.sha256, self.run.config).plan
        except PlanChanged as error:
            raise self._with_changed_yaml(error, data) from None

    def _with_changed_yaml(self, error: PlanChanged, data: bytes) -> PlanChanged:
        text = data.decode("utf-8", "replace")
        changed: dict[str, Any] = {
            "config_path": self.run.config,
            "config_yaml": text,
            "config_sha256": plans.digest(data),
            "diff": diff_to_shown(self.run, text, self.sha256),
        }
        return PlanChanged(
            error.message,
            hint=error.hint,
            next_command=commands.inspect(self.run.config),
            details={**error.details, "changed": changed},
        )


def refuse_other_version(run: RunDir, version_id: str | None) -> None:
    """Raises PlanChanged for another version than the one that the caller names (None: it names none)."""
    if version_id is not None and version_id != run.version_id:
        raise PlanChanged(
            f"{run.config} is another version\n  expected: {version_id}\n  got:      {run.version_id}",
            hint="name the YAML of the version that was approved",
        )


def refuse_sandbox(run: RunDir, sha256: str, environ: Mapping[str, str]) -> None:
    """Refuse to start in a sandbox that would kill the worker with its caller. Raises HostUnfit SANDBOXED (exit 9).

    Nothing was touched: no lock was taken, no approval used up.
    """
    why = sandbox.reason(environ)
    if why is not None:
        raise HostUnfit(
            f"this is a sandbox: {why}; nothing was started",
            code="SANDBOXED",
            hint="make the same call outside of the sandbox (agents ask their user for that); "
            "`trainer status`, `wait`, `logs` and `events` work here too",
            next_command=commands.run_prepared(run.config, sha256),
        )


def check_output_fresh(run: RunDir) -> None:
    """Refuse an output folder that holds something before the first start: LLaMA-Factory would resume from it.

    Raises ConfigError OUTPUT_NOT_FRESH. Source: LLaMA-Factory 0.9.5, hparams/parser.py, measured.
    """
    try:
        held = os.listdir(run.checkpoints)
    except FileNotFoundError:
        return
    if held:
        raise ConfigError(
            f"{run.checkpoints} holds {sorted(held)[0]} before training has started: training would go on from there",
            code="OUTPUT_NOT_FRESH",
            hint="prepare a new version; it gets a folder of its own",
        )


def check_host(plan: Plan, backend: Backend) -> tuple[Device, ...]:
    """Whether this host can run the plan now: devices, ports. Raises HostUnfit (exit 9). Returns the host's GPUs."""
    return check_devices(plan, backend.launch_problems(plan))


def check_devices(plan: Plan, problems: Sequence[Problem] = ()) -> tuple[Device, ...]:
    """Whether the plan's devices are there; `problems`: what else was found. Raises HostUnfit. Returns all GPUs."""
    problems = list(problems)
    devices = plan.loopai["launch"]["devices"]
    present: tuple[Device, ...] = ()
    if devices:
        from loopai_trainer.host import devices as host_devices

        host = host_devices.read_host(os.getcwd())
        present = host.devices
        problems += host_devices.device_problems(devices, host)
    if problems:
        first = problems[0]
        raise HostUnfit(first.message, code=first.code, hint=first.hint, problems=problems)
    return present


def lock_devices(run: RunDir, plan: Plan, present: tuple[Device, ...], environ: Mapping[str, str]) -> tuple[int, ...]:
    """The locks of the plan's GPUs, none for a plan that runs on the CPU. Raises Busy DEVICE_IN_USE (exit 7)."""
    if not plan.loopai["launch"]["devices"]:
        return ()
    from loopai_trainer.operations import device_use

    devices = device_use.of_plan(plan)
    return device_use.take(run, devices, present, environ) if devices else ()
