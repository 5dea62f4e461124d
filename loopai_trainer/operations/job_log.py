"""What a cluster keeps of a run's job, for as long as the run directory has no lines: it waits, or ended too early."""

from __future__ import annotations

import os
import time

from loopai_trainer import executors
from loopai_trainer.errors import ConfigError, HostUnfit
from loopai_trainer.files import state_file
from loopai_trainer.files.log_tail import MAX_BYTES, split_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.contract import Submits
    from loopai_trainer.files.run_dir import RunDir

_LOOK_S = 5.0
"""How often whoever follows a log asks the cluster."""


class JobLog:
    """`where`: the job and its cluster, for people. `lines`: the end of its output. `said`: the cluster's own words on
    it, or why it could not be asked; may be empty.
    """

    __slots__ = ("lines", "said", "where")

    def __init__(self, where: str, lines: list[str], said: str) -> None:
        self.where = where
        self.lines = lines
        self.said = said


def read(run: RunDir) -> JobLog | None:
    """What the cluster says of the job of this run's last attempt; None for a run that no cluster runs."""
    found = _job(run)
    if found is None:
        return None
    executor, handle = found
    try:
        text = executor.log(handle)
    except HostUnfit as error:
        return JobLog(executor.where(handle), [], error.message)
    lines = split_lines(os.fsencode(text)[-MAX_BYTES:])
    return JobLog(executor.where(handle), lines, " ".join(executor.told(handle).split()))


def _job(run: RunDir) -> tuple[Submits, str] | None:
    recorded = (state_file.read(run).state or {}).get("executor") or {}
    try:
        executor = executors.submitting(recorded.get("name"))
    except ConfigError:
        return None  # it is no longer installed
    return None if executor is None else (executor, str(recorded.get("handle")))


class Following:
    """The job's lines as they come, for whoever follows a run whose own log has none yet."""

    def __init__(self, run: RunDir, path: str) -> None:
        self._run = run
        self._path = path
        self._shown = 0
        self._next_s = 0.0

    def lines(self, *, last: bool = False) -> list[str]:
        """New lines, the first after one that says whose they are. Asks now and then, and at the `last` look."""
        if time.monotonic() < self._next_s and not last:
            return []
        self._next_s = time.monotonic() + _LOOK_S
        found = read(self._run)
        if found is None:
            self._next_s = float("inf")
            return []
        new = found.lines[self._shown :]
        head = [f"({self._path} has no lines yet; those that follow are of {found.where})"] if not self._shown else []
        self._shown = max(self._shown, len(found.lines))
        if last and not self._shown and found.said:
            new = [found.said]
        return [*head, *new] if new else []
