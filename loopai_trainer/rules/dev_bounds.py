"""What bounds a dev run: steps, rows and time, by rules of our own that no template, flag or backend can widen.

Light on purpose: the worker imports it before training's exec.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from loopai_trainer.records import DevPlan, Plan

STEPS = 2
"""One step may work by luck (no optimizer state yet); the second has everything that all others have."""
ROWS = 16
LIMIT_S = 900.0
"""Loading a large model and starting its rollout engine take minutes; two steps do not."""

MOST_STEPS = 16
MOST_ROWS = 64
MOST_S = 3600.0
"""What nobody may go beyond. Some batches cannot be cut to 16 prompts (many GPUs), and in some frameworks a step is
one rollout."""

BLOCK = "dev"
"""`loopai.dev` in the plan of a dev run; no other plan has it."""
TIME_LIMIT = "DEV_TIME_LIMIT"
STEP_LIMIT = "DEV_STEP_LIMIT"


class Bounds:
    """Steps, rows of each split and seconds that a dev run may take at the most."""

    __slots__ = ("limit_s", "rows", "steps")

    def __init__(self, steps: int, rows: int, limit_s: float) -> None:
        self.steps = steps
        self.rows = rows
        self.limit_s = limit_s

    def step_exceeded(self, step: int) -> tuple[str, str] | None:
        """(code, message) from when training has made more steps than it was given."""
        if step <= self.steps:
            return None
        return STEP_LIMIT, f"this dev run was given {self.steps} steps, and training made step {step}"

    def time_exceeded(self, elapsed_s: float, step: int) -> tuple[str, str] | None:
        """(code, message) once the time is over."""
        if elapsed_s <= self.limit_s:
            return None
        return TIME_LIMIT, f"{self.steps} steps were not made within {self.limit_s:.0f} s (last step: {step})"


def is_dev(plan: Plan) -> bool:
    """Whether it is the plan of a dev run, which is never approved, run, resumed, exported or promoted."""
    return BLOCK in plan.loopai


def of_plan(plan: Plan) -> Bounds | None:
    """The bounds of a dev run's plan; None: it is none. A block that says nothing sensible allows nothing."""
    if not is_dev(plan):
        return None
    block = plan.loopai[BLOCK]
    told = block if isinstance(block, dict) else {}
    return Bounds(
        int(_within(told.get("steps"), MOST_STEPS)),
        int(_within(told.get("rows"), MOST_ROWS)),
        _within(told.get("limit_s"), MOST_S),
    )


def too_much(plan: DevPlan) -> str:
    """What a backend's dev plan asks for beyond the bounds; empty: nothing."""
    if not 1 <= plan.steps <= MOST_STEPS:
        return f"{plan.steps} steps (1 to {MOST_STEPS} are allowed)"
    rows = {name: count for name, count in plan.rows.items() if not 1 <= count <= MOST_ROWS}
    return "; ".join(f"{count} rows of {name} (1 to {MOST_ROWS} are allowed)" for name, count in rows.items())


def _within(value: Any, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0.0
    return float(min(value, most))
