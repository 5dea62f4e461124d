"""What the worker writes down: run_state.json and events.jsonl; status and phase at once, progress once a second."""

import os
import sys
import time

from loopai_trainer.files import event_log, state_file
from loopai_trainer.files.event_log import utc_text
from loopai_trainer.rules import secrets
from loopai_trainer.rules.run_state import may_move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir

_PROGRESS_S = 1.0
_HEARTBEAT_S = 10.0
_EVENT_S = 30.0
"""A progress event is written for each whole percent, and at the latest after so many seconds with a new step."""


class Record:
    """The run's snapshot and its events, by the one process that may write them.

    A write that fails (disk full) is told to the worker's log and tried again at the next `flush`, since a training
    must not be lost for its report; only `end` insists.
    """

    def __init__(self, run: "RunDir", state: "dict[str, Any]") -> None:
        self.run = run
        self.state = state
        self._hidden = secrets.environment_values(os.environ)
        self._begun_s = time.monotonic()
        self._dirty = False
        self._written_s = 0.0
        self._event_s = 0.0
        self._percent = -1
        self._told_end = False
        self._listener: Callable[[], None] | None = None

    def follow(self, listener: "Callable[[], None]") -> None:
        """Call `listener` now, and after each event of a change from now on."""
        self._listener = listener
        listener()

    @property
    def elapsed_s(self) -> float:
        """Seconds since this worker began, by the monotonic clock."""
        return time.monotonic() - self._begun_s

    def move(self, status: str, phase: str, message: str = "", **values: "Any") -> None:
        """Change the status, write it durably and note an event. Raises ValueError for a change that cannot be."""
        now = str(self.state.get("status", ""))
        if not may_move(now, status):
            raise ValueError(f"a run cannot move from {now!r} to {status!r}")
        self.state.update(values, status=status, phase=phase)
        self._write(sync=True)
        self.event(phase, status, message, error=values.get("error"))
        self._call_listener()

    def phase(self, phase: str, message: str = "", **values: "Any") -> None:
        """Change the phase within a status; written at once."""
        self.state.update(values, phase=phase)
        self._write(sync=False)
        self.event(phase, str(self.state["status"]), message)
        self._call_listener()

    def note(self, **values: "Any") -> None:
        """Values that the next `flush` writes."""
        if any(self.state.get(name) != value for name, value in values.items()):
            self.state.update(values)
            self._dirty = True

    def flush(self) -> None:
        """Write progress if there is some and the last write is a second old; a heartbeat now and then."""
        age_s = time.monotonic() - self._written_s
        if (self._dirty and age_s >= _PROGRESS_S) or age_s >= _HEARTBEAT_S:
            self._write(sync=False)
            self._progress_event()

    def end(self, status: str, message: str, told: "Callable[[], None]" = lambda: None, **values: "Any") -> None:
        """The last state, durable. Raises OSError if it cannot be written, ValueError if the status cannot follow.

        `told` is called once between the last event and that state: whoever waits for the state finds all of it done.
        """
        now = str(self.state.get("status", ""))
        if not may_move(now, status):
            raise ValueError(f"a run cannot move from {now!r} to {status!r}")
        # The event first: whoever follows events stops at the last state.
        if not self._told_end:
            self.event(status, status, message, error=values.get("error"), progress=self._progress())
            self._told_end = True
            told()
        finished_at = utc_text(time.time())
        last = {
            **self.state,
            **values,
            "status": status,
            "phase": status,
            "finished_at": finished_at,
            "updated_at": finished_at,
            "elapsed_s": round(self.elapsed_s, 3),
        }
        state_file.write(self.run, last)
        self.state = last

    def event(self, node: str, status: str, message: str, **values: "Any") -> None:
        """Append one event; a failure is only told to the log."""
        try:
            event_log.append(
                self.run.events,
                version_id=self.run.version_id,
                task_id=str(self.state.get("task_id", "")),
                attempt=int(self.state.get("attempt", 1)),
                node=node,
                status=status,
                message=secrets.redacted(message, self._hidden),
                elapsed_s=self.elapsed_s,
                **secrets.redacted_value(values, self._hidden),
            )
        except OSError as error:
            tell(f"{self.run.events}: {error}")

    def _write(self, *, sync: bool) -> None:
        self.state["updated_at"] = utc_text(time.time())
        self.state["elapsed_s"] = round(self.elapsed_s, 3)
        try:
            state_file.write(self.run, self.state, sync=sync)
            self._dirty = False
        except OSError as error:
            self._dirty = True
            tell(f"{self.run.run_state}: {error}")
        self._written_s = time.monotonic()

    def _progress(self) -> float | None:
        step, total = self.state.get("current_step"), self.state.get("total_steps")
        if not isinstance(step, int) or not isinstance(total, int) or total <= 0:
            return None
        return min(max(step / total, 0.0), 1.0)

    def _progress_event(self) -> None:
        progress = self._progress()
        if progress is None:
            return
        percent, now = int(progress * 100), time.monotonic()
        if percent == self._percent and now - self._event_s < _EVENT_S:
            return
        self._percent, self._event_s = percent, now
        names = ("current_step", "total_steps", "loss", "learning_rate", "eval_loss")
        data = {name: self.state[name] for name in names if self.state.get(name) is not None}
        self.event(str(self.state["phase"]), str(self.state["status"]), "", progress=progress, data=data)
        self._call_listener()

    def _call_listener(self) -> None:
        if self._listener is not None:
            self._listener()


def tell(message: str) -> None:
    """A line in worker.log (the worker's stderr), without the secrets of this environment."""
    message = secrets.redacted(message, secrets.environment_values(os.environ))
    try:
        sys.stderr.write(f"{utc_text(time.time())} [{os.getpid()}] {message}\n")
        sys.stderr.flush()
    except OSError:
        pass  # the log is on the full disk too
