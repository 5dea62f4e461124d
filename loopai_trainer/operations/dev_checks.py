"""What a dev run checks, one line each: passed, failed, or not shown here; and what all of them come to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from loopai_trainer.errors import TrainerError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.records import Plan
from loopai_trainer.rules import dev_bounds

PASSED, FAILED, NOT_SHOWN = "passed", "failed", "not_shown"

BEYOND = (
    "whether it learns, rows that are longer than those it saw, steps after the last one here, and the room that all "
    "checkpoints take"
)
_READ_BYTES = 1 << 20


class Check(NamedTuple):
    """One check. `detail` says what was found, `hint` what to do about it; `code` is set where it did not pass."""

    name: str
    outcome: str
    detail: str
    hint: str = ""
    code: str = ""

    def as_json(self) -> dict[str, str]:
        """For the answer and the report."""
        return self._asdict()


def verdict(checks: Sequence[Check]) -> str:
    """failed if one failed, else not_shown if one could not be shown, else passed."""
    outcomes = {check.outcome for check in checks}
    return next((outcome for outcome in (FAILED, NOT_SHOWN) if outcome in outcomes), PASSED)


def refused(name: str, error: TrainerError, outcome: str = FAILED) -> Check:
    """A check that was ended by a refusal, with all that it found."""
    more = [problem.message for problem in error.problems[1:] if problem.severity == "error"]
    detail = "; ".join((error.message, *more)) if len(more) <= 3 else error.message
    return Check(name, outcome, detail, error.hint, error.code)


def of_plan(plan: Plan, summary: Mapping[str, Any]) -> list[Check]:
    """The checks that were passed before anything was started."""
    inputs = plan.loopai["inputs"]
    rows = ", ".join(f"{inputs[name]['rows']} rows of {name}" for name in ("train", "validation") if inputs.get(name))
    found = [
        Check("configuration", PASSED, f"all that prepare checks of {plan.framework}/{plan.stage} holds"),
        Check("inputs", PASSED, f"{rows}, model, files and environment are what the plan pins"),
    ]
    if "resolved_sha256" in plan.loopai["backend"]:
        package = plan.loopai["backend"]["package"]
        found.append(Check("composition", PASSED, f"{package} composes the configuration that the plan pins"))
    if summary.get("reward_tried"):
        scores = summary.get("scores_seen") or "none"
        found.append(Check("reward", PASSED, f"called on {summary['reward_tried']}; scores: {scores}"))
    if summary.get("train_prompts"):
        found.append(Check("prompts", PASSED, str(summary["train_prompts"])))
    return found


def of_run(run: RunDir, data: Mapping[str, Any], plan: Plan, took_s: float, *, makes_model: bool = True) -> list[Check]:
    """What the bounded training has shown; `data`: the status data of its end."""
    error = data.get("error") or {}
    if data["status"] != "completed":
        outcome = NOT_SHOWN if error.get("code") == dev_bounds.TIME_LIMIT else FAILED
        hint = "give it more time with --limit" if outcome == NOT_SHOWN else str(error.get("hint") or "")
        detail = str(error.get("detail") or f"the run is {data['status']}")
        return [Check("training", outcome, detail, hint, str(error.get("code") or ""))]
    rows = metric_rows(run)
    losses = [row["values"] for row in rows if row.get("kind") == "train"]
    inputs = plan.loopai["inputs"]
    steps = f"{data.get('current_step')} of {data.get('total_steps')} steps on {inputs['train']['rows']} rows"
    found = [Check("training", PASSED, f"{steps} in {took_s:.0f} s{_change(losses)}")]
    evaluated = [row["values"] for row in rows if row.get("kind") in ("eval", "val")]
    if evaluated:
        found.append(Check("evaluation", PASSED, f"measured on held-out rows{_last(evaluated)}"))
    saved = "its result was written and can be read; it is removed"
    if makes_model:
        saved = "the weights were saved, can be read and are finite; they are removed"
    return [*found, Check("saving", PASSED, saved)]


def metric_rows(run: RunDir) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl, which has a few."""
    try:
        with open(run.metric_rows, "rb") as file:
            lines = file.read(_READ_BYTES).splitlines()
    except OSError:
        return []
    return [row for line in lines if isinstance(row := _json(line), dict) and isinstance(row.get("values"), dict)]


def _json(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None  # torn by the end of what was read


_TOLD = ("loss", "critic/score/mean", "actor/loss", "reward")
_CORE = "val-core/"
"""How verl calls what a validation is about; other keys are by the way."""


def _change(rows: Sequence[Mapping[str, Any]]) -> str:
    """`; loss 2.1 -> 2.0`: of the first of the known metrics that the rows have."""
    for name in _TOLD:
        values = [row[name] for row in rows if isinstance(row.get(name), int | float)]
        if values:
            return f"; {name} {values[0]:.4g}" + (f" -> {values[-1]:.4g}" if len(values) > 1 else "")
    return ""


def _last(rows: Sequence[Mapping[str, Any]]) -> str:
    values = {name: value for name, value in rows[-1].items() if isinstance(value, int | float)}
    core = [name for name in sorted(values) if name.startswith(_CORE)]
    name = next((name for name in ("eval_loss", *core, *sorted(values)) if name in values), None)
    return f"; {name} {values[name]:.4g}" if name else ""
