"""What training reports while it runs."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from loopai_trainer.records.words import MetricKind


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One step's metrics. Non-finite values are kept as they were reported (float nan/inf)."""

    step: int
    kind: MetricKind
    values: Mapping[str, float]
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class LogFact:
    """Something that a backend's log line says. kind: phase | train_examples | validation_examples | total_steps."""

    kind: Literal["phase", "train_examples", "validation_examples", "total_steps"]
    value: str | int
