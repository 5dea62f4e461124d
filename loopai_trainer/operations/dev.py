"""dev: try a prepared plan cheaply: all checks, then a few steps on a few rows in a folder of its own.

It needs no approval because it cannot become the training that a person approves: steps, rows and time are bounded by
rules.dev_bounds, nothing of the version's own folder is written, its plan can be neither approved nor run, and its
weights are removed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from loopai_trainer import backends
from loopai_trainer.contract import Backend
from loopai_trainer.errors import (
    Cancelled,
    DevFailed,
    HostUnfit,
    InputChanged,
    NotShown,
    TrainerError,
    UsageError,
    ValidationError,
)
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import environments, sandbox
from loopai_trainer.operations import approval_policy, commands, dev_checks, dev_plan, waiting
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.cancel import user_name
from loopai_trainer.operations.dev_checks import Check
from loopai_trainer.operations.inspect import Examined, examine
from loopai_trainer.operations.prepared_config import run_of_config
from loopai_trainer.operations.run_prepared import check_host, lock_devices
from loopai_trainer.operations.status import describe
from loopai_trainer.operations.version_id import uuid7
from loopai_trainer.records import DevPlan, Environment, Plan
from loopai_trainer.rules import cluster, dev_bounds
from loopai_trainer.worker import dev_weights
from loopai_trainer.worker.attach import StartRequest, start_or_attach
from loopai_trainer.worker.cancelling import request_cancel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.operations.waiting import Watcher

Talk = Callable[[str], None]
Progress = Callable[[str, int, int], None]


class _Trial(NamedTuple):
    """A version whose plan is tried in the folder `dev`."""

    source: RunDir
    dev: RunDir
    environ: Mapping[str, str]
    limit_s: float


class _Found(NamedTuple):
    """`plan` and what it is next are known once the YAML was found good; `made` once something was started."""

    checks: list[Check]
    not_shown: Mapping[str, str]
    examined: Examined | None = None
    made: dev_plan.Made | None = None
    cancelled: bool = False


def dev(
    config_path: str,
    environ: Mapping[str, str],
    *,
    limit_s: float | None = None,
    watch: Watcher | None = None,
    talk: Talk = lambda line: None,
    progress: Progress | None = None,
) -> Answer:
    """passed (exit 0), failed (1) or not shown here (3), with every check; recorded in the dev run's folder.

    Raises UsageError for a limit beyond dev_bounds.MOST_S, NotFound for a YAML that is not there, BackendMissing, and
    Busy for a device that another run holds.
    """
    source = run_of_config(config_path)
    trial = _Trial(source, source.task.dev_run(source.version_id, f"dev-{uuid7()}"), environ, _limit(limit_s))
    began_s = time.monotonic()
    try:
        found = _tried(trial, watch, talk, progress)
        return _answer(trial, found, time.monotonic() - began_s)
    except TrainerError:
        shutil.rmtree(trial.dev.path, ignore_errors=True)  # nothing was started, so there is nothing to look at
        raise
    finally:
        dev_weights.remove(trial.dev)


def _limit(limit_s: float | None) -> float:
    if limit_s is None:
        return dev_bounds.LIMIT_S
    if not 0 < limit_s <= dev_bounds.MOST_S:
        raise UsageError(
            f"a dev run takes at most {dev_bounds.MOST_S:.0f} s, and more than 0: --limit {limit_s:g}",
            hint="what needs longer is a training: prepare, approve and run it",
        )
    return limit_s


def _tried(trial: _Trial, watch: Watcher | None, talk: Talk, progress: Progress | None) -> _Found:
    try:
        examined = examine(trial.source, trial.environ, progress)
    except InputChanged as error:
        return _Found([dev_checks.refused("inputs", error)], {})
    except ValidationError as error:
        return _Found([dev_checks.refused("configuration", error)], {})
    plan = examined.plan
    checks = dev_checks.of_plan(plan, examined.found.summary)
    backend = backends.get(plan.framework, plan.stage)
    try:
        made = _made(trial, plan, backend)
        bounds = _bounds_text(made.plan, trial.limit_s)
        talk(f"dev run of {plan.version_id}, which nobody has approved, in {made.run.path}: {bounds}")
        for flag in backend.red_flags(made.plan):
            talk(f"red flag: {flag.message}")
        ended, took_s = _run(trial, made, backend, watch)
    except (NotShown, HostUnfit) as error:
        return _Found([*checks, dev_checks.refused("training", error, dev_checks.NOT_SHOWN)], {}, examined)
    except ValidationError as error:
        return _Found([*checks, dev_checks.refused("training", error)], {}, examined)
    if ended["status"] == "cancelled":
        return _Found(checks, {}, examined, made, cancelled=True)
    run_checks = dev_checks.of_run(made.run, ended, made.plan, took_s, makes_model=backend.makes_model)
    return _Found([*checks, *run_checks], made.not_shown, examined, made)


def _made(trial: _Trial, plan: Plan, backend: Backend) -> dev_plan.Made:
    """The bounded plan in its folder, once it is known that this host can run it. Raises NotShown, HostUnfit."""
    why = sandbox.reason(trial.environ)
    if why is not None:
        raise NotShown(
            f"this is a sandbox ({why}), where no training is started",
            code="SANDBOXED",
            hint="make the same call outside of the sandbox (agents ask their user for that)",
        )
    launch = plan.loopai["launch"]
    if cluster.on_cluster(launch) or int(launch["nodes"]) > 1:
        raise NotShown(
            "this plan trains on other hosts or on several, and a dev run would be of this host alone",
            code="OTHER_HOSTS",
            hint="prepare the same with one node and the executor local, and try that",
        )
    check_host(plan, backend)
    environment = environments.resolve(plan.loopai["backend"]["environment"], plan.framework, trial.environ)
    cut: DevPlan = dev_plan.bounded(backend, plan, backend.probe(environment))
    return _written(trial, plan, backend, cut, environment)


def _written(trial: _Trial, plan: Plan, backend: Backend, cut: DevPlan, environment: Environment) -> dev_plan.Made:
    try:
        atomic.make_private_dir(trial.dev.path)
        return dev_plan.make(plan, trial.source, trial.dev, backend, cut, environment, trial.limit_s)
    except OSError as error:
        raise NotShown(
            f"{error.filename or trial.dev.path} cannot be written: {error.strerror}",
            code="DISK_FULL" if atomic.means_full(error) else "NOT_WRITABLE",
            hint="make room there, or see to its permissions",
        ) from None


def _run(
    trial: _Trial, made: dev_plan.Made, backend: Backend, watch: Watcher | None
) -> tuple[Mapping[str, Any], float]:
    """(status data of its end, seconds). Whatever ends the waiting ends the dev run, too."""
    data = made.plan.text.encode("utf-8")

    def begin() -> StartRequest:
        devices = lock_devices(made.run, made.plan, check_host(made.plan, backend), trial.environ)
        return StartRequest(data, made.plan.sha256, made.plan.task_id, "local", devices)

    began_s = time.monotonic()
    attached = start_or_attach(made.run, made.plan.sha256, begin)
    try:
        seen = waiting.until_end(made.run, watch, child_pid=attached.worker_pid)
    except BaseException:
        request_cancel(made.run, f"{user_name()} (pid {os.getpid()}), who stopped waiting")
        raise
    assert seen is not None  # it has no deadline: the worker keeps to the limit
    return describe(made.run, seen), time.monotonic() - began_s


def _answer(trial: _Trial, found: _Found, took_s: float) -> Answer:
    outcome = dev_checks.verdict(found.checks)
    data = _data(trial, found, outcome, took_s)
    _record(trial, data)
    if found.cancelled:
        return Answer(
            "dev", data, status="cancelled", error=Cancelled("the dev run was cancelled", hint="call it again")
        )
    status = {dev_checks.PASSED: "passed", dev_checks.FAILED: "failed"}.get(outcome, "not_shown")
    error = None if outcome == dev_checks.PASSED else _error(outcome, found)
    message = f"dev run of {trial.source.version_id}: {status.replace('_', ' ')}"
    return Answer("dev", data, status=status, message=message, error=error)


def _data(trial: _Trial, found: _Found, outcome: str, took_s: float) -> dict[str, Any]:
    plan = found.examined.plan if found.examined else None
    following = "" if plan is None or outcome == dev_checks.FAILED else _next(plan, trial)
    return {
        "verdict": outcome,
        "trainer_version_id": trial.source.version_id,
        "config_path": trial.source.config,
        "config_sha256": plan.sha256 if plan else None,
        "dev_dir": trial.dev.path if os.path.isdir(trial.dev.path) else None,
        "bounds": _bounds(found.made.plan) if found.made else None,
        "red_flags": _flags(found.made.plan) if found.made else [],
        "checks": [check.as_json() for check in found.checks],
        "not_shown": {**found.not_shown, "the rest of the training": dev_checks.BEYOND} if found.made else {},
        "duration_s": round(took_s, 1),
        "next_command": following,
    }


def _bounds(plan: Plan) -> dict[str, Any]:
    block, inputs = plan.loopai[dev_bounds.BLOCK], plan.loopai["inputs"]
    rows = {split: inputs[split]["rows"] for split in dev_plan.SPLITS if inputs.get(split)}
    return {"steps": block["steps"], "rows": rows, "limit_s": block["limit_s"]}


def _flags(plan: Plan) -> list[str]:
    """What of the plan that was tried an approver would have to stop at: code of the user's own, endpoints."""
    return [flag.message for flag in backends.get(plan.framework, plan.stage).red_flags(plan)]


def _next(plan: Plan, trial: _Trial) -> str:
    return approval_policy.next_command(plan, trial.source, trial.environ)


def _record(trial: _Trial, data: dict[str, Any]) -> None:
    """Keep the answer with the dev run; also one that found nothing to start."""
    try:
        atomic.make_private_dir(trial.dev.path)
        data["dev_dir"] = trial.dev.path
        atomic.write_json(trial.dev.dev_report, {"schema_version": 1, "mode": "dev", "at": time.time(), **data})
    except OSError:
        data["dev_dir"] = None  # a sandbox, or a full disk: the answer is all that there is


def _error(outcome: str, found: _Found) -> TrainerError:
    """The first check that did not pass, in the common error shape; its log is the next thing to look at."""
    first = next(check for check in found.checks if check.outcome == outcome)
    kind = DevFailed if outcome == dev_checks.FAILED else NotShown
    return kind(
        f"{first.name}: {first.detail}",
        hint=first.hint or "look at what it printed",
        next_command=commands.logs(found.made.run.path) if found.made else "",
        details={"check": first.as_json()},
    )


def _bounds_text(plan: Plan, limit_s: float) -> str:
    block = plan.loopai[dev_bounds.BLOCK]
    return f"{block['steps']} steps, at most {block['rows']} rows and {limit_s:.0f} s"
