"""approve: the operator reads a prepared YAML at their own terminal and types the beginning of its hash."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from loopai_trainer.errors import ApprovalError, PlanChanged
from loopai_trainer.files import approval_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import ancestry, clocks, terminal
from loopai_trainer.operations import approvals, commands, rounds, run_hold, targets
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.inspect import Examined, Progress, examine, note_inspection
from loopai_trainer.operations.prepared_config import read_config
from loopai_trainer.operations.review import approval_data
from loopai_trainer.rules import approval, coding_agents, messages
from loopai_trainer.rules import plan as plans

Show = Callable[[TextIO, Mapping[str, Any]], None]
"""Puts the approval data (as of `inspect --json`) before the operator, on their terminal."""

TYPED_CHARACTERS = 8
MAX_NOTE = 2000


def approve(
    version: str,
    scope: targets.Scope,
    show: Show,
    *,
    note: str = "",
    progress: Progress | None = None,
    language: messages.Language = "en",
) -> Answer:
    """Check everything again, show it, and record what the operator types. Raises ApprovalError for anything else."""
    run = targets.open_run(targets.find(version, scope).path)
    _refuse_agent(run, scope.environ)
    why = f"{run.version_id} is approved by a person at a terminal"
    with terminal.own(why, commands.approve(run.path)) as tty:
        with run_hold.not_started(run, "be approved"):
            examined = examine(run, scope.environ, progress)
            approvals.refuse_used(approval_file.read(run), examined.plan)
        # Nothing is held while a person reads: what may have changed meanwhile is looked at once more.
        _ask(tty, run, examined, show, messages.speaker(language))
        with run_hold.not_started(run, "be approved"):
            approvals.refuse_used(approval_file.read(run), examined.plan)
            _refuse_changed(run, examined.plan.sha256)
            note_inspection(run, examined)
            record = _record(run, examined, scope.environ, tty.name, note)
            approval_file.write(run, record)
            approval_file.append(run.task, record)
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(record["expires_at"]))
    following = commands.run_prepared(run.config, examined.plan.sha256)
    data = {"approval": record, "config_path": run.config, "next_command": following}
    message = f"approved {run.version_id} (round {record['round']}); it may be started once, until {until}"
    return Answer("approve", data, status="approved", message=message)


def _ask(tty: terminal.Terminal, run: RunDir, examined: Examined, show: Show, say: messages.Say) -> None:
    """Show everything and ask for the beginning of the hash. Raises ApprovalError NOT_APPROVED for anything else."""
    plan, found = examined.plan, examined.found
    following = commands.run_prepared(run.config, plan.sha256)
    data = approval_data(plan, run, found.summary, found.warnings, diff=examined.since, next_command=following)
    show(tty.stream, data)
    typed = tty.ask(say("approval.ask", characters=TYPED_CHARACTERS))
    if typed != plan.sha256[:TYPED_CHARACTERS]:
        raise _refused(run, typed)


def _refuse_agent(run: RunDir, environ: Mapping[str, str]) -> None:
    signs = coding_agents.signs(environ, ancestry.command_lines())
    if signs:
        raise ApprovalError(
            f"this looks like a coding agent's shell: {'; '.join(signs)}. An approval is a person's. "
            "(The check is advisory: it keeps an agent from approving by mistake, not one that hides itself.)",
            code="AGENT_DETECTED",
            hint="the operator calls it in a terminal of their own, outside the agent",
            next_command=commands.approve(run.path),
        )


def _refused(run: RunDir, typed: str | None) -> ApprovalError:
    said = "nothing was typed" if not typed else "what was typed is not the beginning of the hash"
    return ApprovalError(
        f"not approved: {said}",
        code="NOT_APPROVED",
        hint="call it again to approve; edit the YAML, or prepare again, to change the plan",
        next_command=commands.approve(run.path),
    )


def _refuse_changed(run: RunDir, shown_sha256: str) -> None:
    got = plans.digest(read_config(run))
    if got != shown_sha256:
        raise PlanChanged(
            f"{run.config} was changed while it was read\n  expected: {shown_sha256}\n  got:      {got}",
            hint="call it again, and read it as it is now",
            next_command=commands.approve(run.path),
            details={"expected": shown_sha256, "got": got},
        )


def _record(
    run: RunDir, examined: Examined, environ: Mapping[str, str], terminal_name: str, note: str
) -> dict[str, Any]:
    clock = clocks.read()
    shown = rounds.noted(examined.since)
    return approval.new_record(
        task_id=examined.plan.task_id,
        version_id=run.version_id,
        run_dir=run.path,
        round_number=rounds.number_of(run),
        config_sha256=examined.plan.sha256,
        prepared_at=approvals.prepared_at(run),
        approved_at=clock.now,
        counted_from=clock.now,
        boot=clock.boot(),
        approver=approvals.approver(environ, terminal_name),
        approved_via=approvals.TERMINAL,
        note=note[:MAX_NOTE],
        previous_round=shown["previous_round"],
        diff_sha256=shown["diff_sha256"],
    )
