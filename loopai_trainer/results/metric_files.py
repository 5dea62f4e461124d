"""Metric rows from the files that a run leaves: the training's own, ours, LoopAI's older form, and trainer_state.json.

Nothing here raises for damaged content: a torn or foreign line gives no row.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, get_args

from loopai_trainer.records import MetricKind, MetricRow

BLOCK_BYTES = 1 << 20
TAIL_BYTES = 64 * 1024

ReadMetrics = Callable[[Iterable[bytes]], list[MetricRow]]

_KINDS = frozenset(get_args(MetricKind))
_NOT_METRICS = frozenset({"step", "current_steps", "global_step", "total_steps", "timestamp", "log_line", "attempt"})
_SUMMARY_KEYS = frozenset({"train_loss", "train_runtime"})


def line_blocks(path: str, block_bytes: int = BLOCK_BYTES) -> Iterator[list[bytes]]:
    """The file's lines in blocks, so that memory stays flat. An unreadable file has none.

    The last line may lack its newline; whether it is whole is for the reader to see.
    """
    for text in text_blocks(path, block_bytes):
        yield text.split(b"\n")


def text_blocks(path: str, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The same, each block as one text of whole lines without the last newline."""
    try:
        with open(path, "rb") as file:
            rest = b""
            while block := file.read(block_bytes):
                text, newline, rest = (rest + block).rpartition(b"\n")
                if newline:
                    yield text
            if rest:
                yield rest
    except OSError:
        return


def training_rows(path: str, read_metrics: ReadMetrics, attempt: int | None = None) -> list[MetricRow]:
    """Rows of a file that training itself wrote, read by its backend. `attempt` overrides the rows' own."""
    return of_attempt([row for lines in line_blocks(path) for row in read_lines(lines, read_metrics)], attempt)


def of_attempt(rows: list[MetricRow], attempt: int | None) -> list[MetricRow]:
    """The rows with that attempt; None: with their own."""
    if attempt is None:
        return rows
    return [MetricRow(row.step, row.kind, row.values, attempt) for row in rows]


def normalised_rows(path: str) -> list[MetricRow]:
    """Rows of our `metrics/metrics.jsonl` (interface section 3); null there is a value that was not finite."""
    return [row for lines in line_blocks(path) for line in lines if (row := normalised_row(_object(line))) is not None]


def legacy_rows(path: str) -> list[MetricRow]:
    """Rows of `metrics/metrics.json` ({task_info, metrics: [...]}, or the list alone) as LoopAI's tools know it."""
    document = _document(path)
    entries = document.get("metrics") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        return []
    return [row for entry in entries if isinstance(entry, dict) for row in _flat_rows(entry)]


def state_rows(path: str) -> tuple[list[MetricRow], int | None]:
    """(rows, planned steps) of a trainer_state.json; it keeps the whole history even when the log is lost."""
    document = _document(path)
    if not isinstance(document, dict):
        return [], None
    history = document.get("log_history")
    entries = history if isinstance(history, list) else []
    rows = [row for entry in entries if isinstance(entry, dict) for row in _flat_rows(entry)]
    return rows, _whole(document.get("max_steps"))


def tail(path: str, size_bytes: int = TAIL_BYTES) -> list[bytes]:
    """The last whole lines of a file, within its last `size_bytes`."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - size_bytes))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    return lines if size <= size_bytes else lines[1:]


def number(value: object) -> float | None:
    """A metric's value as a float; text such as '0.1469' or 'nan' counts, null is NaN, anything else is no metric."""
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The metrics among `values`."""
    found = {name: number(value) for name, value in values.items() if isinstance(name, str)}
    return {name: value for name, value in found.items() if value is not None}


def read_lines(lines: list[bytes], read_metrics: ReadMetrics) -> list[MetricRow]:
    """The rows of these lines, by the backend's reader."""
    try:
        return read_metrics(lines)
    except (ValueError, RecursionError, OverflowError):
        # A line that no metric writer wrote (nested a thousand deep, a number of 400 digits) costs itself alone.
        return [row for line in lines for row in _read_one(line, read_metrics)]


def _read_one(line: bytes, read_metrics: ReadMetrics) -> list[MetricRow]:
    try:
        return read_metrics([line])
    except (ValueError, RecursionError, OverflowError):
        return []


def normalised_row(entry: dict[str, Any] | None) -> MetricRow | None:
    """The row of one parsed line of `metrics/metrics.jsonl`; None if it is none."""
    if entry is None:
        return None
    step, values = _whole(entry.get("step")), entry.get("values")
    if step is None or entry.get("kind") not in _KINDS or not isinstance(values, dict):
        return None
    attempt = _whole(entry.get("attempt"))
    return MetricRow(step, entry["kind"], numbers(values), 1 if attempt is None else attempt)


def _flat_rows(entry: dict[str, Any]) -> list[MetricRow]:
    """An entry that mixes all kinds of one step -> one row a kind."""
    steps = (_whole(entry.get(name)) for name in ("step", "current_steps", "global_step"))
    step = next((step for step in steps if step is not None), None)
    if step is None:
        return []
    told = {name: value for name, value in entry.items() if name not in _NOT_METRICS and value is not None}
    values = numbers(told)
    if _SUMMARY_KEYS & values.keys():
        return [MetricRow(step, "summary", values)]
    split: dict[MetricKind, dict[str, float]] = {"train": {}, "eval": {}, "val": {}}
    for name, value in values.items():
        kind: MetricKind = "eval" if name.startswith("eval_") else "val" if name.startswith("val") else "train"
        split[kind][name] = value
    return [MetricRow(step, kind, found) for kind, found in split.items() if found.keys() - {"epoch"}]


def _document(path: str) -> object:
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None


def _object(line: bytes) -> dict[str, Any] | None:
    # The standard parser, because trainer_log.jsonl may hold a bare NaN.
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if value == value and abs(value) < 2**53 and int(value) == value else None
