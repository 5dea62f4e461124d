"""What the rules of `check` look at, and how they say what they found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from loopai_trainer.backends.verl_grpo import keys
from loopai_trainer.backends.verl_grpo.effective import Effective
from loopai_trainer.backends.verl_grpo.schedule import Schedule
from loopai_trainer.files.model_folder import ModelFolder
from loopai_trainer.records import Host, Plan, Problem, Versions


class Facts(NamedTuple):
    """A plan with everything that its rules need. `values` has verl's defaults behind the plan's keys."""

    plan: Plan
    values: Effective
    steps: Schedule
    model: ModelFolder
    versions: Versions
    host: Host

    @property
    def native(self) -> Mapping[str, Any]:
        """The plan's own keys."""
        return self.values.native

    @property
    def family(self) -> keys.Family:
        """Which names of keys the installed version reads."""
        return keys.family(self.versions.version)

    @property
    def run(self) -> str:
        """The run directory, from where its data lie."""
        return os.path.dirname(os.path.dirname(str(self.plan.loopai["inputs"]["train"]["path"])))

    @property
    def is_cpu(self) -> bool:
        """Whether the plan is a CPU smoke one."""
        return bool(self.values.get("trainer.device") == "cpu")


def reward_block(plan: Plan) -> Mapping[str, Any] | None:
    """`loopai.reward` as prepare wrote it; None for one that an edit has damaged."""
    block = plan.loopai.get("reward")
    if not isinstance(block, dict) or block.get("mode") not in ("auto", "preset", "custom"):
        return None
    texts = [block.get("preset"), block.get("name"), block.get("function"), *_listed(block.get("runs_code"))]
    whole = isinstance(block.get("kwargs"), dict) and all(text is None or isinstance(text, str) for text in texts)
    return block if whole else None


def _listed(value: object) -> list[Any]:
    """The items of a list; something that is no text for what is none."""
    if value is None:
        return []
    return value if isinstance(value, list) else [0]


def error(code: str, message: str, hint: str, field: str) -> Problem:
    """A finding that refuses the plan."""
    return Problem("error", code, "config", message, hint, field=field)


def warning(code: str, message: str, hint: str, field: str) -> Problem:
    """A finding that an approver should see."""
    return Problem("warning", code, "config", message, hint, field=field)


def nearest(value: int, divisor: int) -> str:
    """The multiples of `divisor` around a value that is none: '4 or 8'."""
    below = value // divisor * divisor
    return f"{below} or {below + divisor}" if below else str(divisor)


def divisors(number: int, most: int = 6) -> str:
    """What divides a number, for people: '1, 2, 4, 8'; the largest ones if there are many."""
    found = [one for one in range(1, number + 1) if number % one == 0] if 0 < number <= 100_000 else []
    return ", ".join(str(one) for one in found[-most:])
