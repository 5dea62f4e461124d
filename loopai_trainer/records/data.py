"""Files that training reads, and the report on a plan's data."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from loopai_trainer.records.problem import Problem


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that training reads. `sha256` is lower-case hex of its bytes, `rows` its number of rows."""

    path: str
    sha256: str
    bytes: int
    rows: int | None = None
    source_path: str | None = None
    source_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows of one split: `input` read, `usable` written to the snapshot, `rejected` left out."""

    input: int
    usable: int
    rejected: int


@dataclass(frozen=True, slots=True)
class LengthStats:
    """Characters a row (system, tools and all turns), nearest-rank percentiles."""

    minimum: int
    p50: int
    p90: int
    p99: int
    maximum: int


@dataclass(frozen=True, slots=True)
class SplitReport:
    """One split's data: where it came from, what was found, what was written."""

    where: Literal["train", "validation"]
    format: str
    snapshot: InputFile
    counts: Counts
    lengths: LengthStats
    origin: str


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """What GRPO rows say of themselves, each as value -> number of usable rows of both splits (but not of validation
    data that are reused from the round before).

    `data_sources`: the column of that name. `answer_kinds`: type of the ground truth (str, int, float, bool, list,
    dict). `markers`: explicit answer markers in the source's answers (`####`, `boxed`, ...). `native`: the source had
    verl's own columns. `metadata`: names that rows give themselves (dataset, benchmark, task), lower case; of all rows
    that were converted. `named_together`: the different combinations of them that rows have; an empty one means that
    some row gives none, or that there are more combinations than are kept.
    """

    data_sources: Mapping[str, int]
    answer_kinds: Mapping[str, int]
    markers: Mapping[str, int]
    native: bool
    metadata: tuple[str, ...] = ()
    named_together: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class DataReport:
    """All data of a plan. `problem_counts` has the full count per code; `problems` is capped per code.

    `prompts` is set for data of kind prompts alone.
    """

    splits: tuple[SplitReport, ...]
    problems: tuple[Problem, ...]
    problem_counts: Mapping[str, int]
    registry: InputFile | None = None
    rejected_path: str | None = None
    prompts: PromptFacts | None = None

    def split(self, where: str) -> SplitReport | None:
        """The split of that name, if there is one."""
        return next((s for s in self.splits if s.where == where), None)
