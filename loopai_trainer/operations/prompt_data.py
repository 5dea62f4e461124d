"""GRPO data: sources in, train and validation Parquet, manifest and report out; nothing is lost without being told."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from loopai_trainer.errors import DataError
from loopai_trainer.files import atomic, snapshots
from loopai_trainer.files.prompt_columns import native_schema
from loopai_trainer.files.prompt_files import (
    Spool,
    Target,
    converted_schema,
    divide_converted,
    divide_native,
    mask,
)
from loopai_trainer.files.rejected_rows import RejectedRows
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host.allocator import keep_freed_memory
from loopai_trainer.operations import offered_adapters, prompt_manifest, refusals
from loopai_trainer.operations.data_report import length_stats, report_text
from loopai_trainer.operations.problem_tally import ProblemTally
from loopai_trainer.operations.prompt_reader import PromptReader
from loopai_trainer.operations.prompt_repeats import report_overlap, report_repeats, rows_in
from loopai_trainer.operations.prompt_side import PromptSide
from loopai_trainer.operations.row_pass import Split
from loopai_trainer.records import Counts, DataReport, InputFile, Problem, PromptFacts, Settings, Severity, SplitReport
from loopai_trainer.rules import splitting
from loopai_trainer.rules.prompts.keys import TextKeys

Progress = Callable[[int, int], None]
"""(bytes read, bytes in all)."""

TRAIN, VALIDATION = "train.parquet", "validation.parquet"
NUMBERS_COUNT = ("prime_math",)
"""Presets whose scorer takes a number as ground truth. Source: verl 0.9.1 utils/reward_score, run on integers."""
_SOURCES: dict[Split, tuple[str, str]] = {
    "train": ("verl_source_dataset_path", "train_input_dataset_path"),
    "validation": ("verl_source_eval_dataset_path", "train_input_eval_dataset_path"),
}


class Source(NamedTuple):
    """A file to be read. `native`: as verl's own Parquet, which is reused as it is."""

    where: Split
    path: str
    origin: str
    native: bool
    reused: bool = False


@dataclass(slots=True)
class _Part:
    """One of the two files to be written: the rows of `side` whose flag is `number`; `whole`: all rows of its file."""

    where: Split
    side: PromptSide
    number: int
    whole: bool
    origin: str
    rows: int = 0
    lengths: Counter[int] = field(default_factory=Counter)


def prepare_prompt_data(
    settings: Settings, run: RunDir, reused_validation: str | None, progress: Progress | None
) -> DataReport:
    """Check every row, write train.parquet, validation.parquet, the manifest and data_check_report.txt into `run`.

    `reused_validation`: the validation file of the round before, which takes the place of a split. Raises DataError
    that carries all problems; what an earlier call wrote is then kept.
    """
    keep_freed_memory()
    try:
        atomic.make_private_dir(run.prepared_data)
        with ExitStack() as stack:
            job = _Job(settings, run, stack)
            job.read(_sources(settings, reused_validation), progress)
            job.compare()
            job.divide()
            job.refuse_if_bad()
            return job.publish()
    except OSError as error:
        # Not for what a file holds: the disk that is read or written failed.
        place = error.filename or run.prepared_data
        raise DataError(
            f"the data could not be read or written: {error.strerror or error} ({place})",
            code="DATA_NOT_COPIED",
            hint="make room or see to the permissions; then prepare again",
        ) from error


def _sources(settings: Settings, reused_validation: str | None) -> list[Source]:
    """What is read, in order; an explicit source beats a native file, and a given validation file a reused one."""
    adapter = settings.text("verl_data_adapter", "auto")
    sources = []
    for where, names in _SOURCES.items():
        name = next((name for name in names if settings.text(name)), names[1])
        path = settings.text(name)
        if path or where == "train":
            path = os.path.abspath(path)
            sources.append(Source(where, path, settings.origin(name), _is_native(path, adapter, settings)))
    if len(sources) == 1 and reused_validation:
        path = os.path.abspath(reused_validation)
        sources.append(Source("validation", path, "the round before", True, reused=True))
    return sources


def _is_native(path: str, adapter: str, settings: Settings) -> bool:
    """Whether the file is reused as it is: verl's own columns, and no adapter that is to convert them."""
    if adapter not in ("auto", "native") or not path.lower().endswith(".parquet"):
        return False
    schema = native_schema(path)
    if schema is None:
        return False
    # Without a data_source of its own it has to be written anew, with the one that was given.
    return "data_source" in schema.names or not settings.text("verl_data_source")


class _Job:
    """The state of one preparation. Everything temporary goes away with `stack`."""

    def __init__(self, settings: Settings, run: RunDir, stack: ExitStack) -> None:
        self._settings = settings
        self._run = run
        self._stack = stack
        self._tally = ProblemTally()
        # Rows are left out by default, as spec/001 says of GRPO; only an explicit wish refuses them.
        strict = settings.text("bad_rows") == "reject" and settings.origin("bad_rows") not in ("default", "unset")
        self._rejected = None if strict else stack.enter_context(RejectedRows(run.rejected_rows))
        self._sides: list[PromptSide] = []
        self._parts: list[_Part] = []
        self._flags: dict[int, bytearray] = {}
        self._split: dict[str, float | int] | None = None
        self._sentence = ""
        self._duplicates = self._shared = 0

    def read(self, sources: Sequence[Source], progress: Progress | None) -> None:
        """Pass over each source once."""
        split_wanted = len(sources) == 1
        total = sum(os.path.getsize(source.path) for source in sources if os.path.isfile(source.path))
        done = 0
        for source in sources:
            before = done
            tell = (
                None if progress is None else lambda count, before=before: progress(min(before + count, total), total)
            )
            side = self._read(source, tell, split_wanted)
            side.reused = source.reused
            done += os.path.getsize(source.path) if os.path.isfile(source.path) else 0
            self._sides.append(side)
        if progress is not None:
            progress(total, total)
        self._note_ignored(sources)

    def _read(self, source: Source, tell: Callable[[int], None] | None, split_wanted: bool) -> PromptSide:
        settings = self._settings
        mode, preset = settings.text("verl_reward_mode", "auto"), settings.text("verl_reward_preset")
        text_only = mode != "custom" and preset not in NUMBERS_COUNT
        keys = TextKeys(self._seed())
        adapter, rewrite = offered_adapters.find(settings.text("verl_data_adapter", "auto"))
        folder, named = self._run.prepared_data, settings.text("verl_data_source")
        reader = PromptReader(folder, self._tally, self._rejected, keys, adapter, named, text_only, rewrite)
        if source.native:
            side = reader.read_native(source.where, source.path, source.origin, tell)
            self._stack.enter_context(Target(folder, path=side.native))
        else:
            spool = self._stack.enter_context(Spool(folder))
            side = reader.read_converted(source.where, source.path, source.origin, spool, tell)
        reader.refuse_if_none(side)
        return side

    def _seed(self) -> int:
        # --split-seed sets the seed of any split; the older name of this one beats it where it was set.
        settings = self._settings
        own = settings.origin("verl_split_seed") not in ("default", "unset")
        name = "verl_split_seed" if own or not settings.text("split_seed") else "split_seed"
        return int(settings.text(name, "42"))

    def _note_ignored(self, sources: Sequence[Source]) -> None:
        for source in sources:
            explicit, usual = _SOURCES[source.where]
            beaten = self._settings.text(usual)
            if self._settings.text(explicit) and beaten and os.path.abspath(beaten) != source.path:
                message = f"{usual} ({beaten}) is not read, since {explicit} is set"
                hint = f"leave one of the two out (it comes from {self._settings.origin(usual)})"
                self._tally.add(Problem("warning", "SOURCE_NOT_READ", source.where, message, hint, path=beaten))

    def compare(self) -> None:
        """Look for prompts that repeat each other, within a source and across the two."""
        for side in self._sides:
            if not side.reused and not side.facts.refused:
                self._duplicates += report_repeats(side, self._tally)
        if len(self._sides) == 2 and not self._sides[1].reused and not any(side.facts.refused for side in self._sides):
            allowed = self._settings.text("allow_overlap").lower() in ("true", "1", "yes")
            severity: Severity = "warning" if allowed else "error"
            self._shared = report_overlap(self._sides[0], self._sides[1], severity, self._tally)

    def divide(self) -> None:
        """Decide which row goes where."""
        train = self._sides[0]
        if self._tally.errors or any(side.facts.refused for side in self._sides):
            return
        if len(self._sides) == 1:
            self._hold_out(train)
            return
        held = self._sides[1]
        left_out = 0
        flags = bytearray(b"\1") * train.facts.usable
        if held.reused:
            for row in rows_in(train, held):
                flags[row] = 0
                left_out += 1
            self._sentence = f"validation reused from the round before ({held.facts.path})"
        if left_out:
            self._sentence += f"; {left_out} rows whose prompt stands in it were left out of train"
            if left_out == train.facts.usable:
                message = "every prompt stands in the validation data of the round before; nothing is left to train on"
                hint = "set --option verl_reuse_previous_validation=false"
                self._tally.add(Problem("error", "NO_USABLE_ROWS", "train", message, hint, path=train.facts.path))
        self._flags = {0: flags, 1: bytearray(b"\1") * held.facts.usable}
        whole = not left_out and not train.facts.rejected
        self._parts = [
            self._part("train", 0, 1, whole, train.facts.origin),
            self._part("validation", 1, 1, not held.facts.rejected, held.facts.origin),
        ]

    def _hold_out(self, train: PromptSide) -> None:
        ratio = self._settings.values.get("verl_validation_ratio", 0.05)
        ratio = 0.05 if ratio is None else ratio
        try:
            if not 0 < ratio < 1:
                raise splitting.SplitImpossible(f"{ratio} is no share between 0 and 1")
            wanted = splitting.wanted_rows(ratio, train.facts.usable)
            chosen = splitting.choose_validation(train.facts.prompts, wanted)
        except splitting.SplitImpossible as error:
            hint = "name a validation file with --eval-dataset, or set another --validation-ratio"
            message = f"verl_validation_ratio: {error}"
            self._tally.add(Problem("error", "SPLIT_IMPOSSIBLE", "train", message, hint, path=train.facts.path))
            return
        seed = self._seed()
        self._flags = {0: chosen.translate(bytes((1, *[2] * 255)))}
        self._split = {"ratio": ratio, "seed": seed}
        held = sum(chosen)
        less = "" if held == wanted else f" (not {wanted}: repeats of a prompt stay on one side)"
        self._sentence = f"{held} of {len(chosen)} usable rows are held out{less}; ratio {ratio}, seed {seed}"
        origin = f"split of the training file (ratio {ratio}, seed {seed})"
        self._parts = [
            self._part("train", 0, 1, False, train.facts.origin),
            self._part("validation", 0, 2, False, origin),
        ]

    def _part(self, where: Split, index: int, number: int, whole: bool, origin: str) -> _Part:
        side, flags = self._sides[index], self._flags[index]
        lengths = side.lengths(mask(flags, number))
        return _Part(where, side, number, whole and bool(side.native), origin, lengths.total(), lengths)

    def refuse_if_bad(self) -> None:
        """Write the report and raise DataError if there is any error."""
        if not self._tally.errors:
            return
        self._write_report("Refused: nothing was written for training.")
        first = next(problem for problem in self._tally.kept if problem.severity == "error")
        decisive = next((p for p in self._tally.kept if p.code in ("NO_USABLE_ROWS", "NO_ROWS")), first)
        more = self._tally.errors - 1
        hint = decisive.hint or next((p.hint for p in self._tally.kept if p.hint), "see the report")
        raise DataError(
            decisive.message + (f" (and {more} more)" if more else ""),
            hint=hint,
            problems=self._tally.kept,
            details=refusals.details(self._run, self._counts(), self._tally.counts),
        )

    def publish(self) -> DataReport:
        """Write both files, manifest and report; remove what an earlier prepare left."""
        files = self._write_files()
        rejected_path = self._rejected.finish() if self._rejected is not None else None
        wanted = [file.path for file in files.values()]
        snapshots.remove_others(self._run.prepared_data, [*wanted, rejected_path or ""])
        prompt_manifest.write(
            self._run,
            files,
            self._sides,
            unchanged=all(part.whole for part in self._parts),
            requested_adapter=self._settings.text("verl_data_adapter", "auto"),
            duplicates=self._duplicates,
            shared=self._shared,
            split=self._split,
            rejected_path=rejected_path,
        )
        left_out = sum(side.facts.rejected for side in self._sides)
        self._write_report(
            "Accepted." if not left_out else f"Accepted; {left_out} rows were left out ({rejected_path})."
        )
        counts = self._counts()
        reports = tuple(
            SplitReport(
                part.where,
                part.side.facts.format,
                files[part.where],
                counts[part.where],
                length_stats(part.lengths),
                part.origin,
            )
            for part in self._parts
        )
        problems, found = tuple(self._tally.kept), dict(self._tally.counts)
        return DataReport(reports, problems, found, None, rejected_path, self._facts())

    def _write_files(self) -> dict[str, InputFile]:
        folder = self._run.prepared_data
        targets: dict[str, Target] = {}
        for index, side in enumerate(self._sides):
            parts = [part for part in self._parts if part.side is side]
            if parts[0].whole:
                targets[parts[0].where] = Target(folder, path=side.native)
                continue
            schema = native_schema(side.native) if side.native else converted_schema(side.spool)  # type: ignore[arg-type]
            # A native file was compressed as its owner wanted; what is converted is read once, like all snapshots.
            packed = "snappy" if side.native else "none"
            made = [(part.where, self._stack.enter_context(Target(folder, schema, packed))) for part in parts]
            flags = self._flags[index]
            if side.native:
                flags = _over_file(side, flags)
                divide_native(side.native, _keep(flags), [target for _, target in made])
            elif side.spool is not None:
                divide_converted(side.spool, _keep(flags), made)
            targets.update(made)
        files: dict[str, InputFile] = {}
        for part in self._parts:
            source = (part.side.facts.path, part.side.facts.sha256)
            name = TRAIN if part.where == "train" else VALIDATION
            files[part.where] = targets[part.where].finish(name, part.rows, source)
        return files

    def _counts(self) -> dict[str, Counts]:
        if not self._parts:
            return {s.where: Counts(s.facts.input, s.facts.usable, s.facts.rejected) for s in self._sides}
        counts: dict[str, Counts] = {}
        for part in self._parts:
            facts = part.side.facts
            if self._split is None or part.where == "train":
                others = sum(one.rows for one in self._parts if one.side is part.side and one is not part)
                counts[part.where] = Counts(facts.input - others, part.rows, facts.rejected)
            else:
                counts[part.where] = Counts(part.rows, part.rows, 0)
        return counts

    def _facts(self) -> PromptFacts:
        sources: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        markers: Counter[str] = Counter()
        combinations: dict[tuple[str, ...], None] = {}
        # A reused file was judged by the round that made it, whose answer markers it no longer has.
        for side in (side for side in self._sides if not side.reused):
            sources.update(side.data_sources)
            kinds.update(side.kinds)
            markers.update(side.markers)
            combinations.update(side.metadata)
        native = set(self._sides[0].adapters) == {"native"}
        names = tuple(dict.fromkeys(name for combination in combinations for name in combination))
        return PromptFacts(dict(sources), dict(kinds), dict(markers), native, names, tuple(combinations))

    def _write_report(self, outcome: str) -> None:
        files = [side.facts for side in self._sides]
        for side in self._sides:
            side.facts.lengths = side.lengths()
        text = report_text(files, self._counts(), self._tally, self._sentence, outcome)
        for side in self._sides:
            used = ", ".join(f"{name} {count}" for name, count in side.adapters.most_common())
            named = ", ".join(f"{name!r} {count}" for name, count in side.data_sources.most_common(10))
            text += f"\n{side.where}: read as {used or 'nothing'}; data sources: {named or 'none'}\n"
        atomic.write_text(self._run.data_report, text)


def _over_file(side: PromptSide, flags: bytearray) -> bytearray:
    """Flags of usable rows as flags of all rows of the native file; bad ones get 0."""
    usable = iter(flags)
    return bytearray(0 if bad else next(usable) for bad in side.bad)


def _keep(flags: bytearray) -> Callable[[int, int], bytearray]:
    return lambda start, count: flags[start : start + count]
