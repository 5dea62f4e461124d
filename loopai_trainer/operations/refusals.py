"""What prepare says when it refuses: all faults at once, and what the data had to do with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TypeVar

from loopai_trainer.errors import ConfigError, DataError, ValidationError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations.data_report import LOSSES
from loopai_trainer.records import Counts, DataReport, Problem

T = TypeVar("T")

_REPEATS = ("DUPLICATE_ROW", "CONTRADICTION", "OVERLAP")


class Gathering:
    """Gathers what several checks refuse, so that a person sees all of it in one go."""

    def __init__(self) -> None:
        self.errors: list[ValidationError] = []

    def collect(self, check: Callable[[], T]) -> T | None:
        """What `check` gives, or None if it refused."""
        try:
            return check()
        except ValidationError as error:
            self.errors.append(error)
            return None

    def merged(self) -> ValidationError:
        """All that was refused, as one error; call it only after a refusal."""
        if len(self.errors) == 1:
            return self.errors[0]
        problems = [problem for error in self.errors for problem in error.problems]
        details = {key: value for error in self.errors for key, value in error.details.items()}
        kind = DataError if any(isinstance(error, DataError) for error in self.errors) else ConfigError
        message = "; ".join(error.message for error in self.errors)
        return kind(message, hint=self.errors[0].hint, problems=problems, details=details)


@contextmanager
def after_data(run: RunDir, data: DataReport) -> Iterator[None]:
    """Adds to a refusal inside what it may come from: which rows were left out, counts and the report's path."""
    try:
        yield
    except ValidationError as error:
        tell_of_data(error, run, data)
        raise


def tell_of_data(error: ValidationError, run: RunDir, data: DataReport) -> None:
    """The same for an error in hand; an error that tells of the data already is left as it is."""
    if "report_path" in error.details:
        return
    error.details |= details(run, {split.where: split.counts for split in data.splits}, data.problem_counts)
    error.problems = (*error.problems, *(problem for problem in data.problems if _names_a_row(problem)))


def details(run: RunDir, counts: Mapping[str, Counts], found: Mapping[str, int]) -> dict[str, object]:
    """What every refusal says of data that were read; `found`: problems by code."""
    return {
        "counts": {where: asdict(count) for where, count in counts.items()},
        "problem_counts": dict(found),
        "report_path": run.data_report,
    }


def cut_rows(warnings: Sequence[Problem]) -> list[Problem]:
    """Those of the plan's warnings that name a row which training would cut."""
    return [problem for problem in warnings if problem.code in LOSSES]


def _names_a_row(problem: Problem) -> bool:
    # Rows that were left out, or are trained on less than their author thought; other remarks explain no refusal.
    if problem.severity != "warning" or problem.code in _REPEATS:
        return False
    return problem.line is not None or problem.row is not None
