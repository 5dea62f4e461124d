"""One pass over one source file: read, judge, fingerprint, write; nothing is kept of a row but 16 bytes."""

from __future__ import annotations

import gc
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

from loopai_trainer.contract import Backend, RowCheck
from loopai_trainer.files.rejected_rows import RejectedRows
from loopai_trainer.files.row_lines import BLOCK_BYTES, RowLines, RowTexts
from loopai_trainer.files.snapshots import SnapshotWriter
from loopai_trainer.files.tables import Batch, Fault, SourceTable
from loopai_trainer.files.tables.json_items import JsonItems
from loopai_trainer.files.tables.json_lines import JsonLines
from loopai_trainer.operations.problem_tally import ProblemTally
from loopai_trainer.records import Problem, Rejection, Remark, Remarked, Row, Settings, Severity
from loopai_trainer.rules.rows.columns import Columns, columns_of, plain_columns
from loopai_trainer.rules.rows.fingerprint import fingerprinter

_SAMPLE_ROWS = 100
_SAMPLE_BYTES = 16 << 20
_SAMPLE_ITEMS = 10_000
"""Faults at the start of a file must not fill the memory while rows to tell the format by are looked for."""
_ROWS_BETWEEN_PROGRESS = 2000

Split = Literal["train", "validation"]
Some = Batch | tuple[Sequence[int], RowTexts]
"""Rows to be judged, or such as are good already."""


@dataclass(slots=True)
class FileFacts:
    """What a pass found out. `lengths`: rows by number of characters; `notes`: conversions by code.

    `by_item`: lines do not tell rows apart, so that items are named by their number; `skipped`: the numbers of the
    items that cannot be used, in order (kept for files of items alone).
    """

    where: Split
    path: str
    origin: str
    layout: str
    unit: str
    format: str = "unknown"
    sha256: str = ""
    input: int = 0
    usable: int = 0
    rejected: int = 0
    refused: bool = False
    lengths: Counter[int] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    prompts: array[int] = field(default_factory=lambda: array("Q"))
    answers: array[int] = field(default_factory=lambda: array("q"))
    by_item: bool = False
    skipped: array[int] = field(default_factory=lambda: array("Q"))

    def item_of(self, usable: int) -> int:
        """The 1-based number in the file of the usable row with that 0-based index."""
        return usable + 1 + bisect_right(range(len(self.skipped)), usable, key=lambda i: self.skipped[i] - i - 1)


@contextmanager
def collection_paused() -> Iterator[None]:
    """No search for reference cycles: rows and what is found of them make none, and it takes a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class RowPass:
    """Reads one table. `rejected` is given if bad rows are to be left out: then they are warnings, not errors."""

    def __init__(
        self, table: SourceTable, where: Split, origin: str, tally: ProblemTally, rejected: RejectedRows | None
    ) -> None:
        self._table = table
        self._tally = tally
        self._rejected = rejected
        self._severity: Severity = "error" if rejected is None else "warning"
        self.facts = FileFacts(where, table.path, origin, table.layout, table.unit)

    def run(
        self,
        backend: Backend,
        settings: Settings,
        writer: SnapshotWriter,
        seed: int | None,
        progress: Callable[[int], None] | None,
    ) -> FileFacts:
        """Write the usable rows into `writer` and count the others. Raises OSError if the file cannot be read on.

        `seed`: by which a split will be made of the prompts' fingerprints; None if none will.
        """
        facts, table = self.facts, self._table
        prints, lines = fingerprinter(seed), RowLines()
        batches = table.blocks_or_batches(lines, BLOCK_BYTES) if isinstance(table, JsonLines) else table.batches()
        first, sample = self._sample(batches)
        facts.format, check = backend.row_check(settings, sample)
        lines.check = check
        with collection_paused():
            for rows, positions, contents in self._judged(chain(first, batches), check, progress):
                prompts, answers = prints.of(rows)
                facts.prompts.extend(prompts)
                facts.answers.extend(answers)
                facts.lengths.update(writer.add_rows(rows, positions, contents))
        facts.by_item = table.shared_lines
        facts.input = facts.usable + facts.rejected
        facts.sha256 = table.sha256
        facts.notes.update(table.notes)
        return facts

    def _sample(self, batches: Iterator[Some]) -> tuple[list[Some], list[object]]:
        """The first batches, and of them the rows to tell the format by."""
        first: list[Some] = []
        sample: list[object] = []
        seen = 0
        for batch in batches:
            first.append(batch)
            for value in batch[1] if isinstance(batch[1], list) else ():
                seen += 1
                if not isinstance(value, Fault):
                    sample.append(value)
                many = self._table.unit == "line" and self._table.bytes_read > _SAMPLE_BYTES
                if len(sample) >= _SAMPLE_ROWS or seen >= _SAMPLE_ITEMS or many:
                    return first, sample
        return first, sample

    def _judged(
        self, batches: Iterator[Some], check: RowCheck, progress: Callable[[int], None] | None
    ) -> Iterator[tuple[Columns, Sequence[int], Any]]:
        """The usable rows of each batch, their positions and, if there is one, an Arrow array of their contents."""
        facts, seen = self.facts, 0
        for positions, values in batches:
            if isinstance(values, RowTexts):
                facts.usable += len(values)
                yield values.columns, positions, values.contents
            elif (rows := plain_columns(check, values)) is not None:
                facts.usable += len(values)
                yield rows, positions, None
            elif found := list(self._one_by_one(positions, values, check)):
                yield columns_of(found), [row.source_line for row in found], None
            before, seen = seen, seen + len(values)
            if progress is not None:
                for _ in range(before // _ROWS_BETWEEN_PROGRESS, seen // _ROWS_BETWEEN_PROGRESS):
                    progress(self._table.bytes_read)

    def _one_by_one(self, positions: Sequence[int], values: Sequence[object], check: RowCheck) -> Iterator[Row]:
        for position, value in zip(positions, values, strict=True):
            if type(value) is Fault:
                self._fault(position, value)
                continue
            verdict = check(value, position)
            if type(verdict) is Row:
                row = verdict
            elif isinstance(verdict, Remarked):
                row = verdict.row
                self._remarks(verdict.remarks, position, value)
            else:
                self._reject(verdict, position, value)
                continue
            self.facts.usable += 1
            yield row

    def _fault(self, position: int, fault: Fault) -> None:
        severity: Severity = self._severity
        if fault.scope == "file":
            severity = "error"
            self.facts.refused = True
        elif fault.scope == "remark":
            severity = "warning"
        else:
            self._count_rejected()
        problem = self._problem(
            severity,
            position + fault.line_offset,
            fault.code,
            fault.message if fault.scope == "file" else self._item(fault.scope == "remark") + fault.message,
            fault.hint,
            fault.field,
        )
        self._tally.add(problem, fault.raw or None)
        if fault.scope == "row" and self._rejected is not None:
            self._rejected.add(problem, fault.raw)

    def _reject(self, verdict: Rejection | Row, position: int, value: object) -> None:
        assert isinstance(verdict, Rejection)
        self._count_rejected()
        message = self._item() + verdict.message
        problem = self._problem(self._severity, position, verdict.code, message, verdict.hint, verdict.field)
        self._tally.add(problem, value)
        if self._rejected is not None:
            self._rejected.add(problem, value)

    def _remarks(self, remarks: tuple[Remark, ...], position: int, value: object) -> None:
        for remark in remarks:
            if remark.note:
                self.facts.notes[remark.message] += 1
            else:
                message = self._item(ahead=True) + remark.message
                problem = self._problem("warning", position, remark.code, message, remark.hint, remark.field)
                self._tally.add(problem, value)

    def _count_rejected(self) -> None:
        self.facts.rejected += 1
        if isinstance(self._table, JsonItems):
            self.facts.skipped.append(self._seen())

    def _seen(self) -> int:
        return self.facts.usable + self.facts.rejected

    def _item(self, ahead: bool = False) -> str:
        """'item 3 of the list: ', if its line alone does not tell which is meant; `ahead`: it is not counted yet."""
        whole = "list" if self._table.layout == "JSON list" else "file"
        return f"item {self._seen() + ahead} of the {whole}: " if self._table.shared_lines else ""

    def _problem(
        self, severity: Severity, position: int, code: str, message: str, hint: str, field_name: str | None
    ) -> Problem:
        by_line = self._table.unit == "line"
        line, row = (position or None, None) if by_line else (None, position)
        return Problem(
            severity,
            code,
            self.facts.where,
            message,
            hint,
            path=self._table.path,
            line=line,
            row=row,
            field=field_name,
            origin=self.facts.origin,
        )
