"""Thins a trainer_log.jsonl of many megabytes before it is parsed: every line that can matter to the choice is kept."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from loopai_trainer.results import metric_files

LARGE_BYTES = 8 * 1024 * 1024
"""Below this a log is parsed whole; a line has about 200 bytes."""

# A training line as LLaMA-Factory 0.9.5 writes it; evaluation lines have eval_loss and never match.
_TRAINING_LINE = re.compile(rb'"current_steps": ?(\d+),.*?"loss": ?([^,}\s]+)')


class Thinned(NamedTuple):
    """`lines`: in file order. `left_out`: training lines that are not among them."""

    lines: list[bytes]
    left_out: int


class _Block:
    """The training lines of one block of the file: of those without a mark, the first, last and lowest are kept."""

    def __init__(self) -> None:
        self.kept: dict[int, bytes] = {}
        self.lowest = (math.inf, -1, b"")
        self.last = (-1, b"")
        self.count = 0

    def add(self, index: int, line: bytes, loss: float) -> None:
        if self.count == 0:
            self.kept[index] = line
        if 0.0 < loss < self.lowest[0]:
            self.lowest = (loss, index, line)
        self.last = (index, line)
        self.count += 1

    def lines(self) -> list[bytes]:
        for index, line in (self.lowest[1:], self.last):
            if index >= 0:
                self.kept[index] = line
        return [self.kept[index] for index in sorted(self.kept)]


def thin(path: str) -> Thinned | None:
    """The lines to parse, or None if steps go back: after a resume every line is needed to see which one counts.

    Kept are all lines but training lines, and of these, of each MiB, the first, the last and the lowest loss, and
    each at which the loss starts or ends being zero or not finite.
    """
    kept: list[bytes] = []
    total = last_step = -1
    training = 0
    state = ""
    for lines in metric_files.line_blocks(path):
        block = _Block()
        for index, line in enumerate(lines):
            match = _TRAINING_LINE.search(line)
            if match is None:
                block.kept[index] = line
                continue
            step, loss = int(match[1]), float(match[2])
            if step <= last_step:
                return None
            last_step = step
            now = "" if loss > 0.0 and loss != math.inf else "zero" if loss == 0.0 else "bad"
            block.add(index, line, loss)
            if now != state:
                block.kept[index] = line
                state = now
        kept += block.lines()
        training += block.count
    total = training - sum(1 for line in kept if _TRAINING_LINE.search(line))
    return Thinned(kept, total)
