"""A custom reward for smoke runs: the right answer counts most, digits count a little, so that a tiny model can learn.

    trainer prepare ... --reward-mode custom --reward-function examples/digit_reward.py

verl calls `compute_score` by keyword. A dict has to hold `score`, and the same keys for every reply; `acc` becomes the
validation metric val-core/SOURCE/acc/mean@N.
"""

from __future__ import annotations

from typing import Any


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None, **_: Any
) -> dict[str, float]:
    """1 for a reply that ends with the right number, else at most 0.5: the share of digits in it."""
    reply = solution_str.strip()
    digits = sum(character.isdigit() for character in reply) / max(1, len(reply))
    right = reply.endswith(str(ground_truth))
    score = 1.0 if right else digits / 2
    return {"score": score, "acc": score, "digits": digits}
