"""One finding."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.records.words import Severity, Where


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. `line` is 1-based (JSON, JSONL, YAML), `row` 0-based (Parquet); never both."""

    severity: Severity
    code: str
    where: Where
    message: str
    hint: str = ""
    path: str | None = None
    line: int | None = None
    row: int | None = None
    field: str | None = None
    origin: str | None = None
