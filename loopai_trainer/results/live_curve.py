"""The curve of a run that goes on: read as it grows, each byte once, in memory that does not grow with the run."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import Any

import orjson

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.records import MetricKind, MetricRow
from loopai_trainer.results import metric_files, points
from loopai_trainer.results.analysis import PLANNED

_WANTED = ("loss", "critic/score/mean", "critic/rewards/mean", "eval_loss", "eval_*_loss", "val-core/*/mean@*")
_MOST_ROWS = 20_000
_MOST_LINES = 5_000
_READ_BYTES = 16 << 20


class LiveCurve:
    """`latest`: the newest finite value of every metric, by name."""

    def __init__(self, run: RunDir) -> None:
        self._path = run.metric_rows
        self._offset = 0
        self._rows: dict[tuple[MetricKind, int], MetricRow] = {}
        self._wanted: dict[str, bool] = {}
        self.latest: dict[str, float] = {}
        for row in metric_files.normalised_rows(run.earlier_metrics):
            self._take(row)

    def update(self) -> None:
        """Read what was written since the last call; a missing file has nothing yet."""
        while lines := self._new_lines():
            for line in _fewer(lines):
                row = _row(line)
                if row is not None:
                    self._take(row)

    def curves(self) -> dict[str, list[tuple[int, float]]]:
        """Label -> (step, value) by step, as results.points.curves gives them."""
        return points.curves(self._rows.values())

    def _take(self, row: MetricRow) -> None:
        self.latest |= {name: value for name, value in row.values.items() if math.isfinite(value) and name != PLANNED}
        told = {name: value for name, value in row.values.items() if self._is_wanted(name)}
        if told:
            before = self._rows.get((row.kind, row.step))
            self._rows[row.kind, row.step] = MetricRow(
                row.step, row.kind, {**(before.values if before else {}), **told}
            )
        if len(self._rows) > _MOST_ROWS:
            # Every second one: a terminal shows a few hundred points, held-out ones are rare and stay.
            kept = [key for index, key in enumerate(self._rows) if key[0] != "train" or index % 2]
            self._rows = {key: self._rows[key] for key in kept}

    def _is_wanted(self, name: str) -> bool:
        if name not in self._wanted:
            self._wanted[name] = any(fnmatchcase(name, one) for one in _WANTED)
        return self._wanted[name]

    def _new_lines(self) -> list[bytes]:
        """Whole lines after the offset."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                data = file.read(_READ_BYTES)
        except OSError:
            return []
        end = data.rfind(b"\n") + 1
        self._offset += end
        return data[:end].splitlines()


def _fewer(lines: list[bytes]) -> list[bytes]:
    """Of very many lines every n-th training one, the last of all, and all others: a million take half a minute."""
    if len(lines) <= _MOST_LINES:
        return lines
    every = len(lines) // _MOST_LINES + 1
    return [line for index, line in enumerate(lines, 1) if not index % every or b'"train"' not in line] + lines[-1:]


def _row(line: bytes) -> MetricRow | None:
    try:
        entry: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return metric_files.normalised_row(entry) if isinstance(entry, dict) else None
