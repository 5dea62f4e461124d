"""How a training ended, for the final result and the report: the status, and the error with its cause and advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from loopai_trainer.errors import Cancelled, InputChanged, TrainerError, TrainingFailed
from loopai_trainer.records import Artefact, Problem
from loopai_trainer.results.analysis import Analysis
from loopai_trainer.rules.run_state import completed_problems

Status = Literal["completed", "failed", "cancelled"]

_ADVICE: Mapping[str, str] = {
    "CANCELLED": "the checkpoints are kept; prepare a new version to train again",
    "DISK_FULL": "free space on the disk of the run directory, then prepare a new version to train again",
    "DIVERGED": "lower the learning rate, add warm-up, or look for broken rows in the data, then prepare again",
    "EXIT_UNKNOWN": "look at the end of train.log; the host may have been restarted",
    "KILLED_BY_SIGNAL": "look at the end of train.log; signal 9 often means that the host ran out of memory",
    "STEPS_MISSING": "look at the end of train.log for what ended training early",
    "INPUT_CHANGED_DURING_RUN": "find out what was trained on, then prepare and approve again",
}
_LOOK_AT_LOG = "look at the end of train.log"


@dataclass(frozen=True, slots=True)
class Ending:
    """What the worker saw. `exit_record`: launch/exit.json. `started_at`, `ended_at`: seconds since the epoch.

    `reason`: (code, message) if the worker itself stopped training. `planned_steps`: as training's own output told.
    `remarks`: what was said of its steps.
    """

    exit_record: Mapping[str, Any] | None
    started_at: float
    ended_at: float
    cancelled: bool = False
    reason: tuple[str, str] | None = None
    planned_steps: int | None = None
    remarks: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        """From start to end of training; the keeper's own measure where there is one."""
        measured = (self.exit_record or {}).get("duration_s")
        seconds = float(measured) if measured else self.ended_at - self.started_at
        return round(max(0.0, seconds), 3)


class Evidence(NamedTuple):
    """What was found after the end. `judged_by`: metrics that have to be finite at last, empty: all. `changed`: inputs
    that differ. `explain`: asks the log for (cause, advice). `own`: (code, message) that the backend's records say."""

    judged_by: Sequence[str]
    analysis: Analysis
    artefact: Artefact | None
    changed: tuple[Problem, ...]
    explain: Callable[[], tuple[str, str] | None]
    own: tuple[tuple[str, str], ...] = ()


def judge(ending: Ending, evidence: Evidence) -> tuple[Status, TrainerError | None]:
    """completed by the four facts of interface section 7 and with unchanged inputs, else why not."""
    problems = _problems(ending, evidence)
    if ending.reason is not None:
        return "failed", _failed(*ending.reason, None, problems, evidence.changed)
    if ending.cancelled:
        message = f"the run was cancelled at step {evidence.analysis.last_step or 0}"
        return "cancelled", Cancelled(message, hint=_ADVICE["CANCELLED"])
    if problems:
        return "failed", _failed(*_first_cause(problems), evidence.explain(), problems, evidence.changed)
    if evidence.changed:
        return "failed", _changed(evidence.changed)
    return "completed", None


def last_values(analysis: Analysis, kinds: Sequence[str]) -> dict[str, float] | None:
    """The values of the last row of these kinds; None if there is none."""
    rows = [row for row in analysis.rows if row.kind in kinds]
    return dict(rows[-1].values) if rows else None


def _problems(ending: Ending, evidence: Evidence) -> list[tuple[str, str]]:
    analysis = evidence.analysis
    found = completed_problems(
        exit_record=ending.exit_record,
        last_step=analysis.last_step,
        planned_steps=ending.planned_steps or analysis.total_steps,
        artefact=evidence.artefact,
        last_train=_judged(evidence.judged_by, last_values(analysis, ("train",))),
        last_eval=_judged(evidence.judged_by, last_values(analysis, ("eval", "val"))),
    )
    return [*evidence.own, *found]


def _judged(names: Sequence[str], values: Mapping[str, float] | None) -> Mapping[str, float] | None:
    if values is None or not names:
        return values
    return {name: value for name, value in values.items() if name in names}


def _first_cause(problems: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """What to tell first: a loss that is not finite explains missing steps and weights, not the other way round.

    A non-zero exit status comes first of all, since what follows from it (no artefact, fewer steps) is no cause.
    """
    order = ("EXEC_FAILED", "KILLED_BY_SIGNAL", "EXIT_STATUS", "DIVERGED")
    return min(problems, key=lambda problem: order.index(problem[0]) if problem[0] in order else len(order))


def _failed(
    code: str,
    message: str,
    explained: tuple[str, str] | None,
    problems: Sequence[tuple[str, str]],
    changed: Sequence[Problem],
) -> TrainingFailed:
    """`message`, the cause that the log shows, and all other findings as problems."""
    hint = _ADVICE.get(code, _LOOK_AT_LOG)
    if explained is not None:
        cause, advice = explained
        message, hint = f"{message}: {cause}", advice or hint
    found = [Problem("error", problem[0], "host", problem[1]) for problem in problems]
    return TrainingFailed(message, code=code, hint=hint, problems=(*found, *changed))


def _changed(changed: Sequence[Problem]) -> InputChanged:
    names = ", ".join(problem.path or problem.message for problem in changed[:3])
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return InputChanged(
        f"an input changed while training read it: {names}{more}",
        code="INPUT_CHANGED_DURING_RUN",
        hint=_ADVICE["INPUT_CHANGED_DURING_RUN"],
        problems=changed,
    )
