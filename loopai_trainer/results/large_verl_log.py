"""Thins a verl metrics file of many megabytes before it is parsed: every line that can matter to the choice is kept.

A line holds about a hundred metrics, so that parsing all of them costs more memory than a run's page is worth.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from loopai_trainer.results import metric_files
from loopai_trainer.results.large_log import Thinned

BLOCK_BYTES = 128 * 1024
CURVE_LINES = 300
"""So many lines, at even distances, are kept for the curves."""

_STEP = re.compile(rb'{"step": ?(\d+)')
"""verl writes the step first (utils/tracking.py, 0.9.1)."""
_VALIDATION = b'"val-'
_CORE = b'"val-core/'
"""verl's names for accuracy or reward, whichever there is. Without one a training score may have to choose."""
_HEALTH = re.compile(rb'"(?:actor/loss|actor/grad_norm|critic/score/mean|loss|grad_norm)": ?(?:[^-\d ]|-[^\d])')
"""A value that is no number, under a key by which rules.series sees that a run diverged."""


def thin(path: str, steps: Collection[int] = ()) -> Thinned | None:
    """The lines to parse, or None if every line may matter: steps go back, lines of another form, no validation score.

    Kept are lines with validation metrics, those of `steps` (where checkpoints are), the last, some at even distances
    for the curves; all of a block with a metric of the run's health that is not finite, and the first line after it.
    """
    scan = _Scan(steps, os.path.getsize(path))
    for lines in metric_files.line_blocks(path, BLOCK_BYTES):
        if not scan.add(lines):
            return None
    return scan.thinned() if scan.validated else None


class _Scan:
    def __init__(self, steps: Collection[int], size_bytes: int) -> None:
        self.kept: list[bytes] = []
        self.left_out = 0
        self.validated = False
        self._wanted_steps = steps
        self._size_bytes = size_bytes
        self._last_step = -1
        self._distance = 0
        self._seen = 0
        self._after_a_bad_one = False
        self._end = b""

    def add(self, lines: list[bytes]) -> bool:
        """Take up a block; False if its steps do not go forward."""
        lines = [line for line in lines if line]
        if not lines:
            return True
        steps = [_step(line) for line in lines]
        if any(after <= before for before, after in zip([self._last_step, *steps], steps, strict=False)):
            return False
        self._last_step = steps[-1]
        if not self._distance:
            self._distance = max(1, self._size_bytes // (len(lines[0]) + 1) // CURVE_LINES)
        first, self._seen = self._seen, self._seen + len(lines)
        validations = [index for index, line in enumerate(lines) if _VALIDATION in line]
        self.validated = self.validated or any(_CORE in lines[index] for index in validations)
        self._end, after_a_bad_one = lines[-1], self._after_a_bad_one
        self._after_a_bad_one = any(_not_finite(line) for line in lines)
        if self._after_a_bad_one:
            self.kept += lines
            return True
        wanted = {*validations, *([0] if after_a_bad_one else [])}
        wanted.update(range(-first % self._distance, len(lines), self._distance))
        wanted.update(index for index, step in enumerate(steps) if step in self._wanted_steps)
        self.kept += [lines[index] for index in sorted(wanted)]
        self.left_out += len(lines) - len(wanted)
        return True

    def thinned(self) -> Thinned:
        """What is left, with the last line of all."""
        if self.kept[-1] is not self._end:
            self.kept.append(self._end)
            self.left_out -= 1
        return Thinned(self.kept, self.left_out)


def _not_finite(line: bytes) -> bool:
    """Whether a metric of the run's health is; first by what such a line of verl's holds: null, NaN or Infinity."""
    return (b"null" in line or b"N" in line or b"I" in line) and bool(_HEALTH.search(line))


def _step(line: bytes) -> int:
    """The line's step; -1 without one, which never goes forward."""
    match = _STEP.match(line)
    return int(match[1]) if match else -1
