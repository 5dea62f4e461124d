"""Tasks for an agent: source files in, checked snapshots and report out; an agent gets each task as it stands."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from loopai_trainer.errors import DataError
from loopai_trainer.files import atomic, snapshots, task_files
from loopai_trainer.files.rejected_rows import RejectedRows
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.files.tables import Fault, open_table
from loopai_trainer.operations import refusals
from loopai_trainer.operations.data_report import length_stats, report_text
from loopai_trainer.operations.problem_tally import ProblemTally
from loopai_trainer.operations.row_pass import FileFacts, Split
from loopai_trainer.records import Counts, DataReport, Problem, Settings, Severity, SplitReport
from loopai_trainer.rules import splitting

Progress = Callable[[int, int], None]
"""(bytes read, bytes in all)."""

MOST_TASKS = 200_000
"""Each is run by an agent: more than this would take weeks, and a file of millions was meant for something else."""

_SOURCES: tuple[tuple[Split, str], ...] = (
    ("train", "train_input_dataset_path"),
    ("validation", "train_input_eval_dataset_path"),
)


@dataclass(slots=True)
class _Side:
    """One split: its tasks as JSON lines, and what is known of them. `origin`: who named them."""

    where: Split
    facts: FileFacts
    lines: list[bytes] = field(default_factory=list)
    counts: Counts = field(default_factory=lambda: Counts(0, 0, 0))
    origin: str = ""


def prepare_task_data(
    settings: Settings, run: RunDir, validation_size: float | int | None, progress: Progress | None
) -> DataReport:
    """Check every task, write the snapshots and data_check_report.txt into `run`.

    `validation_size` (a share below 1, else a number) holds tasks of the first file out, unless an evaluation file is
    set. Raises DataError that carries all problems.
    """
    try:
        atomic.make_private_dir(run.prepared_data)
        with ExitStack() as stack:
            return _Job(settings, run, stack).prepared(validation_size, progress)
    except OSError as error:
        place = error.filename or run.prepared_data
        raise DataError(
            f"the data could not be read or written: {error.strerror or error} ({place})",
            code="DATA_NOT_COPIED",
            hint="make room or see to the permissions; then prepare again",
        ) from error


class _Job:
    """The state of one preparation."""

    def __init__(self, settings: Settings, run: RunDir, stack: ExitStack) -> None:
        self._settings = settings
        self._run = run
        self._tally = ProblemTally()
        skips = settings.text("bad_rows", "reject") == "skip"
        self._rejected = stack.enter_context(RejectedRows(run.rejected_rows)) if skips else None
        self._files: list[FileFacts] = []

    def prepared(self, size: float | int | None, progress: Progress | None) -> DataReport:
        """Read, compare, split, refuse or publish."""
        sides = list(self._read(progress))
        self._report_overlap(sides)
        sentence = ""
        if size and len(sides) == 1 and not self._tally.errors:
            sentence = self._hold_out(sides, size)
        self._refuse_if_bad(sides, sentence)
        return self._publish(sides, sentence)

    def _read(self, progress: Progress | None) -> Iterator[_Side]:
        for where, name in _SOURCES:
            if self._settings.text(name):
                path = os.path.abspath(self._settings.text(name))
                yield self._read_file(where, path, self._settings.origin(name), progress)

    def _read_file(self, where: Split, path: str, origin: str, progress: Progress | None) -> _Side:
        table = open_table(path)
        facts = FileFacts(where, path, origin, table.layout, table.unit, format="task")
        side = _Side(where, facts, origin=origin)
        for position, value in table.rows():
            self._take(side, position, value)
            if progress is not None and len(side.lines) % 1000 == 0:
                progress(table.bytes_read, table.size_bytes)
        facts.input, facts.sha256 = facts.usable + facts.rejected, table.sha256
        side.counts = Counts(facts.input, facts.usable, facts.rejected)
        self._files.append(facts)
        if not facts.usable and not facts.refused:
            message = f"{path}: none of {facts.input} rows is a task" if facts.input else f"{path}: it holds no tasks"
            hint = "name a file of JSON objects, one a task"
            self._tally.add(Problem("error", "NO_USABLE_ROWS", where, message, hint, path=path, origin=origin))
        return side

    def _take(self, side: _Side, position: int, value: object) -> None:
        facts, fault = side.facts, _fault(value)
        if fault is None and facts.usable >= MOST_TASKS:
            message = f"there are more than {MOST_TASKS} tasks"
            fault = Fault("TOO_MANY_TASKS", message, "name a smaller file", scope="file")
        if fault is None:
            line = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "strict")
            side.lines.append(line)
            facts.usable += 1
            facts.lengths[len(line)] += 1
            return
        facts.refused |= fault.scope == "file"
        facts.rejected += fault.scope == "row"
        about = fault.raw if isinstance(value, Fault) else value
        problem = self._problem(facts, position + fault.line_offset, fault)
        self._tally.add(problem, about or None)
        if self._rejected is not None and fault.scope == "row":
            self._rejected.add(problem, about)

    def _problem(self, facts: FileFacts, position: int, fault: Fault) -> Problem:
        stops = fault.scope == "file" or (fault.scope == "row" and self._rejected is None)
        by_row = facts.unit == "row"
        return Problem(
            "error" if stops else "warning",
            fault.code,
            facts.where,
            fault.message,
            fault.hint,
            path=facts.path,
            line=None if by_row or position < 1 else position,
            row=position if by_row else None,
            field=fault.field,
            origin=facts.origin,
        )

    def _report_overlap(self, sides: list[_Side]) -> None:
        if len(sides) < 2:
            return
        shared = set(sides[0].lines) & set(sides[1].lines)
        if shared:
            allowed = self._settings.values.get("allow_overlap") is True
            severity: Severity = "warning" if allowed else "error"
            message = f"{len(shared)} tasks stand in the training file and in the evaluation file"
            hint = "remove them from one of the two, or set --option allow_overlap=true"
            self._tally.add(Problem(severity, "OVERLAP", "validation", message, hint, path=sides[1].facts.path))

    def _hold_out(self, sides: list[_Side], size: float | int) -> str:
        train, seed = sides[0], int(self._settings.values["split_seed"])
        try:
            wanted = splitting.wanted_rows(size, len(train.lines))
            chosen = splitting.choose_validation([_fingerprint(line, seed) for line in train.lines], wanted)
        except splitting.SplitImpossible as error:
            hint = "name an evaluation file, or set val_size to another value or to 0"
            self._tally.add(
                Problem("error", "SPLIT_IMPOSSIBLE", "train", f"val_size: {error}", hint, path=train.facts.path)
            )
            return ""
        kept = [line for line, held in zip(train.lines, chosen, strict=True) if not held]
        held = [line for line, held in zip(train.lines, chosen, strict=True) if held]
        facts, origin = train.facts, f"split of the training file (val_size {size}, seed {seed})"
        counts = Counts(facts.input - len(held), len(kept), facts.rejected)
        sides[:] = [
            _Side("train", facts, kept, counts, train.origin),
            _Side("validation", facts, held, Counts(len(held), len(held), 0), origin),
        ]
        return f"{len(held)} of {len(chosen)} tasks are held out; val_size {size}, seed {seed}"

    def _refuse_if_bad(self, sides: list[_Side], sentence: str) -> None:
        if not self._tally.errors:
            return
        self._write_report(sides, sentence, "Refused: nothing was written for training.")
        first = next(problem for problem in self._tally.kept if problem.severity == "error")
        more = f" (and {self._tally.errors - 1} more)" if self._tally.errors > 1 else ""
        raise DataError(
            first.message + more,
            hint=first.hint or "see the report",
            problems=self._tally.kept,
            details=refusals.details(self._run, {side.where: side.counts for side in sides}, self._tally.counts),
        )

    def _publish(self, sides: list[_Side], sentence: str) -> DataReport:
        folder = self._run.prepared_data
        reports = []
        for side in sides:
            source = (side.facts.path, side.facts.sha256)
            file = task_files.write(folder, side.where, side.lines, source)
            lengths = length_stats(Counter(map(len, side.lines)))
            reports.append(SplitReport(side.where, "task", file, side.counts, lengths, side.origin))
        rejected_path = self._rejected.finish() if self._rejected is not None else None
        task_files.remove_others(folder, [report.snapshot.path for report in reports])
        snapshots.remove_others(folder, [rejected_path or ""])
        left_out = sum(facts.rejected for facts in self._files)
        self._write_report(sides, sentence, f"Accepted; {left_out} rows were left out." if left_out else "Accepted.")
        problems, found = tuple(self._tally.kept), dict(self._tally.counts)
        return DataReport(tuple(reports), problems, found, None, rejected_path)

    def _write_report(self, sides: list[_Side], sentence: str, outcome: str) -> None:
        counts: dict[str, Counts] = {side.where: side.counts for side in sides}
        atomic.write_text(self._run.data_report, report_text(self._files, counts, self._tally, sentence, outcome))


def _fault(value: object) -> Fault | None:
    """Why a decoded row is no task."""
    if isinstance(value, Fault):
        return value
    if not isinstance(value, dict) or not value:
        return Fault("TASK_NOT_OBJECT", "a task has to be a JSON object with something in it", "write {...} a task")
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        return Fault("TASK_NOT_JSON", f"the task cannot be written as JSON: {error}", "use text, numbers and lists")
    return None


def _fingerprint(line: bytes, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(str(seed).encode() + b"\0" + line).digest()[:8], "big")
