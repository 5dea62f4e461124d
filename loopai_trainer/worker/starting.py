"""Starting a worker: the descriptors and words that it gets, and the approved bytes as an anonymous file.

Light on purpose: all of this happens before training's exec.
"""

import os
import sys

from loopai_trainer.errors import PlanChanged, TrainingFailed
from loopai_trainer.files import atomic
from loopai_trainer.host import locks
from loopai_trainer.rules import digest
from loopai_trainer.rules.cluster import HERE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from loopai_trainer.contract import Submits
    from loopai_trainer.files.run_dir import RunDir

_CODE = "import sys; from loopai_trainer.worker.entry import detached; sys.exit(detached(sys.argv[1:]))"
"""What the worker's Python runs. `-m` would import runpy and importlib.util first: over half of starting Python."""

TO_LAUNCH, TO_FINISH, TO_ADOPT, TO_TERMINATE = "", "--finish", "--adopt", "--terminate"
"""What a worker is started for: to launch training; to finalise one that has ended while nobody watched; to watch one
that lives; to end one that lives. The word is the worker's last argument (none for TO_LAUNCH)."""

_DEVICES = "--devices="

_SUBMITTED = "import sys; from loopai_trainer.worker.submitted import main; sys.exit(main(sys.argv[1:]))"
"""The same for a worker that a cluster starts (see worker.submitted)."""


class StartRequest:
    """The exact approved bytes and their hash; `device_fds`: locks of the devices, for worker and keeper to hold.

    `launch`, `locks_reach`, `handle`: for an executor that submits: the plan's block, whether a lock that is held here
    is seen there, and which job it will be. `not_asked`: nodes of which nobody knows whether they see the same files.
    """

    __slots__ = (
        *("config", "device_fds", "executor", "handle", "launch", "locks_reach", "not_asked", "sha256", "task_id"),
    )

    def __init__(
        self, config: bytes, sha256: str, task_id: str, executor: str = "local", device_fds: "Sequence[int]" = ()
    ) -> None:
        self.config = config
        self.sha256 = sha256
        self.task_id = task_id
        self.executor = executor
        self.device_fds = tuple(device_fds)
        self.launch: dict[str, Any] = {}
        self.locks_reach = False
        self.not_asked: list[str] = []
        self.handle = ""

    def close(self) -> None:
        """Close this process's copies of the device locks: the worker has its own by now, or nothing was started."""
        for fd in self.device_fds:
            os.close(fd)
        self.device_fds = ()


def start_worker(run: "RunDir", lock_fd: int, request: StartRequest, mode: str) -> int | None:
    """Start the worker with run.lock's `lock_fd`; returns its pid if it is this process's child, to be reaped."""
    from loopai_trainer import executors  # the worker, which reads its words here, starts none

    elsewhere = executors.submitting(request.executor)
    if elsewhere is not None:
        _submit(run, request, elsewhere)
        return None
    executor = executors.get(request.executor)
    plan_fd = _anonymous_file(request.config)
    try:
        argv = [
            *(sys.executable, "-P", "-c", _CODE),
            *(run.path, run.version_id, run.task.path, str(lock_fd), str(plan_fd), request.sha256, request.executor),
            *((_DEVICES + ",".join(map(str, request.device_fds)),) if request.device_fds else ()),
            *((mode,) if mode else ()),
        ]
        locks.name_holder(lock_fd, f"{run.version_id}: a worker started by pid {os.getpid()}")
        atomic.make_private_dir(run.path)
        handle = executor.start(argv, run.path, run.worker_log, (lock_fd, plan_fd, *request.device_fds))
    finally:
        os.close(plan_fd)
    return int(handle.split("/")[0]) if request.executor == "local" else None


def _submit(run: "RunDir", request: StartRequest, executor: "Submits") -> None:
    """Put the approved bytes where the worker finds them, and submit it: it hashes them again, and waits for run.lock.

    Raises HostUnfit.
    """
    atomic.make_private_dir(run.path)
    atomic.make_private_dir(os.path.dirname(run.approved_config))
    atomic.write_bytes(run.approved_config, request.config)
    words = (run.path, run.version_id, run.task.path, request.sha256, request.executor, request.handle)
    interpreter = str(request.launch.get("interpreter") or sys.executable)
    executor.submit([interpreter, "-P", "-c", _SUBMITTED, *words], request.handle, os.environ)


def read_words(words: "Sequence[str]") -> tuple[str, tuple[int, ...]]:
    """(mode, descriptors of device locks) from the optional words of a worker's command line."""
    mode = TO_LAUNCH
    device_fds: tuple[int, ...] = ()
    for word in words:
        if word.startswith(_DEVICES):
            device_fds = tuple(int(fd) for fd in word[len(_DEVICES) :].split(","))
        elif word in (TO_FINISH, TO_ADOPT, TO_TERMINATE):
            mode = word
    return mode, device_fds


def materialised_request(run: "RunDir", state: "dict[str, Any]", sha256: str) -> StartRequest:
    """The approved bytes as an earlier worker wrote them, for the one that follows it.

    Raises TrainingFailed WORKER_LOST if they are gone, PlanChanged if they are not those of `sha256`.
    """
    try:
        with open(run.approved_config, "rb") as file:
            config = file.read()
    except OSError as error:
        raise TrainingFailed(
            f"training of {run.version_id} has no worker, and its approved YAML cannot be read: {error}",
            code="WORKER_LOST",
            hint=f"look at {run.train_log}; prepare a new version to train again",
            recoverable=False,
        ) from None
    got = digest.sha256(config)
    if got != sha256:
        raise another_plan(got, sha256)
    executor = state.get("executor")
    name = executor.get("name") if isinstance(executor, dict) else None
    if name is None or (name not in HERE and _was_submitted(str(name))):
        name = "local"  # what a cluster started is looked after from here: what follows needs no node of it
    return StartRequest(config, sha256, os.path.basename(run.task.path), str(name))


def _was_submitted(name: str) -> bool:
    from loopai_trainer import executors

    return executors.submitting(name) is not None


def another_plan(expected: str, got: str) -> PlanChanged:
    """The refusal of another hash than that of the version that runs, or ran."""
    return PlanChanged(
        f"this version was started with another approved YAML\n  expected: {expected}\n  got:      {got}",
        hint="use the hash that it was started with, or prepare a new version",
        details={"expected": expected, "got": got},
    )


def _anonymous_file(data: bytes) -> int:
    """A descriptor of an anonymous file with these bytes: no path, so nobody can change what the worker reads."""
    fd = locks.above_standard(os.memfd_create("approved-plan", os.MFD_CLOEXEC))
    while data:
        data = data[os.write(fd, data) :]
    return fd
