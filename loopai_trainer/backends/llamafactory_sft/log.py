"""Reads training's own output: the phase before the first step, the numbers of examples, the number of steps.

Source: the streams of LLaMA-Factory 0.9.5 with transformers 5.6.0 (tests/cases/llamafactory/).
"""

import re

from loopai_trainer.records import LogFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PHASES = (
    (">> Loading dataset ", "loading_data"),
    ("Generating train split", "loading_data"),
    ("Converting format of dataset", "loading_data"),
    ("Running tokenizer on dataset", "tokenising"),
    (">> loading weights file", "loading_model"),
    (">> loading weights from", "loading_model"),
    ("Loading weights:", "loading_model"),
    ("Loading checkpoint shards:", "loading_model"),
    ("***** Running training *****", "training"),
)
OVERLAP_LINES = 8
"""A count stands a few lines below its heading: who reads in batches repeats this many lines of the last one."""

_COUNT = re.compile(r"Num examples = ([\d,]+)")
_STEPS = re.compile(r"Total optimization steps = ([\d,]+)")
_HEADING = re.compile(r"\*\*\*\*\* Running (\w+)")


def read_log(lines: "Iterable[str]") -> list[LogFact]:
    """What the lines say, in order; a phase is told when it changes. Progress bars may share a line, split by \\r."""
    facts: list[LogFact] = []
    heading = phase = ""
    for line in _split(lines):
        heading = found.group(1).lower() if (found := _HEADING.search(line)) else heading
        new = next((name for text, name in PHASES if text in line), phase)
        if new != phase:
            phase = new
            facts.append(LogFact("phase", phase))
        if found := _COUNT.search(line):
            kind = {"training": "train_examples", "evaluation": "validation_examples"}.get(heading)
            if kind == "train_examples":
                facts.append(LogFact("train_examples", _number(found.group(1))))
            elif kind == "validation_examples":
                facts.append(LogFact("validation_examples", _number(found.group(1))))
        elif found := _STEPS.search(line):
            facts.append(LogFact("total_steps", _number(found.group(1))))
    return facts


def _split(lines: "Iterable[str]") -> "Iterator[str]":
    for line in lines:
        yield from line.split("\r") if "\r" in line else (line,)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
