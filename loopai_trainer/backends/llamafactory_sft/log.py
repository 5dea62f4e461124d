"""Reads training's own output: the phase before the first step, the numbers of examples, the number of steps.

Source: the streams of LLaMA-Factory 0.9.5 with transformers 5.6.0 (tests/cases/llamafactory/).
"""

from __future__ import annotations

import re

from loopai_trainer.records import LogFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Literal

PHASES = (
    (">> Loading dataset ", "loading_data"),
    ("Generating train split", "loading_data"),
    ("Converting format of dataset", "loading_data"),
    ("Running tokenizer on dataset", "tokenising"),
    (">> loading weights file", "loading_model"),
    (">> loading weights from", "loading_model"),
    ("Loading weights:", "loading_model"),
    ("Loading checkpoint shards:", "loading_model"),
)
_COUNT_MARKS = (b"Running training", b"Running Evaluation", b"Num examples")
MARKS: Mapping[str, tuple[bytes, ...]] = {
    "phase": (b"Running training", *(text.encode() for text, _ in PHASES)),
    "train_examples": _COUNT_MARKS,
    "validation_examples": _COUNT_MARKS,
    "total_steps": (b"Total optimization steps",),
}
"""Bytes without which a line says nothing of that kind (contract.MarksLog)."""

OVERLAP_LINES = 8
"""A count stands a few lines below its heading: who reads in batches repeats this many lines of the last one."""

# Rows of the data are printed too and may hold anything: only lines with the trainer's own prefix count.
_PREFIX = r"^\[INFO\|trainer\.py:\d+\] [^>]*>>\s+"
_COUNT = re.compile(_PREFIX + r"Num examples = ([\d,]+)$")
_STEPS = re.compile(_PREFIX + r"Total optimization steps = ([\d,]+)$")
_TRAINING = re.compile(_PREFIX + r"\*{5} Running training \*{5}$")
_EVALUATION = re.compile(r"^\*{5} Running Evaluation \*{5}$")


def read_log(lines: Iterable[str]) -> list[LogFact]:
    """What the lines say, in order; a phase is told when it changes. Progress bars may share a line, split by \\r."""
    facts: list[LogFact] = []
    counted: Literal["train_examples", "validation_examples"] | None = None
    phase = ""
    for line in _split(lines):
        if _TRAINING.search(line):
            counted = "train_examples"
        elif _EVALUATION.search(line):
            counted = "validation_examples"
        elif counted and (found := _COUNT.search(line)):
            facts.append(LogFact(counted, _number(found.group(1))))
        elif found := _STEPS.search(line):
            facts.append(LogFact("total_steps", _number(found.group(1))))
        new = _phase(line)
        if new and new != phase:
            phase = new
            facts.append(LogFact("phase", phase))
    return facts


def _phase(line: str) -> str | None:
    if _TRAINING.search(line):
        return "training"
    return next((name for text, name in PHASES if text in line), None)


def _split(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield from (piece.rstrip("\n") for piece in line.split("\r"))


def _number(text: str) -> int:
    return int(text.replace(",", ""))
