"""Looking at a run: locks, records and processes gathered into the facts of a verdict. Reads only.

Light on purpose (json, os and fcntl): `status --json` imports it.
"""

import os

from loopai_trainer.files import atomic, state_file
from loopai_trainer.host import locks, processes
from loopai_trainer.rules.run_state import TERMINAL, Facts, Verdict, verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.host.processes import Identity


class Observation:
    """A run as it is now: the verdict, what run_state.json holds ({} if nothing usable), and launch/exit.json."""

    __slots__ = ("exit_record", "state", "verdict")

    def __init__(
        self, found: Verdict, state: "dict[str, Any] | None", exit_record: "dict[str, Any] | None" = None
    ) -> None:
        self.verdict = found
        self.state: dict[str, Any] = state or {}
        self.exit_record = exit_record


def observe(run: "RunDir", *, holding_run_lock: bool = False) -> Observation:
    """Look at a run, in the order of facts of interface section 7; what cannot matter any more is not looked at.

    `holding_run_lock`: the caller itself holds run.lock, so it says nothing about a worker.
    """
    run_lock_held = not holding_run_lock and locks.held(run.run_lock)
    # Read after the lock was looked at: a worker writes its last state before it lets the lock go.
    read = state_file.read(run)
    recorded = (read.state or {}).get("status")
    started = os.path.exists(run.launch_started)
    exit_record = None
    facts = Facts(
        state=read.state,
        damaged=read.damaged,
        run_lock_held=run_lock_held,
        started=started,
        approved=os.path.exists(run.approval),
    )
    if not run_lock_held and recorded not in TERMINAL:
        facts.training_lock_held = locks.held(run.training_lock)
        facts.boot_id = processes.boot_id()
        if started and not facts.training_lock_held:
            facts.training_alive = bool(living(run, read.state))
            facts.exit_record = exit_record = read_exit(run)
    return Observation(verdict(facts), read.state, exit_record)


def living(run: "RunDir", state: "Mapping[str, Any] | None") -> "list[Identity]":
    """Processes of this run's training that live: recorded ones whose identity fits, and those that carry its mark.

    The keeper is not among them. Nothing is found in another pid namespace: there the locks alone speak.
    """
    started = read_started(run)
    recorded = [started.get("training"), (state or {}).get("training"), *_members(state)]
    found = {one["pid"]: one for one in recorded if one and processes.alive(one)}
    found |= {one["pid"]: one for one in processes.marked(run.version_id, run.path)}
    found |= {one["pid"]: one for one in processes.descendants(started.get("keeper"))}
    return [found[pid] for pid in sorted(found)]


def read_started(run: "RunDir") -> "dict[str, Any]":
    """launch/started: the identities of `keeper` and (once it was exec'd) `training`; {} if absent or torn."""
    return _read(run.launch_started) or {}


def read_exit(run: "RunDir") -> "dict[str, Any] | None":
    """launch/exit.json: `returncode`, `signal`, `exec_error`, `duration_s`, `at`; None if absent or torn."""
    return _read(run.launch_exit)


def read_result(run: "RunDir") -> "dict[str, Any] | None":
    """worker_result.json; None if absent or torn."""
    return _read(run.result)


def members_text(tree: "list[Identity]") -> "dict[str, Any]":
    """The recorded form of many identities of one host: boot id and namespace once, then [pid, start time] pairs."""
    return {
        "boot_id": processes.boot_id(),
        "pid_ns": processes.pid_namespace(),
        "members": [[one["pid"], one["start_time"]] for one in tree],
    }


def _members(state: "Mapping[str, Any] | None") -> "list[Identity]":
    tree = (state or {}).get("tree")
    if not isinstance(tree, dict):
        return []
    return [
        {"pid": pid, "start_time": start_time, "boot_id": tree.get("boot_id", ""), "pid_ns": tree.get("pid_ns", 0)}
        for pid, start_time in tree.get("members", ())
    ]


def _read(path: str) -> "dict[str, Any] | None":
    try:
        return atomic.read_json(path)
    except ValueError:
        return None
