"""The state machine of a run and the verdict on it: what locks, files and processes together mean.

Pure, and light on purpose (no imports but math): `status --json` pays for it. Every reader computes the verdict;
only the worker, run-prepared, recover and cancel write one down (interface section 7).
"""

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from loopai_trainer.records import Artefact

LIVE = ("queued", "running", "finalizing")
TERMINAL = ("completed", "failed", "cancelled")
STATUSES = ("prepared", "approved", *LIVE, *TERMINAL, "orphaned", "unknown")

ANSWER = "answer"
ATTACH = "attach"
START = "start"
FINISH = "finish"
RETRY = "retry"
ORPHAN = "orphan"

ALIVE, GONE, UNKNOWN = "alive", "gone", "unknown"
"""What the job server of a cluster says of a worker; unknown: it cannot be asked."""

_SAID_CHARS = 600
_ASK = "is it reachable, Ray installed here, its token set?"

_MOVES = {
    "": ("queued", "running"),
    "queued": ("running", "finalizing", "failed", "cancelled"),
    "running": ("running", "finalizing", "failed", "cancelled"),
    "finalizing": ("finalizing", *TERMINAL),
    # A worker that failed before training was exec'd may be followed by the same call (interface section 6).
    "failed": ("queued", "running"),
    "completed": (),
    "cancelled": (),
}


def may_move(status: str, to: str) -> bool:
    """Whether a run's recorded status may change so; `status` is '' before the first record."""
    return to in _MOVES.get(status, ())


class Facts:
    """What a verdict is made from.

    `state`: run_state.json, None if absent; `damaged`: why it could not be read, else ''. `training_alive`: a recorded
    or marked process of this run lives; None: it cannot be seen from here (other pid namespace). `started`: training
    was exec'd or was just about to be. `exit_record`: launch/exit.json. `boot_id`: of this host, now. `training_gone`:
    its main process was seen to be gone. `disk_full`: no record can be written. `worker_stopped`: by SIGSTOP, while it
    holds run.lock.

    Of a worker on a cluster: `job` (ALIVE, GONE or UNKNOWN; empty for any other), `job_said` (by the cluster, of its
    end), `job_place` (the host it ran on), `seen_here` (on this very host), `locks_reach` (a lock held there is seen).
    """

    __slots__ = (
        "approved",
        "boot_id",
        "damaged",
        "disk_full",
        "exit_record",
        "job",
        "job_place",
        "job_said",
        "locks_reach",
        "run_lock_held",
        "seen_here",
        "started",
        "state",
        "training_alive",
        "training_gone",
        "training_lock_held",
        "worker_stopped",
    )

    def __init__(
        self,
        *,
        state: "Mapping[str, Any] | None" = None,
        damaged: str = "",
        run_lock_held: bool = False,
        training_lock_held: bool = False,
        training_alive: bool | None = False,
        started: bool = False,
        exit_record: "Mapping[str, Any] | None" = None,
        approved: bool = False,
        boot_id: str = "",
        training_gone: bool = False,
        disk_full: bool = False,
        worker_stopped: bool = False,
        job: str = "",
        job_said: str = "",
        job_place: str = "",
        seen_here: bool = False,
        locks_reach: bool = False,
    ) -> None:
        self.state = state
        self.damaged = damaged
        self.run_lock_held = run_lock_held
        self.training_lock_held = training_lock_held
        self.training_alive = training_alive
        self.started = started
        self.exit_record = exit_record
        self.approved = approved
        self.boot_id = boot_id
        self.training_gone = training_gone
        self.disk_full = disk_full
        self.worker_stopped = worker_stopped
        self.job = job
        self.job_said = job_said
        self.job_place = job_place
        self.seen_here = seen_here
        self.locks_reach = locks_reach

    @property
    def recorded(self) -> str:
        """The status that run_state.json holds; '' if there is none."""
        return str(self.state.get("status", "")) if self.state else ""


class Verdict:
    """What a run is (`status`), why (`code` and `message`, empty when the record says it all), and what a call may do.

    `action`: answer (the stored result), attach, start, finish (take up the finalising), retry (look again in a
    moment), orphan (refuse; an operator decides).
    """

    __slots__ = ("action", "code", "message", "status")

    def __init__(self, status: str, action: str, code: str = "", message: str = "") -> None:
        self.status = status
        self.action = action
        self.code = code
        self.message = message

    @property
    def goes_on(self) -> bool:
        """Whether the run has not ended: somebody is at it, or will be seen to be in a moment."""
        return self.action in (ATTACH, RETRY)

    def __repr__(self) -> str:
        return f"Verdict({self.status!r}, {self.action!r}, {self.code!r})"


def believed(
    state: "Mapping[str, Any] | None", result: "Mapping[str, Any] | None", *, started: bool, run_lock_held: bool
) -> "tuple[dict[str, Any] | None, str]":
    """(the state to go by, why run_state.json is not believed as it stands: '' if it is).

    `result` is a whole worker_result.json of this version, which is the truth about how the run ended. An ended state
    without one is no end, except for a failure before training's exec, which the same call may follow.
    """
    recorded = (state or {}).get("status")
    if result is not None and not (run_lock_held and recorded not in TERMINAL):
        if state is not None and not _differing(state, result):
            return dict(state), ""
        if state is None or state.get("attempt") in (None, result["attempt"]):
            return rebuilt(state, result), "run_state.json does not say what worker_result.json says"
    if state is None or recorded not in TERMINAL or (recorded == "failed" and not started):
        return (None if state is None else dict(state)), ""
    why = f"run_state.json says {recorded}, but there is no worker_result.json of this run that says so"
    return {**state, "status": "finalizing"}, why


def rebuilt(state: "Mapping[str, Any] | None", result: "Mapping[str, Any]") -> "dict[str, Any]":
    """The last state of an ended run, from its result; what only `state` knows is kept."""
    return {
        **(state or {}),
        **(result.get("last_state") or {}),
        "version_id": result["trainer_version_id"],
        "task_id": result.get("task_id"),
        "status": result["status"],
        "phase": result["status"],
        "attempt": result["attempt"],
        "config_sha256": result.get("config_sha256"),
        "run_dir": result.get("run_dir"),
        "error": result.get("error"),
        "finished_at": result.get("finished_at"),
        "updated_at": result.get("finished_at"),
    }


def _differing(state: "Mapping[str, Any]", result: "Mapping[str, Any]") -> bool:
    return any(state.get(name) != result.get(name) for name in ("status", "attempt", "config_sha256"))


def verdict(facts: Facts) -> Verdict:
    """The verdict, facts in this order: a recorded end, run.lock, training.lock, recorded processes, files."""
    if facts.recorded in TERMINAL and not facts.run_lock_held:
        return _ended(facts)
    if facts.run_lock_held:
        return _supervised(facts)
    by_job = _by_job(facts) if facts.job else None
    if by_job is not None:
        return by_job
    if facts.training_lock_held and not facts.started:
        return Verdict("queued", RETRY, "KEEPER_STARTING", "the worker is gone while the keeper was starting")
    if facts.training_lock_held or facts.training_alive:
        return Verdict("orphaned", ORPHAN, "ORPHANED_TRAINING", "training lives, but no worker watches it")
    if facts.started:
        return _lost(facts)
    return _not_started(facts)


def _by_job(facts: Facts) -> Verdict | None:
    """The verdict on a worker that was submitted to a cluster and holds no lock that is seen; None: as for any other.

    Locks and processes alone decide where they are those of this host; a lock that lies on a network file system may be
    lost while its holder lives. An exit status in the run directory decides everywhere.
    """
    if facts.job == ALIVE:
        return Verdict(facts.recorded, ATTACH)
    if facts.exit_record is not None:
        return None
    lives = facts.training_lock_held or bool(facts.training_alive)
    if facts.job == UNKNOWN and not (facts.seen_here and facts.started and not lives):
        why = " ".join(facts.job_said.split())[:_SAID_CHARS]
        message = f"the cluster's head cannot be asked from here, so nobody knows whether its job lives: {why or _ASK}"
        return Verdict("unknown", ATTACH, "CLUSTER_UNREACHABLE", message)
    if facts.started and not (lives or facts.seen_here or facts.locks_reach):
        message = f"the cluster's job is gone, and whether training lives on {facts.job_place} cannot be seen from here"
        return Verdict("orphaned", ORPHAN, "TRAINING_UNSEEN", message)
    if not (facts.started or lives):
        said = " ".join(facts.job_said.split())[-_SAID_CHARS:] or "it does not say why"
        return Verdict("failed", START, "JOB_FAILED", f"the cluster's job ended before training was started: {said}")
    return None


def _ended(facts: Facts) -> Verdict:
    if facts.recorded == "failed" and not facts.started:
        return Verdict("failed", START)
    return Verdict(facts.recorded, ANSWER)


def _supervised(facts: Facts) -> Verdict:
    if facts.damaged:
        return Verdict(
            "running", ATTACH, "STATE_DAMAGED", f"a worker lives, but its record is not readable: {facts.damaged}"
        )
    if facts.recorded in ("completed", "cancelled") or (facts.recorded == "failed" and facts.started):
        return Verdict(facts.recorded, ANSWER)
    if facts.recorded in LIVE:
        return _working(facts)
    return Verdict("queued", ATTACH)


def _working(facts: Facts) -> Verdict:
    """A worker is at it. Its record may be old when the disk is full: then processes and files say how far it is."""
    if facts.worker_stopped:
        pid = (facts.state or {})["worker"]["pid"]
        message = f"its worker, process {pid}, is stopped (SIGSTOP), so nobody watches the training or writes its end"
        return Verdict("finalizing" if facts.training_gone else facts.recorded, ATTACH, "WORKER_STOPPED", message)
    if not facts.training_gone:
        return Verdict(facts.recorded, ATTACH)
    if facts.disk_full:
        message = "training's main process has ended, but the disk is full: how it ended cannot be written down yet"
        return Verdict("finalizing", ATTACH, "DISK_FULL", message)
    return Verdict("finalizing", ATTACH)


def _lost(facts: Facts) -> Verdict:
    if facts.disk_full:
        message = "training has ended, but the disk is full, so its result cannot be written"
        return Verdict("failed", FINISH, "DISK_FULL", message)
    if facts.exit_record is not None:
        message = "training has ended, but its worker died before finishing; run-prepared again finishes it"
        return Verdict("failed", FINISH, "WORKER_LOST", message)
    return Verdict("failed", FINISH, "WORKER_LOST", _how_lost(facts))


def _not_started(facts: Facts) -> Verdict:
    if facts.damaged:
        return Verdict("failed", START, "STATE_DAMAGED", f"run_state.json is not readable: {facts.damaged}")
    if facts.recorded in ("running", "finalizing"):
        return Verdict("failed", START, "WORKER_LOST", _how_lost(facts))
    if facts.recorded == "queued" or facts.approved:
        return Verdict("approved", START)
    return Verdict("prepared", START)


def _how_lost(facts: Facts) -> str:
    step = (facts.state or {}).get("current_step")
    at = f" (last step: {step})" if step is not None else ""
    worker = (facts.state or {}).get("worker")
    boot_id = worker.get("boot_id") if isinstance(worker, dict) else None
    if boot_id and facts.boot_id and boot_id != facts.boot_id:
        return f"the host was restarted while the run was going on{at}"
    return f"the worker is gone, and training with it{at}"


def completed_problems(
    *,
    exit_record: "Mapping[str, Any] | None",
    last_step: int | None,
    planned_steps: int | None,
    artefact: "Artefact | None",
    last_train: "Mapping[str, float | None] | None",
    last_eval: "Mapping[str, float | None] | None",
) -> list[tuple[str, str]]:
    """Why a run must not be called completed, as (code, message); empty: it is (interface section 7, four facts).

    `last_train`, `last_eval`: the values of the last row of each kind; None: there is none (fine for eval alone).
    A value of None stands for one that was not finite.
    """
    return [
        *_exit_problems(exit_record),
        *_step_problems(last_step, planned_steps),
        *_artefact_problems(artefact),
        *_row_problems("train", last_train),
        *_row_problems("eval", last_eval),
    ]


def _exit_problems(exit_record: "Mapping[str, Any] | None") -> list[tuple[str, str]]:
    if exit_record is None:
        return [("EXIT_UNKNOWN", "nobody saw how training ended")]
    if exit_record.get("exec_error"):
        return [("EXEC_FAILED", f"training could not be started: {exit_record['exec_error']}")]
    if exit_record.get("signal"):
        return [("KILLED_BY_SIGNAL", f"training was killed by signal {exit_record['signal']}")]
    if exit_record.get("returncode") != 0:
        return [("EXIT_STATUS", f"training ended with exit status {exit_record.get('returncode')}")]
    return []


def _step_problems(last_step: int | None, planned_steps: int | None) -> list[tuple[str, str]]:
    if planned_steps is None:
        return [("STEPS_UNKNOWN", "training never said how many steps it had to make")]
    if last_step is None or last_step < planned_steps:
        return [("STEPS_MISSING", f"training stopped at step {last_step or 0} of {planned_steps}")]
    return []


def _artefact_problems(artefact: "Artefact | None") -> list[tuple[str, str]]:
    if artefact is None or not artefact.loadable:
        why = artefact.why if artefact is not None and artefact.why else "there is none"
        return [("ARTEFACT_MISSING", f"the final weights cannot be loaded: {why}")]
    if not artefact.finite:
        return [("DIVERGED", "the final weights hold values that are not finite")]
    return []


def _row_problems(kind: str, values: "Mapping[str, float | None] | None") -> list[tuple[str, str]]:
    if values is None:
        return [("METRICS_MISSING", "training logged no step")] if kind == "train" else []
    bad = [name for name, value in values.items() if value is None or not math.isfinite(value)]
    if bad:
        return [("DIVERGED", f"the last {kind} row is not finite: {', '.join(sorted(bad))}")]
    return []
