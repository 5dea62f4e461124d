"""run-prepared: check the approved hash and all under it, start exactly that or attach to it, wait for the end."""

from __future__ import annotations

import os
import time

from loopai_trainer import backends
from loopai_trainer.errors import ConfigError, HostUnfit, PlanChanged
from loopai_trainer.host import sandbox
from loopai_trainer.operations import approvals, commands, inputs, waiting
from loopai_trainer.operations.prepared_config import (
    check_identity,
    check_inspected,
    diff_to_shown,
    read_config,
    run_of_config,
)
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules.run_state import FINISH, START
from loopai_trainer.worker.attach import StartRequest, start_or_attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from loopai_trainer.contract import Backend
    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.operations.answer import Answer
    from loopai_trainer.operations.waiting import Watcher
    from loopai_trainer.records import Device, Plan
    from loopai_trainer.worker.inputs import Progress

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
) -> Answer:
    """The run's own outcome, or exit 75 at `wait_timeout_s`. Raises what refuses the start (interface section 6)."""
    deadline = None if wait_timeout_s is None else time.monotonic() + wait_timeout_s
    run = run_of_config(config_path)
    talk(f"run {run.version_id}\nre-attach at any time with: {commands.run_prepared(run.config, sha256)}")
    if version_id is not None and version_id != run.version_id:
        raise PlanChanged(
            f"{run.config} is another version\n  expected: {version_id}\n  got:      {run.version_id}",
            hint="name the YAML of the version that was approved",
        )
    refuse_sandbox(run, sha256, environ)
    start = _Start(run, sha256, environ, verify_all, approved_via, progress)
    rounds = 0
    while True:
        rounds += 1
        attached = start_or_attach(run, sha256, start)
        seen = attached.observation
        if attached.kind != "finished" or seen is None:
            seen = waiting.until_end(run, watch, deadline=deadline, child_pid=attached.worker_pid)
        if seen is None:
            return waiting.still_running("run-prepared", run)
        gave_up = rounds == MAX_ROUNDS or bool(seen.state.get("error"))
        if gave_up or seen.verdict.action not in (FINISH, START):
            return waiting.ended("run-prepared", run, seen)


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
    ) -> None:
        self.run = run
        self.sha256 = sha256
        self.environ = environ
        self.verify_all = verify_all
        self.approved_via = approved_via
        self.progress = progress

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
        present = check_host(plan, backend)
        device_fds = lock_devices(run, plan, present, self.environ)
        request = StartRequest(data, self.sha256, plan.task_id, plan.loopai["launch"]["executor"], device_fds)
        try:
            approvals.consume(run, plan, self.approved_via, self.environ)
        except BaseException:
            request.close()
            raise
        return request

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
    problems = backend.launch_problems(plan)
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
