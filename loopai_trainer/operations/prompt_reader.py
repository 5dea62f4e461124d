"""One source of GRPO data, read once: a native Parquet judged by columns, anything else converted row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow

from loopai_trainer.files import exact_copies
from loopai_trainer.files.hashing import sha256_file
from loopai_trainer.files.prompt_columns import NativeFile, PromptBlock
from loopai_trainer.files.prompt_files import Spool, temporary
from loopai_trainer.files.prompt_lines import LineReader, PromptLines, judged, keys_and_sizes, truth_keys
from loopai_trainer.files.rejected_rows import RejectedRows
from loopai_trainer.files.tables import Batch, Fault, SourceTable, open_table
from loopai_trainer.files.tables.json_items import JsonItems
from loopai_trainer.files.tables.json_lines import JsonLines
from loopai_trainer.operations.offered_adapters import Rewrite, rewritten
from loopai_trainer.operations.problem_tally import ProblemTally
from loopai_trainer.operations.prompt_side import PromptSide
from loopai_trainer.operations.row_pass import FileFacts, Split, collection_paused
from loopai_trainer.records import Problem, Rejection, Severity
from loopai_trainer.rules.prompts import records
from loopai_trainer.rules.prompts.adapters import Adapter
from loopai_trainer.rules.prompts.columns import PromptColumns, columns_of, quick_columns
from loopai_trainer.rules.prompts.keys import TextKeys, answer_keys, joined_texts, single_texts
from loopai_trainer.rules.prompts.prompt_row import PromptRow

_TOGETHER = 2048
_MERGED_BATCHES = 16
"""At the most, so that long rows do not add up in memory."""
_NAMELESS = frozenset((*records.METADATA, "metadata")).isdisjoint
_KINDS = {bool: "bool", int: "int", float: "float", str: "str", list: "list", dict: "dict"}

Tell = Callable[[int], None]
"""Called with the number of bytes read so far."""


class PromptReader:
    """Reads sources. `rejected` is given if bad rows are left out: then they are warnings, not errors."""

    def __init__(
        self,
        folder: str,
        tally: ProblemTally,
        rejected: RejectedRows | None,
        keys: TextKeys,
        adapter: str,
        data_source: str,
        text_only: bool,
        rewrite: Rewrite | None = None,
    ) -> None:
        self._folder, self._rewrite = folder, rewrite
        self._tally = tally
        self._rejected = rejected
        self._severity: Severity = "error" if rejected is None else "warning"
        self._keys, self._adapter, self._data_source = keys, adapter, data_source
        self._text_only, self._within = text_only, 0

    def read_native(self, where: Split, path: str, origin: str, tell: Tell | None) -> PromptSide:
        """Judge an exact copy of a native Parquet file. Raises OSError."""
        facts = FileFacts(where, path, origin, "Parquet", "row", format="native")
        side = PromptSide(where, facts, native=temporary(self._folder))
        exact_copies.copy_exactly(path, side.native)
        facts.sha256 = sha256_file(side.native)
        try:
            self._judge_native(side, tell)
        except (pyarrow.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:
                raise  # a disk's error; Arrow has none for pages that it cannot decode
            self._file_fault(facts, _broken(error))
        return side

    def _judge_native(self, side: PromptSide, tell: Tell | None) -> None:
        facts, check = side.facts, Adapter("native", "", self._text_only)
        with NativeFile(side.native) as file:
            columns, size, seen = file.needed(), 0, 0
            for batch in file.batches(columns):
                size += batch.nbytes
                block, rows = self._good(side, PromptBlock(batch), seen, check)
                seen += batch.num_rows
                facts.input = seen
                if rows:
                    self._take_block(side, block, rows)
                if tell is not None:
                    tell(size)
        facts.usable = len(side.positions)
        side.adapters["native"] = facts.usable

    def _good(
        self, side: PromptSide, block: PromptBlock, first: int, check: Adapter
    ) -> tuple[PromptBlock, range | list[int]]:
        """The good rows of a block and their numbers in the file; the others are rejected."""
        count = block.batch.num_rows
        bad: dict[int, None] = {}
        try:
            suspects = block.suspects(self._text_only)
            for start in range(0, len(suspects), _TOGETHER):
                some = suspects[start : start + _TOGETHER]
                values = block.batch.take(pyarrow.array(some, pyarrow.int64())).to_pylist()
                for row, value in zip(some, values, strict=True):
                    verdict = check(value)
                    if isinstance(verdict, Rejection):
                        self._reject(side.facts, verdict, first + row, value)
                        bad[row] = None
            block.truths()
            if not bad:
                block.texts()
        except (UnicodeDecodeError, pyarrow.ArrowInvalid):
            return self._decodable(side, block, first, check, bad)
        flags = bytearray(count)
        for row in bad:
            flags[row] = 1
        side.bad += flags
        if not bad:
            return block, range(first, first + count)
        mask = pyarrow.array([not flag for flag in flags], pyarrow.bool_())
        return PromptBlock(block.batch.filter(mask)), [first + row for row in range(count) if not flags[row]]

    def _decodable(
        self, side: PromptSide, block: PromptBlock, first: int, check: Adapter, bad: dict[int, None]
    ) -> tuple[PromptBlock, range | list[int]]:
        """As `_good`, row by row: for a block that holds bytes which are not UTF-8."""
        flags = bytearray(block.batch.num_rows)
        for row in range(block.batch.num_rows):
            verdict: PromptRow | Rejection
            value: object = None
            try:
                value = block.batch.slice(row, 1).to_pylist()[0]
                verdict = check(value)
            except UnicodeDecodeError:
                hint = "write the file again from UTF-8 text"
                verdict = Rejection("ENCODING", "a text column holds bytes that are not UTF-8", hint)
            if isinstance(verdict, Rejection):
                flags[row] = 1
                if row not in bad:
                    self._reject(side.facts, verdict, first + row, value)
        side.bad += flags
        mask = pyarrow.array([not flag for flag in flags], pyarrow.bool_())
        return PromptBlock(block.batch.filter(mask)), [first + row for row, flag in enumerate(flags) if not flag]

    def _take_block(self, side: PromptSide, block: PromptBlock, rows: range | list[int]) -> None:
        facts, truths = side.facts, block.truths()
        facts.prompts.extend(self._keys(block.texts()))
        facts.answers.extend(answer_keys(truths))
        side.positions.extend(rows)
        side.sizes.extend(block.characters())
        side.data_sources.update(block.data_sources())
        side.kinds.update(_kinds(truths))

    def read_converted(self, where: Split, path: str, origin: str, spool: Spool, tell: Tell | None) -> PromptSide:
        """Convert each record into `spool`. Raises OSError."""
        table = open_table(path)
        facts = FileFacts(where, path, origin, table.layout, table.unit)
        side = PromptSide(where, facts, spool=spool)
        with collection_paused():
            self._convert(side, table, spool, tell)
        facts.sha256 = table.sha256
        facts.usable = len(side.positions)
        facts.input = facts.usable + facts.rejected
        facts.by_item = table.shared_lines
        facts.notes.update(table.notes)
        facts.format = " + ".join(name for name, _ in side.adapters.most_common()) or "unknown"
        if "ground_truth" in spool.truth_types.mixed:
            message = "the ground truths are lists or objects of different types, which one column cannot hold"
            self._file_fault(facts, Fault("GROUND_TRUTH_MIXED", message, "give them one shape", "file"))
        spool.close()
        return side

    def _convert(self, side: PromptSide, table: SourceTable, spool: Spool, tell: Tell | None) -> None:
        check = Adapter(self._adapter, self._data_source, self._text_only)
        batches = rewritten(table.batches(), self._rewrite) if self._rewrite else _merged(table, self._adapter)
        for positions, values in batches:
            if not isinstance(values, PromptLines):
                self._take_values(side, table, positions, values, spool, check)
            elif set(side.kinds) <= {"str"}:
                self._take_lines(side, table, positions[0], values, spool, check)
            else:
                self._take_values(side, table, positions, values.values(), spool, check)
            if tell is not None:
                tell(table.bytes_read)

    def _take_values(
        self,
        side: PromptSide,
        table: SourceTable,
        positions: Sequence[int],
        values: list[object],
        spool: Spool,
        check: Adapter,
    ) -> None:
        quick, places = None, positions
        if not table.shared_lines and set(side.kinds) <= {"str"}:
            quick = quick_columns(values, self._adapter, self._data_source, check)
        if quick is None:
            rows = self._one_by_one(side, table, positions, values, check)
            columns, places = columns_of([row for _, row in rows]), tuple(place for place, _ in rows)
        else:
            columns, bad = quick
            if bad:
                places = self._without(side, table, positions, values, bad)
            left_out = {index for index, _ in bad}
            _note_metadata(side, [value for index, value in enumerate(values) if index not in left_out])
        self._take_columns(side, columns, places, spool)

    def _without(
        self,
        side: PromptSide,
        table: SourceTable,
        positions: Sequence[int],
        values: Sequence[object],
        bad: Sequence[tuple[int, Rejection]],
    ) -> list[int]:
        """Reject these rows of a batch; gives the positions of the others."""
        left_out = {index for index, _ in bad}
        seen = self._seen(side)
        for index, verdict in bad:
            self._reject(side.facts, verdict, positions[index], values[index])
            if isinstance(table, JsonItems):
                side.facts.skipped.append(seen + index + 1)
        return [position for index, position in enumerate(positions) if index not in left_out]

    def _one_by_one(
        self, side: PromptSide, table: SourceTable, positions: Sequence[int], values: Sequence[object], check: Adapter
    ) -> list[tuple[int, PromptRow]]:
        rows: list[tuple[int, PromptRow]] = []
        named: list[object] = []
        for position, value in zip(positions, values, strict=True):
            self._within = len(rows)
            if type(value) is Fault:
                self._fault(side, table, position, value)
                continue
            verdict = check(value)
            if type(verdict) is PromptRow:
                kind = _KINDS.get(type(verdict.ground_truth), "other")
                if not side.kinds or kind in side.kinds:
                    side.kinds[kind] += 0
                    rows.append((position, verdict))
                    named.append(value)
                    continue
                verdict = _mixed(kind, next(iter(side.kinds)))
            assert isinstance(verdict, Rejection)
            self._reject(side.facts, verdict, position, value, self._item(side, table))
            self._skip(side, table)
        self._within = 0
        _note_metadata(side, named)
        return rows

    def _take_columns(self, side: PromptSide, columns: PromptColumns, positions: Sequence[int], spool: Spool) -> None:
        if not positions:
            return
        facts = side.facts
        texts = joined_texts(columns.prompts()) if columns.turns else single_texts(columns.contents)
        facts.prompts.extend(self._keys(texts))
        facts.answers.extend(answer_keys(columns.truths))
        facts.notes.update(columns.notes)
        side.positions.extend(positions)
        side.sizes.extend(spool.add(columns, positions))
        side.adapters.update(columns.adapters)
        side.data_sources.update(columns.data_sources)
        side.markers.update(columns.markers)
        side.kinds.update(_kinds(columns.truths))

    def _take_lines(
        self, side: PromptSide, table: SourceTable, lines: int, block: PromptLines, spool: Spool, check: Adapter
    ) -> None:
        """`lines`: the first one of the block."""
        facts, found = side.facts, judged(block, self._data_source, check)
        places: Sequence[int] = range(lines, lines + len(block))
        if found.bad:
            places = self._without(side, table, places, block.values(), found.bad)
        if not places:
            return
        prompts, sizes = keys_and_sizes(found.questions, self._keys)
        facts.prompts.extend(prompts)
        facts.answers.extend(truth_keys(found.truths))
        facts.notes.update(found.notes)
        side.positions.extend(places)
        side.sizes.extend(sizes)
        spool.add_questions(found.questions, found.truths, found.data_source, places)
        side.adapters[found.adapter] += len(places)
        side.data_sources[found.data_source] += len(places)
        side.kinds["str"] += len(places)
        side.markers.update(found.markers)
        side.name(found.names)

    def _fault(self, side: PromptSide, table: SourceTable, position: int, fault: Fault) -> None:
        facts = side.facts
        if fault.scope == "file":
            self._file_fault(facts, fault, position)
            return
        severity: Severity = "warning" if fault.scope == "remark" else self._severity
        message = self._item(side, table) + fault.message
        problem = _problem(facts, severity, fault.code, message, fault.hint, position + fault.line_offset, fault.field)
        self._tally.add(problem, fault.raw or None)
        if fault.scope == "row":
            facts.rejected += 1
            self._skip(side, table)
            if self._rejected is not None:
                self._rejected.add(problem, fault.raw)

    def _file_fault(self, facts: FileFacts, fault: Fault, position: int | None = None) -> None:
        facts.refused = True
        at = position if position or facts.unit == "row" else None
        problem = _problem(facts, "error", fault.code, fault.message, fault.hint, at, fault.field)
        self._tally.add(problem, fault.raw or None)

    def _reject(self, facts: FileFacts, verdict: Rejection, position: int, value: object, item: str = "") -> None:
        facts.rejected += 1
        message = item + verdict.message
        problem = _problem(facts, self._severity, verdict.code, message, verdict.hint, position, verdict.field)
        self._tally.add(problem, value)
        if self._rejected is not None:
            self._rejected.add(problem, value)

    def _item(self, side: PromptSide, table: SourceTable) -> str:
        """'item 3 of the list: ', if its line alone does not tell which is meant."""
        whole = "list" if table.layout == "JSON list" else "file"
        return f"item {self._seen(side) + 1} of the {whole}: " if table.shared_lines else ""

    def _skip(self, side: PromptSide, table: SourceTable) -> None:
        if isinstance(table, JsonItems):
            side.facts.skipped.append(self._seen(side))

    def _seen(self, side: PromptSide) -> int:
        return len(side.positions) + self._within + side.facts.rejected

    def refuse_if_none(self, side: PromptSide) -> None:
        """An error for a source without any usable row, with the advice of what was found first."""
        facts = side.facts
        if facts.usable or facts.refused:
            return
        code, message, hint = "NO_ROWS", "the file holds no rows", "name a file that holds rows"
        if facts.input:
            found = [number for number, problem in enumerate(self._tally.kept) if problem.where == side.where]
            for number in found:
                self._tally.kept[number] = replace(self._tally.kept[number], severity="error")
            first = self._tally.kept[found[0]]
            code, hint = "NO_USABLE_ROWS", first.hint
            message = f"none of {facts.input} rows can be trained on; the first: {first.message}"
        self._tally.add(
            Problem("error", code, side.where, f"{facts.path}: {message}", hint, path=facts.path, origin=facts.origin)
        )


def _merged(table: SourceTable, adapter: str) -> Iterator[Batch | tuple[Sequence[int], PromptLines]]:
    """Blocks of lines as columns, and batches of the other rows: of more rows than they are read in, where that changes
    no message, for each costs something of its own."""
    if isinstance(table, JsonItems):
        yield from table.batches()
        return
    places, items, count = list[int](), list[object](), 0
    lines = table.blocks_or_batches(LineReader(adapter)) if isinstance(table, JsonLines) else table.batches()
    for positions, values in lines:
        if not isinstance(values, PromptLines):
            places += positions
            items += values
            count += 1
        if items and (isinstance(values, PromptLines) or len(items) >= _TOGETHER or count == _MERGED_BATCHES):
            yield places, items
            places, items, count = [], [], 0
        if isinstance(values, PromptLines):
            yield positions, values
    if items:
        yield places, items


def _problem(
    facts: FileFacts, severity: Severity, code: str, message: str, hint: str, at: int | None, field_name: str | None
) -> Problem:
    line, row = (at or None, None) if facts.unit == "line" else (None, at)
    return Problem(
        severity, code, facts.where, message, hint, path=facts.path, line=line, row=row, field=field_name,
        origin=facts.origin,
    )  # fmt: skip


def _kinds(truths: list[Any]) -> Counter[str]:
    return Counter({_KINDS.get(kind, "other"): count for kind, count in Counter(map(type, truths)).items()})


def _mixed(kind: str, other: str) -> Rejection:
    message = f"the ground truth is of type {kind}, those before it are of type {other}: one column cannot hold both"
    return Rejection("GROUND_TRUTH_MIXED", message, "give all ground truths one type")


def _note_metadata(side: PromptSide, values: Sequence[Any]) -> None:
    """What each of these records names its data set or task."""
    if all(map(_NAMELESS, values)):
        side.name(() for _ in values[:1])
    else:
        side.name(map(records.metadata_of, values))


def _broken(error: Exception) -> Fault:
    first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return Fault("PARQUET_INVALID", f"not a readable Parquet file: {first_line}", "write the file again", "file")
