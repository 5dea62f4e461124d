"""trainer.pkl and worker_result.pkl, which LoopAI's own reader loads; written whole, never read here.

They hold plain dicts, lists, texts and numbers alone: no class has to be found to load them, and none is run. Source of
the shapes: facts on LoopAI's `event_tool` (`{agent: [events]}`, where an event may be the mapping of a StreamEvent's
fields) and `persistent_worker` (`{"ok", "state" | "error"}`).
"""

from __future__ import annotations

import fcntl
import os
import pickle
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from loopai_trainer.files import atomic, event_log
from loopai_trainer.files.run_dir import RunDir

MAX_EVENTS = 2000
"""The newest ones; LoopAI reads and sorts the whole file each time. events.jsonl has them all."""

_PROTOCOL = 4
"""Every Python that LoopAI runs on reads it."""

_FIELDS = (
    *("current", "progress", "progress_num", "total", "message", "data", "time", "version_id", "node", "status"),
    *("context_id", "error"),
)
"""StreamEvent's fields; LoopAI's reader drops an event that has any other."""

_PAUSE_S = 0.05


class EventPickle:
    """The event file of a run's task, for the one worker of that run; each event of any version is read once."""

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self._known: dict[str, _Log] = {}

    def write(self, wait_s: float) -> bool:
        """Write the file anew from the events of all versions; False if another worker was at it all the time.

        Raises OSError, also where the task's folder was removed: nothing is made there again.
        """
        path = self.run.event_pickle
        with _locked(path + ".lock", wait_s) as ours:
            if ours:
                events = sorted(self._all(), key=lambda event: str(event["time"]))[-MAX_EVENTS:]
                atomic.write_bytes(path, _dumped({event_log.CURRENT: events}), sync=False)
        return ours

    def _all(self) -> Iterable[dict[str, Any]]:
        for path in self._logs():
            yield from self._read(path)

    def _logs(self) -> Sequence[str]:
        """The event logs of the task's versions; that of a run directory elsewhere only while it is our own."""
        runs = self.run.task.runs
        names = sorted(os.listdir(runs)) if os.path.isdir(runs) else []
        paths = [self.run.task.run(name).events for name in names]
        return paths if self.run.events in paths else [*paths, self.run.events]

    def _read(self, path: str) -> Iterable[dict[str, Any]]:
        try:
            size = os.stat(path).st_size
        except OSError:
            return ()
        known = self._known.get(path)
        if known is None or size < known.offset:
            known = self._known[path] = _Log()
        if size > known.offset:
            found, known.offset = event_log.read_from(path, known.offset)
            known.events.extend(map(stream_event, found))
        return known.events


class _Log:
    """What is known of an events.jsonl, up to byte `offset`."""

    def __init__(self) -> None:
        self.offset = 0
        self.events: deque[dict[str, Any]] = deque(maxlen=MAX_EVENTS)


def stream_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event of events.jsonl with exactly the fields of LoopAI's StreamEvent.

    `node` is the phase, `context_id` the task; `progress_num` of `total` are steps.
    """
    raw = event.get("data")
    data: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
    step, total = data.get("current_step"), data.get("total_steps")
    made = {**{name: event.get(name) for name in _FIELDS}, "progress_num": step, "total": total}
    if not made["message"]:
        at = f"{made['node']}: step {step} of {total}" if step is not None and total is not None else made["node"]
        made["message"] = str(at)
    return made


def write_result(run: RunDir, task_id: str, fields: Mapping[str, Any]) -> None:
    """worker_result.pkl: the task's state as it is after the run, however it ended. Raises OSError."""
    state = {"task_id": task_id, "output_dir": os.path.dirname(run.task.path), event_log.CURRENT: dict(fields)}
    atomic.write_bytes(run.result_pickle, _dumped({"ok": True, "state": state}))


@contextmanager
def _locked(path: str, wait_s: float) -> Iterator[bool]:
    """Whether the lock could be had within `wait_s`; held inside. flock itself: filelock loads asyncio (50 ms)."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, atomic.PRIVATE)
    try:
        until = time.monotonic() + wait_s
        while not (ours := _taken(fd)) and time.monotonic() < until:
            time.sleep(_PAUSE_S)
        yield ours
    finally:
        os.close(fd)


def _taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _dumped(value: Mapping[str, Any]) -> bytes:
    return pickle.dumps(value, protocol=_PROTOCOL)
