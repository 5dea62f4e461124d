"""An operator's answer to an orphaned training: a new worker for it, or its end; nothing is guessed.

The new worker does the work in both cases, so that one process alone watches, signals and finalises (see own.adopt).
"""

import os
import time

from loopai_trainer.errors import Orphaned, UsageError
from loopai_trainer.files import atomic, result_file
from loopai_trainer.files.event_log import utc_text
from loopai_trainer.host import locks, processes
from loopai_trainer.rules.run_state import ATTACH, ORPHAN, RETRY
from loopai_trainer.worker.attach import orphaned
from loopai_trainer.worker.cancelling import GRACE_S
from loopai_trainer.worker.observe import Observation, observe, read_started
from loopai_trainer.worker.record import tell
from loopai_trainer.worker.starting import TO_ADOPT, TO_TERMINATE, materialised_request, start_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.files.run_dir import RunDir

_RETRY_S = 15.0
_PAUSE_S = 0.05


def adopt(run: "RunDir") -> int | None:
    """Start a worker that watches the living training to its end; returns its pid, to be reaped by this process.

    Raises UsageError NOT_ORPHANED, Orphaned NOT_ADOPTABLE if its keeper is gone too (nobody can see how it ends), and
    what starting.materialised_request refuses.
    """
    return _hand_over(run, TO_ADOPT, None)


def terminate(run: "RunDir", requested_by: str, grace_s: float = GRACE_S) -> int | None:
    """Start a worker that ends the living training (TERM, `grace_s`, KILL) and finalises it; returns its pid.

    A training whose main process has ended by itself keeps its own outcome. Raises UsageError NOT_ORPHANED.
    """
    request = {
        "requested_by": requested_by,
        "at": utc_text(time.time()),
        "grace_s": grace_s,
        "process": processes.own_identity(),
    }
    return _hand_over(run, TO_TERMINATE, request)


def _hand_over(run: "RunDir", mode: str, cancel: "dict[str, object] | None") -> int | None:
    until = time.monotonic() + _RETRY_S
    while True:
        seen = observe(run)
        if seen.verdict.action == ORPHAN:
            fd = locks.try_exclusive(run.run_lock)
            if fd is not None:
                try:
                    return _under_lock(run, fd, mode, cancel)
                finally:
                    os.close(fd)
        elif seen.verdict.action != RETRY:
            raise _not_orphaned(run, seen)
        if time.monotonic() > until:
            raise orphaned(run, seen)
        time.sleep(_PAUSE_S)


def _under_lock(run: "RunDir", lock_fd: int, mode: str, cancel: "dict[str, object] | None") -> int | None:
    seen = observe(run, holding_run_lock=True)
    if seen.verdict.action != ORPHAN:
        raise _not_orphaned(run, seen)
    keeper = read_started(run).get("keeper")
    if keeper and keeper.get("boot_id") != processes.boot_id() and _host(seen) not in ("", os.uname().nodename):
        raise _other_host(run, seen)
    if mode == TO_ADOPT and not processes.alive(keeper):
        raise _not_adoptable(run, seen)
    request = materialised_request(run, seen.state, _approved_sha256(run, seen))
    if cancel is not None:
        try:
            atomic.write_json(run.cancel_request, cancel)
        except OSError as error:  # a full disk: the mode says enough
            tell(f"{run.cancel_request}: {error}")
    return start_worker(run, lock_fd, request, mode)


def _approved_sha256(run: "RunDir", seen: Observation) -> str:
    """The hash that the run was started with: by its state, else by its approval, else by the bytes it was given."""
    recorded = seen.state.get("config_sha256")
    if not recorded:
        try:
            recorded = (atomic.read_json(run.approval) or {}).get("config_sha256")
        except ValueError:
            recorded = None
    return str(recorded or result_file.approved_sha256(run) or "")


def _not_orphaned(run: "RunDir", seen: Observation) -> UsageError:
    status = seen.verdict.status
    if seen.verdict.action == ATTACH:
        why, verb = f"{run.version_id} is {status}, and a worker watches it", "wait"
    else:
        why, verb = f"{run.version_id} is {status}, and no process of its training lives", "status"
    return UsageError(
        f"{why}; nothing was started or stopped",
        code="NOT_ORPHANED",
        hint="recover is for a training that lives without a worker",
        next_command=f"trainer {verb} {run.path}",
    )


def _not_adoptable(run: "RunDir", seen: Observation) -> Orphaned:
    refusal = orphaned(run, seen, "--terminate")
    return Orphaned(
        f"{refusal.message}; its keeper is gone too, so nobody can see how it ends",
        code="NOT_ADOPTABLE",
        hint="end what is left of it (recover --terminate), or let it end by itself and call run-prepared again",
        next_command=refusal.next_command,
        details=refusal.details,
    )


def _host(seen: Observation) -> str:
    """The host of a cluster that the run's worker was on; empty for a run that no cluster started."""
    return str((seen.state.get("executor") or {}).get("host") or "")


def _other_host(run: "RunDir", seen: Observation) -> Orphaned:
    refusal = orphaned(run, seen)
    return Orphaned(
        f"training of {run.version_id} was started on {_host(seen)}, and its processes cannot be reached from here",
        code="OTHER_HOST",
        hint=f"make the same call on {_host(seen)}",
        next_command=refusal.next_command,
        details=refusal.details,
    )
