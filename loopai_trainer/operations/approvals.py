"""The approval of a run: which record allows its start, and the one use of it. Light: it runs before training."""

from __future__ import annotations

import os
import pwd

from loopai_trainer.errors import ApprovalError, PlanChanged
from loopai_trainer.files import approval_file, atomic
from loopai_trainer.host import clocks, processes
from loopai_trainer.operations import approval_policy, commands, rounds
from loopai_trainer.rules import approval, coding_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.records import Plan

TERMINAL = "terminal"


def check(run: RunDir, plan: Plan, approved_via: str, environ: Mapping[str, str]) -> None:
    """Refuse if the plan cannot be approved in this way now. Raises ApprovalError, PlanChanged."""
    _record(run, plan, approved_via, environ)


def consume(run: RunDir, plan: Plan, approved_via: str, environ: Mapping[str, str]) -> None:
    """Bind the approval to this version, before anything starts. The caller holds run.lock."""
    record = _record(run, plan, approved_via, environ)
    used = approval.consumed(record, at=clocks.read().now, by=processes.own_identity())
    approval_file.write(run, used)
    approval_file.append(run.task, used)


def standing(run: RunDir, plan: Plan) -> dict[str, Any] | None:
    """The record of an approval at a terminal that allows this plan now; None if there is none. Raises nothing."""
    try:
        record = approval_file.read(run)
    except ApprovalError:
        return None
    if record is None or record["approved_via"] != TERMINAL:
        return None
    clock = clocks.read()
    good = approval.stands(record, version_id=plan.version_id, config_sha256=plan.sha256, clock=clock)
    return record if good else None


def refuse_used(record: Mapping[str, Any] | None, plan: Plan) -> None:
    """A used approval is for one hash: the same call may follow a death before exec, another hash may not."""
    if record and record.get("consumed_at") and record["config_sha256"] != plan.sha256:
        raise PlanChanged(
            "this version's approval was used for another YAML\n"
            f"  expected: {record['config_sha256']}\n"
            f"  got:      {plan.sha256}",
            hint="prepare a new version for the changed YAML",
            details={"expected": record["config_sha256"], "got": plan.sha256},
        )


def moment() -> dict[str, Any]:
    """What plan.json keeps of the moment of a good prepare or inspect, besides the wall clock's time."""
    return {"boot": clocks.read().boot(), "seen_expired_at": None}


def approver(environ: Mapping[str, str], terminal: str | None) -> dict[str, Any]:
    """Who approves. `agent_variables`: those of coding agents that were set; a caller can unset them."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = environ.get("USER") or environ.get("LOGNAME") or ""
    return {
        "user": user,
        "uid": os.getuid(),
        "host": os.uname().nodename,
        "tty": terminal,
        "agent_variables": coding_agents.variables(environ),
    }


def prepared_at(run: RunDir) -> float:
    """When the plan was prepared, seconds since the epoch. Raises ApprovalError if plan.json does not say."""
    found = _noted(run).get("prepared_at")
    if not approval.is_time(found):
        # The file's own times are no substitute: to touch it would move the end of the approval's life.
        raise ApprovalError(
            f"{run.plan} is damaged: it does not say when the plan was prepared",
            code="APPROVAL_INVALID",
            hint="prepare again",
        )
    return float(found)  # type: ignore[arg-type]  # is_time says that it is a number


def _record(run: RunDir, plan: Plan, approved_via: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """The record that allows this start, unless training was exec'd under it before. Raises ApprovalError."""
    record = _allowing(run, plan, approved_via, environ)
    if approval_file.is_used_up(run.task, record):
        # The run's own files are gone or an older copy of its record lies there; the task's history remembers.
        raise ApprovalError(
            f"the approval of {run.version_id} is used up: training was started under it before, though its records "
            f"are gone from {run.path}",
            code="APPROVAL_USED",
            hint="prepare a new version and have it approved",
        )
    return record


def _allowing(run: RunDir, plan: Plan, approved_via: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """One given at a terminal, else the hash that the caller passes."""
    approval_file.refuse_link(run.task.approvals)
    given = approval_file.read(run)
    refuse_used(given, plan)
    required = approval_policy.required(plan, run, environ)
    try:
        if given is not None and given["approved_via"] == TERMINAL:
            return _checked(run, plan, given)
        if required.level == TERMINAL:
            raise ApprovalError("nobody has approved it at a terminal yet", hint="have the operator approve it")
    except ApprovalError as error:
        if required.level == TERMINAL:
            raise _missing(run, error, required.origin) from None
    return _by_hash(run, plan, approved_via, environ)


def _checked(run: RunDir, plan: Plan, given: dict[str, Any]) -> dict[str, Any]:
    if given["config_sha256"] != plan.sha256:
        raise ApprovalError(
            "the approval at a terminal was for another YAML, so it is void\n"
            f"  approved: {given['config_sha256']}\n  got:      {plan.sha256}",
            hint="have the operator approve it anew",
        )
    clock = clocks.read()
    try:
        approval.check(given, version_id=plan.version_id, config_sha256=plan.sha256, clock=clock)
    except ApprovalError as error:
        if error.code == "APPROVAL_EXPIRED" and not given.get("seen_expired_at"):
            _note(lambda: approval_file.write(run, approval.seen_expired(given, at=clock.now)))
        raise
    return given


def _missing(run: RunDir, why: ApprovalError, origin: str) -> ApprovalError:
    # A code of its own (expired, damaged) stays; the way on is the same for all.
    return ApprovalError(
        f"{why.message}\nan approval at a terminal is demanded by {origin}",
        code=why.code,
        hint="have the operator approve it in a terminal of their own",
        next_command=commands.approve(run.path),
    )


def _by_hash(run: RunDir, plan: Plan, approved_via: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """The caller passes the hash: that is the approval. Its life counts from the last prepare or inspect."""
    noted, clock = _noted(run), clocks.read()
    prepared = prepared_at(run)
    inspected = float(noted["inspected_at"]) if approval.is_time(noted.get("inspected_at")) else 0.0
    boot, previous, diff_sha256 = noted.get("boot"), noted.get("previous_round"), noted.get("diff_sha256")
    record = approval.new_record(
        task_id=plan.task_id,
        version_id=plan.version_id,
        run_dir=run.path,
        round_number=rounds.number_of(run),
        config_sha256=plan.sha256,
        prepared_at=prepared,
        approved_at=clock.now,
        counted_from=max(prepared, inspected),
        boot=boot if isinstance(boot, dict) else None,
        approver=approver(environ, _own_terminal()),
        approved_via=approved_via,
        previous_round=previous if isinstance(previous, dict) else None,
        diff_sha256=diff_sha256 if isinstance(diff_sha256, str) else None,
    )
    if noted.get("seen_expired_at"):
        raise approval.expired(0.0)
    try:
        approval.check(record, version_id=plan.version_id, config_sha256=plan.sha256, clock=clock)
    except ApprovalError as error:
        if error.code == "APPROVAL_EXPIRED":
            _note(lambda: atomic.write_json(run.plan, {**noted, "seen_expired_at": clock.now}))
        raise
    return record


def _note(write: Callable[[], None]) -> None:
    """Write down that an approval was seen expired, so that a clock set back afterwards does not revive it."""
    try:
        write()
    except OSError:
        pass  # it is refused all the same


def _noted(run: RunDir) -> dict[str, Any]:
    try:
        return atomic.read_json(run.plan) or {}
    except (OSError, ValueError):
        return {}


def _own_terminal() -> str | None:
    try:
        return os.ttyname(0)
    except OSError:
        return None
