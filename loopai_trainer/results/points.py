"""Which curves a run shows, and their points: few enough to draw, with every peak kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from loopai_trainer.records import MetricRow
from loopai_trainer.rules.series import columns, named

LIMIT = 1000
"""Points a curve; more than any picture or terminal can show."""

# (key or glob, kinds, label); the first that exists of each group is shown.
_TRAINING = (("loss", "train"), ("critic/score/mean", "train"), ("critic/rewards/mean", "train"))
_HELD_OUT = (("eval_loss", "eval"), ("eval_*_loss", "eval"), ("val-core/*/mean@*", "val"))


def curves(rows: Iterable[MetricRow], limit: int = LIMIT) -> dict[str, list[tuple[int, float]]]:
    """Label -> (step, value) by step: the training loss (or reward) and the held-out loss (or score)."""
    table = columns(rows)
    found: dict[str, list[tuple[int, float]]] = {}
    for group in (_TRAINING, _HELD_OUT):
        for pattern, kind in group:
            series = named(table, pattern, (kind,))  # type: ignore[arg-type] # the literals above are kinds
            if series is not None:
                found[series.name] = thin([(point.step, point.value) for point in series.points], limit)
                break
    return found


def thin(points: Sequence[tuple[int, float]], limit: int = LIMIT) -> list[tuple[int, float]]:
    """At most about `limit` points: the first and last, and of every stretch between them its lowest and highest."""
    if len(points) <= limit:
        return list(points)
    size = math.ceil(2 * len(points) / limit)
    kept = {points[0], points[-1]}
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        kept.add(min(stretch, key=_value))
        kept.add(max(stretch, key=_value))
    return sorted(kept)


def _value(point: tuple[int, float]) -> float:
    return point[1]
