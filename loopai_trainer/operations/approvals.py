"""The approval of a run on disk: `approval.json` in the run, `approvals.jsonl` in the task. Used once, atomically."""

from __future__ import annotations

import json
import os
import time

from loopai_trainer.errors import ApprovalError, PlanChanged
from loopai_trainer.files import atomic
from loopai_trainer.host import processes
from loopai_trainer.rules import approval

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.records import Plan

AGENT_VARIABLES = ("CLAUDECODE", "CODEX_SANDBOX", "CODEX_THREAD_ID", "CURSOR_AGENT", "GEMINI_CLI", "AI_AGENT", "AGENT")
"""Coding agents set these; seen ones stand in the record. Advisory: a caller can unset them."""


def check(run: RunDir, plan: Plan, approved_via: str, environ: Mapping[str, str]) -> None:
    """Refuse if the plan cannot be approved in this way now. Raises ApprovalError, PlanChanged."""
    _record(run, plan, approved_via, environ)


def consume(run: RunDir, plan: Plan, approved_via: str, environ: Mapping[str, str]) -> None:
    """Bind the approval to this version, before anything starts. The caller holds run.lock."""
    record = _record(run, plan, approved_via, environ)
    used = approval.consumed(record, at=time.time(), by=processes.own_identity())
    atomic.write_json(run.approval, used)
    line = json.dumps(used, ensure_ascii=False, sort_keys=True).encode("utf-8")
    atomic.append_line(run.task.approvals, line, sync=True)


def _record(run: RunDir, plan: Plan, approved_via: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """The record that allows this start: the hash that the caller passes is the approval (approved_via `hash`)."""
    _refuse_other(run, plan)
    prepared_at, counted_from = _times(run)
    record = approval.new_record(
        task_id=plan.task_id,
        version_id=plan.version_id,
        round_number=_rounds(run) + 1,
        config_sha256=plan.sha256,
        prepared_at=prepared_at,
        approved_at=time.time(),
        counted_from=counted_from,
        approver=_approver(environ),
        approved_via=approved_via,
    )
    approval.check(record, version_id=plan.version_id, config_sha256=plan.sha256, now=time.time())
    return record


def _refuse_other(run: RunDir, plan: Plan) -> None:
    """A used approval is for one hash: the same call may follow a death before exec, another hash may not."""
    if os.path.islink(run.approval):
        raise ApprovalError(
            f"{run.approval} is a symbolic link", code="APPROVAL_INVALID", hint="remove it, and approve again"
        )
    try:
        record = atomic.read_json(run.approval)
    except ValueError:
        raise ApprovalError(
            f"{run.approval} is not readable", code="APPROVAL_INVALID", hint="prepare again, under a new version"
        ) from None
    if record and record.get("consumed_at") and record.get("config_sha256") != plan.sha256:
        raise PlanChanged(
            "this version's approval was used for another YAML\n"
            f"  expected: {record.get('config_sha256')}\n"
            f"  got:      {plan.sha256}",
            hint="prepare a new version for the changed YAML",
            details={"expected": record.get("config_sha256"), "got": plan.sha256},
        )


def _times(run: RunDir) -> tuple[float, float]:
    """(prepared at, last prepare or inspect), seconds since the epoch. Raises ApprovalError if they are not known."""
    try:
        noted = atomic.read_json(run.plan) or {}
    except (OSError, ValueError):
        noted = {}
    prepared, inspected = _moment(noted.get("prepared_at")), _moment(noted.get("inspected_at"))
    if prepared is None:
        # The file's own times are no substitute: to touch it would move the end of the approval's life.
        raise ApprovalError(
            f"{run.plan} is damaged: it does not say when the plan was prepared",
            code="APPROVAL_INVALID",
            hint="prepare again",
        )
    return prepared, max(prepared, inspected or 0.0)


def _moment(value: object) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    return value if good else None  # type: ignore[return-value]  # mypy does not follow the flag


def _rounds(run: RunDir) -> int:
    """How many versions of the task were approved before this one."""
    try:
        with open(run.task.approvals, encoding="utf-8") as file:
            versions = {json.loads(line).get("version_id") for line in file if line.strip()}
    except (OSError, ValueError, AttributeError):
        return 0
    return len(versions - {run.version_id})


def _approver(environ: Mapping[str, str]) -> dict[str, Any]:
    return {
        "user": environ.get("USER") or environ.get("LOGNAME") or "",
        "uid": os.getuid(),
        "host": os.uname().nodename,
        "tty": _terminal(),
        "agent_variables": sorted(name for name in environ if name.startswith(AGENT_VARIABLES)),
    }


def _terminal() -> str | None:
    try:
        return os.ttyname(0)
    except OSError:
        return None
