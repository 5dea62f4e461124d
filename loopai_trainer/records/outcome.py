"""What training leaves behind, and what is chosen of it."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopai_trainer.records.words import Mode


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint folder. Not `complete`: `why` says what is missing or damaged."""

    name: str
    step: int
    path: str
    complete: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class BestMetric:
    """The metric that decides, its best finite value and the step of that value.

    `sources`: data source -> its own value, when `value` is the mean over several; else empty.
    """

    name: str
    mode: Mode
    value: float
    step: int
    sources: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen checkpoint. `exact`: its step is the best metric's step. `reason` is one sentence."""

    checkpoint: Checkpoint | None
    metric: BestMetric | None
    exact: bool
    reason: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Artefact:
    """The final output of training. Not `loadable`: `why` says why. `finite`: no NaN or Inf in its weights."""

    path: str
    loadable: bool
    finite: bool
    why: str = ""
