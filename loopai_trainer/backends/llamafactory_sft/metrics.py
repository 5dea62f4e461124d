"""Reads trainer_log.jsonl, the file to which LLaMA-Factory's rank 0 appends one line a logging step.

Light on purpose: the worker polls it.
"""

import json
import os

from loopai_trainer.records import MetricRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from loopai_trainer.records import LaunchPaths, MetricKind

LOG_NAME = "trainer_log.jsonl"
_NOT_METRICS = frozenset(("current_steps", "percentage", "elapsed_time", "remaining_time"))


def metrics_file(paths: "LaunchPaths") -> str:
    """Where LLaMA-Factory writes its lines."""
    return os.path.join(paths.checkpoints, LOG_NAME)


def read_metrics(lines: "Iterable[bytes]") -> list[MetricRow]:
    """One row a line, in file order: train (loss, lr, epoch), eval (eval_loss, epoch), summary (a run's last line).

    Bare NaN and Infinity are kept as such. Every row has `total_steps`. A line that is torn or no metric gives nothing.
    """
    return [row for line in lines if (row := _row(line)) is not None]


def _row(line: bytes) -> MetricRow | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict):
        return None
    step = entry.get("current_steps")
    if not isinstance(step, int) or isinstance(step, bool):
        return None
    values = {key: float(value) for key, value in entry.items() if key not in _NOT_METRICS and _is_number(value)}
    return MetricRow(step, _kind(values), values)


def _kind(values: dict[str, float]) -> "MetricKind":
    if any(key.startswith("eval_") for key in values):
        return "eval"
    return "train" if "loss" in values else "summary"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
