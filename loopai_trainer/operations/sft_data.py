"""SFT data: source files in, checked snapshots, registry and report out; nothing is lost without being told."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from loopai_trainer.contract import Backend
from loopai_trainer.errors import DataError
from loopai_trainer.files import atomic, snapshots
from loopai_trainer.files.arrow_memory import steady_memory
from loopai_trainer.files.rejected_rows import RejectedRows
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.files.snapshots import SnapshotWriter
from loopai_trainer.files.tables import open_table
from loopai_trainer.operations import data_report, dataset_info, refusals
from loopai_trainer.operations.data_report import length_stats, report_text
from loopai_trainer.operations.problem_tally import ProblemTally
from loopai_trainer.operations.row_pass import FileFacts, RowPass, Split, collection_paused
from loopai_trainer.operations.row_repeats import report_overlap, report_repeats
from loopai_trainer.records import Counts, DataReport, InputFile, LengthStats, Problem, Settings, Severity, SplitReport
from loopai_trainer.rules import splitting

Progress = Callable[[int, int], None]
"""(bytes read, bytes in all)."""

_SOURCES: tuple[tuple[Split, str], ...] = (
    ("train", "train_input_dataset_path"),
    ("validation", "train_input_eval_dataset_path"),
)
_MAP_CODES = (
    *("DATASET_INFO_KEY", "DATASET_INFO_VALUE", "DATASET_INFO_UNSUPPORTED", "DATASET_INFO_INCOMPLETE"),
    *("TAG_NOT_MAPPED", "COLUMN_NOT_MAPPED", "COLUMN_NOT_FOUND"),
)
"""One correction of the registry mends all such rows."""


@dataclass(slots=True)
class _Side:
    """One split on its way: its rows in a writer, and what is known of them."""

    where: Split
    facts: FileFacts
    writer: SnapshotWriter
    counts: Counts
    lengths: Counter[int]
    origin: str


def prepare_sft_data(
    backend: Backend,
    settings: Settings,
    run: RunDir,
    validation_size: float | int | None,
    split_seed: int,
    progress: Progress | None,
) -> DataReport:
    """Check every row, write the snapshots, their registry and data_check_report.txt into `run`.

    `validation_size` (a share below 1, else a number of rows) holds rows of the training file out, unless an
    evaluation file is set. Raises DataError that carries all problems; what an earlier call wrote is then kept.
    """
    _refuse_pattern(run.prepared_data)
    try:
        atomic.make_private_dir(run.prepared_data)
        with steady_memory(), ExitStack() as stack:
            job = _Job(backend, settings, run, split_seed, stack)
            job.read(progress, split_wanted=bool(validation_size))
            with collection_paused():
                job.compare()
            split = job.split(validation_size)
            job.refuse_if_bad(split)
            return job.publish(split)
    except OSError as error:
        # Not for what a file holds: the disk that is read or written failed.
        place = error.filename or run.prepared_data
        raise DataError(
            f"the data could not be read or written: {error.strerror or error} ({place})",
            code="DATA_NOT_COPIED",
            hint="make room or see to the permissions; then prepare again",
        ) from error


def _refuse_pattern(folder: str) -> None:
    # datasets 4.0.0 takes a file's path for a pattern: under "x[1]" it finds no rows, under "x*" those of "xy" too.
    found = next((character for character in folder if character in "*?[]"), None)
    if found is not None:
        raise DataError(
            f"LLaMA-Factory cannot read data under a path with {found!r}: {folder}",
            code="PATH_IS_PATTERN",
            hint="choose an --output-dir without * ? [ and ]",
        )


class _Job:
    """The state of one preparation. Everything temporary goes away with `stack`."""

    def __init__(self, backend: Backend, settings: Settings, run: RunDir, seed: int, stack: ExitStack) -> None:
        self._backend = backend
        self._settings = settings
        self._run = run
        self._seed = seed
        self._print_seed: int | None = seed
        self._stack = stack
        self._tally = ProblemTally()
        skips = settings.text("bad_rows", "reject") == "skip"
        self._rejected = stack.enter_context(RejectedRows(run.rejected_rows)) if skips else None
        self._sides: list[_Side] = []
        self._files: list[FileFacts] = []

    def read(self, progress: Progress | None, *, split_wanted: bool) -> None:
        """Pass over each source file once."""
        paths = {name: self._settings.text(name) for _, name in _SOURCES}
        info = dataset_info.load(self._settings)
        total = sum(os.path.getsize(path) for path in paths.values() if os.path.isfile(path))
        done, self._print_seed = 0, self._seed if split_wanted and not paths[_SOURCES[1][1]] else None
        for where, name in _SOURCES:
            if where == "validation" and not paths[name]:
                continue
            path, before = os.path.abspath(paths[name]), done
            tell = None if progress is None else lambda count, before=before: progress(before + count, total)
            settings = self._settings if info is None else self._mapped(info, path)
            facts, writer = self._read_file(where, path, self._settings.origin(name), tell, settings)
            done += os.path.getsize(path) if os.path.isfile(path) else 0
            counts = Counts(facts.input, facts.usable, facts.rejected)
            self._files.append(facts)
            self._sides.append(_Side(where, facts, writer, counts, facts.lengths, facts.origin))
        if progress is not None:
            progress(total, total)

    def _mapped(self, info: dataset_info.DatasetInfo, path: str) -> Settings:
        entry = info.entry_for(path)
        for problem in entry.problems:
            if problem not in self._tally.kept:
                self._tally.add(problem)
        return dataset_info.with_map(self._settings, entry)

    def _read_file(
        self, where: Split, path: str, origin: str, tell: Callable[[int], None] | None, settings: Settings
    ) -> tuple[FileFacts, SnapshotWriter]:
        writer = self._stack.enter_context(SnapshotWriter(self._run.prepared_data))
        one = RowPass(open_table(path), where, origin, self._tally, self._rejected)
        facts = one.run(self._backend, settings, writer, self._print_seed, tell)
        if facts.by_item:
            writer.name_items(map(facts.item_of, range(facts.usable)))
        if not facts.usable and not facts.refused:
            code, message = ("NO_USABLE_ROWS", f"none of {facts.input} rows can be trained on")
            hint = "mend the rows as the other findings say"
            if not facts.input:
                code, message, hint = "NO_ROWS", "the file holds no rows", "name a file that holds rows"
            self._tally.add(Problem("error", code, where, message, hint, path=path, origin=origin))
        return facts, writer

    def compare(self) -> None:
        """Look for rows that repeat each other, within a file and across the two."""
        for side in self._sides:
            report_repeats(side.facts, side.writer.close(), self._tally)
        if len(self._sides) == 2:
            train, held = self._sides
            allowed = str(self._settings.values.get("allow_overlap", False)).lower() in ("true", "1", "yes")
            severity: Severity = "warning" if allowed else "error"
            report_overlap(train.facts, train.writer.close(), held.facts, held.writer.close(), severity, self._tally)

    def split(self, size: float | int | None) -> str:
        """Hold rows out of the training file, if that is wanted and there is no evaluation file; gives a sentence."""
        train = self._sides[0]
        if not size or len(self._sides) == 2 or not train.facts.usable or self._tally.errors:
            return ""
        try:
            wanted = splitting.wanted_rows(size, train.facts.usable)
            chosen = splitting.choose_validation(train.facts.prompts, wanted)
        except splitting.SplitImpossible as error:
            hint = "name an evaluation file, or set val_size to another value or to 0"
            self._tally.add(
                Problem("error", "SPLIT_IMPOSSIBLE", "train", f"val_size: {error}", hint, path=train.facts.path)
            )
            return ""
        self._divide(train, chosen, size)
        held = self._sides[1].counts.usable
        less = "" if held == wanted else f" (not {wanted}: repeats of a prompt stay on one side)"
        return f"{held} of {train.facts.usable} usable rows are held out{less}; val_size {size}, seed {self._seed}"

    def _divide(self, train: _Side, chosen: bytearray, size: float | int) -> None:
        folder, facts = self._run.prepared_data, train.facts
        kept = self._stack.enter_context(SnapshotWriter(folder))
        held = self._stack.enter_context(SnapshotWriter(folder))
        kept_lengths, held_lengths = snapshots.split_snapshot(train.writer.close(), chosen, kept, held)
        counts = Counts(facts.input - held.rows, facts.usable - held.rows, facts.rejected)
        held_counts = Counts(held.rows, held.rows, 0)
        origin = f"split of the training file (val_size {size}, seed {self._seed})"
        self._sides = [
            _Side("train", facts, kept, counts, kept_lengths, train.origin),
            _Side("validation", facts, held, held_counts, held_lengths, origin),
        ]

    def refuse_if_bad(self, split: str) -> None:
        """Write the report and raise DataError if there is any error."""
        if not self._tally.errors:
            return
        self._write_report(split, "Refused: nothing was written for training.")
        raise DataError(
            self._summary(),
            hint=self._advice(),
            problems=self._tally.kept,
            details=refusals.details(self._run, {side.where: side.counts for side in self._sides}, self._tally.counts),
        )

    def _summary(self) -> str:
        rejected = sum(facts.rejected for facts in self._files)
        if rejected and self._rejected is None:
            total = sum(facts.input for facts in self._files)
            return f"{rejected} of {total} rows cannot be trained on"
        first = next(problem for problem in self._tally.kept if problem.severity == "error")
        more = self._tally.errors - 1
        return first.message + (f" (and {more} more)" if more else "")

    def _advice(self) -> str:
        by_map = next((p.hint for p in self._tally.kept if p.severity == "error" and p.code in _MAP_CODES), None)
        if by_map is not None:
            return by_map
        if any(facts.rejected and not facts.usable for facts in self._files):
            return "mend the rows that the report lists"  # leaving all of them out would leave none
        if self._rejected is None and any(facts.rejected for facts in self._files):
            return "mend the rows that the report lists, or leave them out with --bad-rows skip"
        return next((p.hint for p in self._tally.kept if p.severity == "error" and p.hint), "see the report")

    def publish(self, split: str) -> DataReport:
        """Give the snapshots their names, write registry and report, remove what an earlier prepare left."""
        reports = tuple(self._publish_side(side) for side in self._sides)
        registry = snapshots.write_registry(
            self._run.dataset_info, {report.where: report.snapshot.path for report in reports}
        )
        rejected_path = self._rejected.finish() if self._rejected is not None else None
        wanted = [report.snapshot.path for report in reports]
        snapshots.remove_others(self._run.prepared_data, [*wanted, registry.path, rejected_path or ""])
        left_out = sum(facts.rejected for facts in self._files)
        outcome = "Accepted." if not left_out else f"Accepted; {left_out} rows were left out (rejected_rows.jsonl)."
        self._write_report(split, outcome)
        return DataReport(reports, tuple(self._tally.kept), dict(self._tally.counts), registry, rejected_path)

    def _publish_side(self, side: _Side) -> SplitReport:
        snapshot: InputFile = side.writer.finish(side.where, (side.facts.path, side.facts.sha256))
        lengths: LengthStats = length_stats(side.lengths)
        return SplitReport(side.where, side.facts.format, snapshot, side.counts, lengths, side.origin)

    def _write_report(self, split: str, outcome: str) -> None:
        counts: dict[str, Counts] = {side.where: side.counts for side in self._sides}
        atomic.write_text(self._run.data_report, report_text(self._files, counts, self._tally, split, outcome))


def add_to_report(run: RunDir, section: str, errors: Sequence[Problem] = ()) -> None:
    """Put what the plan's review found below what data_check_report.txt says already.

    `section`: rows in tokens; `errors`: what the plan is refused for, of which the report tells what is the data's.
    """
    if section:
        with open(run.data_report, encoding="utf-8") as file:
            before = file.read()
        refused = next((problem.message for problem in errors if problem.where in ("train", "validation")), "")
        atomic.write_text(run.data_report, f"{data_report.with_tokens(before, section, refused)}\n{section}\n")
