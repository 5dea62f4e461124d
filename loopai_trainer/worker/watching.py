"""Following a training: its metric lines, its log and its process tree, into the record, a few times a second."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from typing import Any

from loopai_trainer.contract import Backend, MarksLog
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import processes
from loopai_trainer.records import LaunchPaths, LogFact, MetricRow, Plan
from loopai_trainer.rules import dev_bounds
from loopai_trainer.worker.launching import LOG_FILES
from loopai_trainer.worker.observe import members_text, read_started
from loopai_trainer.worker.record import Record, tell
from loopai_trainer.worker.sieve import marked_lines, wanted_marks

_READ_BYTES = 256 * 1024
"""Small enough that what is read and searched stays in the processor's cache."""
_HURRY_PIECES = 64
_SKIP_BYTES = 16 * 1024 * 1024
_LINE_BYTES = 64 * 1024
_OVERLAP_LINES = 8
"""Lines of the last batch that are shown to the backend again: a count may stand a few lines below its heading."""

_TREE_FIRST_S = 1.0
_TREE_LAST_S = 15.0
_TREE_MEMBERS = 2000


class Tail:
    """Reads what is appended to a file, over rotation (rename) and replacement; `offset` is in the present file.

    A file that grows faster than it is read is skipped towards its end, unless `may_skip` is false. `buffer` holds what
    was read last: one for all reads, since fresh memory for each costs more than reading and searching it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.offset = 0
        self.may_skip = True
        self._fd: int | None = None
        self._rest = b""
        self.buffer = bytearray(_READ_BYTES + _LINE_BYTES)

    def lines(self) -> list[bytes]:
        """The whole lines that are new, without their ends; at most some a call, very long ones in pieces."""
        size = self.fill()
        return bytes(self.buffer[:size]).split(b"\n") if size else []

    def fill(self) -> int:
        """Put the same lines into `buffer`, as they stand in the file; their bytes without the last one's end."""
        held = len(self._rest)
        self.buffer[:held] = self._rest
        size = held + self._read(held)
        end = self.buffer.rfind(b"\n", 0, size)
        after = end + 1
        if end < 0:  # no line is whole; a very long one is given out in pieces
            end = after = size if size > _LINE_BYTES else 0
        self._rest = bytes(self.buffer[after:size])
        return end

    def skip(self) -> None:
        """Go to the file's end without reading."""
        self._rest = b""
        if self._fd is not None or self._open():
            self.offset = os.fstat(self._fd).st_size  # type: ignore[arg-type]  # mypy does not follow _open
            if self._replaced():
                self.close()
                self.offset = 0

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self, held: int) -> int:
        if self._fd is None and not self._open():
            return 0
        count = self._piece(held)
        if not count and self._replaced():
            self.close()
            self.offset = 0
            return self._piece(held) if self._open() else 0
        return count

    def _open(self) -> bool:
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        return True

    def _piece(self, held: int) -> int:
        """Read on behind the first `held` bytes of the buffer."""
        if self._fd is None:
            return 0
        size = os.fstat(self._fd).st_size
        if size < self.offset:  # truncated in place: begin again
            self.offset = 0
        if self.may_skip and size - self.offset > _SKIP_BYTES:
            # Progress bars faster than they can be read: the newest lines are worth more than all of them.
            self.offset = size - _READ_BYTES
        if size == self.offset:
            return 0
        with memoryview(self.buffer) as view:
            count = os.preadv(self._fd, [view[held : held + _READ_BYTES]], self.offset)
        self.offset += count
        return count

    def _replaced(self) -> bool:
        if self._fd is None:
            return False
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        here = os.fstat(self._fd)
        return (there.st_ino, there.st_dev) != (here.st_ino, here.st_dev)


class Watcher:
    """Looks at everything that training appends to.

    `stop_reason`: (code, message) from when training must not go on: it trains on another number of examples than was
    approved, its weights are spoilt, or it is a dev run that goes beyond its bounds.
    """

    def __init__(self, run: RunDir, plan: Plan, backend: Backend, paths: LaunchPaths, record: Record) -> None:
        self.run = run
        self.backend = backend
        self.record = record
        self.plan = plan
        self.paths = paths
        self.stop_reason: tuple[str, str] | None = None
        self._remarks: dict[str, tuple[int, str]] = {}
        self._expected = backend.expected_examples(plan)
        self._bounds = dev_bounds.of_plan(plan)
        self._metrics = Tail(backend.metrics_file(paths))
        self._known: set[bytes] = set()
        self._log = Tail(run.train_log)
        self._marks = backend.log_marks if isinstance(backend, MarksLog) else None
        self._last_lines: list[str] = []
        self._last_phase = ""
        self._tree_s = 0.0
        self._tree_every_s = _TREE_FIRST_S
        self._pending = b""
        self._first_step: tuple[int, float] | None = None

    @property
    def unsaid(self) -> list[str]:
        """Numbers of examples that were approved and that training has not reported (train_examples, ...)."""
        return [kind for kind in self._expected if self.record.state.get(kind) is None]

    @property
    def remarks(self) -> list[str]:
        """What the backend had to say of single steps: the last of each kind, and of how many steps it was said."""
        return [f"{message} (said of {count} steps)" for count, message in self._remarks.values()]

    def take_up(self) -> None:
        """Go on after another worker: training's metrics are read from their beginning, known rows are not repeated.

        If its record was lost, the numbers of examples are looked for in the rotated logs too.
        """
        for number in range(LOG_FILES, 0, -1):
            if self.unsaid:
                older = Tail(f"{self.run.train_log}.{number}")
                older.may_skip = False
                while self._read_log_piece(older):
                    pass
                older.close()
        try:
            with open(self.run.metric_rows, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return
        self._known = set(data.splitlines(keepends=True))
        if data and not data.endswith(b"\n"):
            self._pending = b"\n"

    def tick(self) -> None:
        """Read what is new, note it in the record, write the record when it is due."""
        self._read_log()
        self._read_metrics()
        self._look_at_tree()
        self._look_at_time()
        self.record.flush()

    def finish(self) -> None:
        """Read all that is left after training's end."""
        for _ in range(2 * _SKIP_BYTES // _READ_BYTES):
            before = (self._metrics.offset, self._log.offset)
            self._read_log()
            self._read_metrics()
            if before == (self._metrics.offset, self._log.offset):
                break
        self._metrics.close()
        self._log.close()

    def _read_metrics(self) -> None:
        rows = self.backend.read_metrics(self._metrics.lines())
        attempt = int(self.record.state.get("attempt", 1))
        lines = [metric_line(row, attempt) for row in rows]
        self._pending += b"".join(line for line in lines if line not in self._known)
        self._append_pending()
        for row in rows:
            self._note_row(row)

    def _append_pending(self) -> None:
        """Append what is waiting; what a full disk did not take stays, and goes on where it stopped."""
        if not self._pending:
            return
        try:
            fd = os.open(self.run.metric_rows, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, atomic.PRIVATE)
            try:
                self._pending = self._pending[os.write(fd, self._pending) :]
            finally:
                os.close(fd)
        except OSError as error:
            tell(f"{self.run.metric_rows}: {error}")

    def _note_row(self, row: MetricRow) -> None:
        values = row.values
        noted: dict[str, Any] = {"current_step": max(row.step, int(self.record.state.get("current_step") or 0))}
        total = values.get("total_steps")
        if total is not None and math.isfinite(total):
            noted["total_steps"] = int(total)
        for name, keys in (
            ("loss", ("loss",)),
            ("learning_rate", ("learning_rate", "lr")),
            ("eval_loss", ("eval_loss",)),
        ):
            value = next((values[key] for key in keys if key in values), None)
            if value is not None:
                noted[name] = value if math.isfinite(value) else None
        if row.kind == "train":
            noted |= self._time_left(row.step, noted.get("total_steps"))
        self.record.note(**noted)
        lost = self.backend.lost(self.plan, row)
        if lost and self.stop_reason is None:
            self.stop_reason = ("DIVERGED", lost)
        if self._bounds is not None and self.stop_reason is None:
            self.stop_reason = self._bounds.step_exceeded(row.step)
        if row.kind == "train":
            self._set_phase("training")
            self._look_at_step(row.step)

    def _look_at_time(self) -> None:
        if self._bounds is not None and self.stop_reason is None:
            step = int(self.record.state.get("current_step") or 0)
            self.stop_reason = self._bounds.time_exceeded(self.record.elapsed_s, step)

    def _look_at_step(self, step: int) -> None:
        for problem in self.backend.step_problems(self.paths, step):
            count, _ = self._remarks.get(problem.code, (0, ""))
            if count == 0:
                status = str(self.record.state["status"])
                self.record.event("training", status, problem.message, data={"code": problem.code, "step": step})
            self._remarks[problem.code] = (count + 1, problem.message)

    def _time_left(self, step: int, total_steps: int | None) -> dict[str, float]:
        """Seconds to the last step, at the pace since the first logged one; evaluations and saves count."""
        now_s = time.monotonic()
        if self._first_step is None:
            self._first_step = (step, now_s)
        first, since_s = self._first_step
        if total_steps is None or step <= first or now_s <= since_s:
            return {}
        return {"eta_s": round((now_s - since_s) / (step - first) * max(0, total_steps - step), 1)}

    def _read_log(self) -> None:
        # Until the numbers of examples were seen no line may be missed: they are what the approval is held against.
        self._log.may_skip = not self.unsaid
        if self._marks is not None and not self._wanted():
            self._log.skip()
            return
        for _ in range(1 if self._log.may_skip else _HURRY_PIECES):
            if not self._read_log_piece(self._log):
                return

    def _wanted(self) -> list[str]:
        """The kinds of facts that the log may still tell."""
        phase = [] if self.record.state.get("phase") == "training" else ["phase"]
        steps = [] if self.record.state.get("total_steps") else ["total_steps"]
        return [*self.unsaid, *phase, *steps]

    def _read_log_piece(self, log: Tail) -> bool:
        size = log.fill()
        if not size:
            return False
        lines, again = self._lines_of(log.buffer, size)
        new = [text for line in lines for text in _texts(line)]
        if not new:
            return True
        for fact in self.backend.read_log([*self._last_lines, *new]):
            self._take(fact)
        kept = [text for line in again for text in _texts(line)]
        self._last_lines = [*self._last_lines, *kept][-_OVERLAP_LINES:]
        return True

    def _lines_of(self, buffer: bytearray, size: int) -> tuple[list[bytes], list[bytes]]:
        """(lines that may tell something, in their order; those of them that the next ones may need before them)."""
        if self._marks is None:
            lines = bytes(buffer[:size]).split(b"\n")
            return lines, lines
        wanted = self._wanted()
        counts = wanted_marks(self._marks, [kind for kind in wanted if kind != "phase"])
        # One search for all kinds: a heading may tell the last phase, and those before it would seem to come later.
        lines = marked_lines(buffer, wanted_marks(self._marks, wanted), size)
        # A phase that is shown twice would seem to come back.
        return lines, [line for line in lines if any(mark in line for mark in counts)]

    def _take(self, fact: LogFact) -> None:
        if fact.kind == "phase":
            self._set_phase(str(fact.value))
            return
        value = int(fact.value)
        self.record.note(**{fact.kind: value})
        expected = self._expected.get(fact.kind)
        if expected is not None and expected != value:
            what = fact.kind.replace("_", " ")
            message = f"training reports {value} {what}, but {expected} were approved"
            self.stop_reason = ("EXAMPLES_MISMATCH", message)

    def _set_phase(self, phase: str) -> None:
        if phase == self._last_phase or self.record.state.get("status") != "running":
            return
        # Trainers load and evaluate again later; "training" is what a run stays in once it has begun.
        if self.record.state.get("phase") != "training":
            self.record.phase(phase)
        self._last_phase = phase

    def _look_at_tree(self) -> None:
        now = time.monotonic()
        if now - self._tree_s < self._tree_every_s:
            return
        self._tree_s = now
        self._tree_every_s = min(self._tree_every_s * 1.5, _TREE_LAST_S)
        started = read_started(self.run)
        tree = processes.descendants(started.get("keeper"))[:_TREE_MEMBERS]
        self.record.note(**{name: one for name, one in started.items() if one}, tree=members_text(tree))


def metric_line(row: MetricRow, attempt: int) -> bytes:
    """A row of metrics.jsonl; values that are not finite become null and are named in `nonfinite`."""
    values: Mapping[str, float | None] = {
        name: value if math.isfinite(value) else None for name, value in row.values.items()
    }
    entry: dict[str, Any] = {"step": row.step, "attempt": attempt, "kind": row.kind, "values": values}
    nonfinite = [name for name, value in values.items() if value is None]
    if nonfinite:
        entry["nonfinite"] = nonfinite
    return json.dumps(entry, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"


def _texts(line: bytes) -> list[str]:
    # A progress bar is one line of carriage returns, up to megabytes: only its last states can matter.
    return [part[:_LINE_BYTES].decode("utf-8", "replace") for part in line.split(b"\r")[-64:] if part.strip()]
