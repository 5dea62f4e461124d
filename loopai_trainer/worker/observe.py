"""Looking at a run: locks, records and processes gathered into the facts of a verdict. Reads only.

Light on purpose (json, os and fcntl): `status --json` imports it.
"""

import os

from loopai_trainer.files import atomic, result_file, state_file
from loopai_trainer.host import locks, processes
from loopai_trainer.rules.cluster import HERE
from loopai_trainer.rules.run_state import (
    ALIVE,
    GONE,
    LIVE,
    TERMINAL,
    UNKNOWN,
    Facts,
    Verdict,
    believed,
    verdict,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.host.processes import Identity


class Observation:
    """A run as it is now: the verdict, its state ({} if nothing usable), launch/exit.json and worker_result.json.

    `damaged`: why run_state.json is not believed as it stands, else ''; `state` is then what could be made out.
    """

    __slots__ = ("damaged", "exit_record", "result", "state", "verdict")

    def __init__(
        self,
        found: Verdict,
        state: "dict[str, Any] | None",
        exit_record: "dict[str, Any] | None" = None,
        result: "dict[str, Any] | None" = None,
        damaged: str = "",
    ) -> None:
        self.verdict = found
        self.state: dict[str, Any] = state or {}
        self.exit_record = exit_record
        self.result = result
        self.damaged = damaged


def observe(run: "RunDir", *, holding_run_lock: bool = False, limit_s: float | None = None) -> Observation:
    """Look at a run, in the order of facts of interface section 7; what cannot matter any more is not looked at.

    `holding_run_lock`: the caller itself holds run.lock, so it says nothing about a worker. `limit_s`: what its time
    limit leaves, where a cluster has to be asked.
    """
    run_lock_held = not holding_run_lock and locks.held(run.run_lock)
    # Read after the lock was looked at: a worker writes its last state before it lets the lock go.
    read = state_file.read(run)
    started = os.path.exists(run.launch_started)
    result = None
    if not run_lock_held or (read.state or {}).get("status") in TERMINAL:
        result = result_file.read(run, (read.state or {}).get("config_sha256"))
    state, doubt = believed(read.state, result, started=started, run_lock_held=run_lock_held)
    facts = Facts(
        state=state,
        damaged=read.damaged if state is None else "",
        run_lock_held=run_lock_held,
        started=started,
        approved=not run_lock_held and not started and os.path.lexists(run.approval) and _approved(run),
    )
    if facts.recorded not in TERMINAL:
        _look_further(run, facts, limit_s)
    return Observation(verdict(facts), state, facts.exit_record, result, read.damaged or doubt)  # type: ignore[arg-type]


def _look_further(run: "RunDir", facts: Facts, limit_s: float | None) -> None:
    """The facts that matter for a run without a recorded end."""
    if facts.run_lock_held:
        facts.worker_stopped = processes.stopped((facts.state or {}).get("worker"), traced=False)
        if facts.started and facts.recorded in LIVE:
            facts.training_gone = main_gone(run)
            facts.disk_full = facts.training_gone and atomic.is_full(run.path)
        return
    facts.training_lock_held = locks.held(run.training_lock)
    facts.boot_id = processes.boot_id()
    _ask_cluster(facts, limit_s)
    if facts.started and not facts.training_lock_held:
        facts.training_alive = bool(living(run, facts.state))
        facts.exit_record = read_exit(run)
        facts.disk_full = atomic.is_full(run.path)


def _ask_cluster(facts: Facts, limit_s: float | None) -> None:
    """What the job server says of a worker that was submitted to a cluster; nothing is loaded for any other run."""
    recorded = (facts.state or {}).get("executor") or {}
    if facts.recorded not in LIVE or recorded.get("name") in (None, *HERE):
        return
    from loopai_trainer import executors
    from loopai_trainer.errors import ConfigError

    try:
        executor = executors.submitting(recorded["name"])
    except ConfigError:
        return  # it is no longer installed: locks and processes alone speak
    if executor is None:
        return
    handle = str(recorded.get("handle"))
    facts.job = _ANSWERS[executor.alive(handle, limit_s)]
    facts.job_place = str(recorded.get("host") or "")
    facts.locks_reach = recorded.get("locks_reach") is True
    worker = (facts.state or {}).get("worker")
    facts.seen_here = bool(worker) and worker.get("boot_id") == facts.boot_id  # type: ignore[union-attr] # see bool()
    if not facts.seen_here:
        facts.boot_id = ""  # that of another host says nothing of a restart
    if facts.job == UNKNOWN or (facts.job == GONE and not facts.started):
        facts.job_said = executor.told(handle)


_ANSWERS = {True: ALIVE, False: GONE, None: UNKNOWN}


def _approved(run: "RunDir") -> bool:
    """Whether an approval stands: given at a terminal for the YAML as it is now, or used by a start that died."""
    from loopai_trainer.errors import ApprovalError
    from loopai_trainer.files import approval_file
    from loopai_trainer.host import clocks
    from loopai_trainer.rules import approval, digest

    try:
        record = approval_file.read(run)
        if record is None or record.get("consumed_at"):
            return record is not None
        with open(run.config, "rb") as file:
            present = digest.sha256(file.read())
    except (ApprovalError, OSError):
        return False
    return approval.stands(record, version_id=run.version_id, config_sha256=present, clock=clocks.read())


def main_gone(run: "RunDir") -> bool:
    """Whether training's main process was exec'd, and is seen to be gone."""
    main = read_started(run).get("training")
    if main is None or main.get("boot_id") != processes.boot_id():  # on another host, whose processes nobody sees here
        return False
    return processes.visible(main) and not processes.alive(main)


def living(run: "RunDir", state: "Mapping[str, Any] | None") -> "list[Identity]":
    """Processes of this run's training that live: recorded ones whose identity fits, and those that carry its mark.

    The keeper is not among them. Nothing is found in another pid namespace: there the locks alone speak.
    """
    started = read_started(run)
    recorded = [started.get("training"), (state or {}).get("training"), *members(state)]
    found = {one["pid"]: one for one in recorded if one and processes.alive(one)}
    found |= {one["pid"]: one for one in processes.marked(run.version_id, run.path)}
    found |= {one["pid"]: one for one in processes.descendants(started.get("keeper"))}
    return [found[pid] for pid in sorted(found)]


def read_started(run: "RunDir") -> "dict[str, Any]":
    """launch/started: the identities of `keeper` and (once it was exec'd) `training`; {} if absent or torn."""
    return {name: one for name, one in (_read(run.launch_started) or {}).items() if isinstance(one, dict)}


def read_exit(run: "RunDir") -> "dict[str, Any] | None":
    """launch/exit.json: `returncode`, `signal`, `exec_error`, `duration_s`, `at`; None if absent or torn."""
    return _read(run.launch_exit)


def read_result(run: "RunDir") -> "dict[str, Any] | None":
    """worker_result.json; None if it is absent, torn, or not a whole result of this version."""
    return result_file.read(run)


def members_text(tree: "list[Identity]") -> "dict[str, Any]":
    """The recorded form of many identities of one host: boot id and namespace once, then [pid, start time] pairs."""
    return {
        "boot_id": processes.boot_id(),
        "pid_ns": processes.pid_namespace(),
        "members": [[one["pid"], one["start_time"]] for one in tree],
    }


def members(state: "Mapping[str, Any] | None") -> "list[Identity]":
    """The recorded processes of a training, whether they live or not."""
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
    except (ValueError, RecursionError):
        return None
