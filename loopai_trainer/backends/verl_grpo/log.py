"""Reads training's own output: the phase before the first step, the numbers of examples, the number of steps.

Source: the streams of verl 0.9.1 with ray 2.60 (tests/cases/verl/); what Ray's workers say comes with their name and
pid in front, coloured where Ray thinks that it talks to a terminal.
"""

from __future__ import annotations

import re

from loopai_trainer.records import LogFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from loopai_trainer.records import Plan

# Rewards and rollouts print what a model made up: of Ray's workers only the task runner's own lines count.
_RUNNER = r"^\(TaskRunner\w* pid=\d+(?:, ip=[\w.:]+)?\) "
_OWN = _RUNNER + r"(?:INFO:[\d-]+ [\d:,]+:)?"
_BAR = rf"(?:{_RUNNER})?"
"""A progress bar begins with a carriage return, which takes the prefix away from it."""
_SIZES = re.compile(
    _RUNNER + r"INFO:[\d-]+ [\d:,]+:train and validate dataloader initialized, "
    r"train dataset size: (\d+), val dataset size: (\d+)$"
)
_STEPS = re.compile(_OWN + r"Total training steps: (\d+)$")

# Lines of the task runner's stderr alone: Ray sends its stdout on by itself, now earlier and now later.
PHASES = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"^\[validate_config\] ", "starting_ray"),
        (r"^[\d-]+ [\d:,]+\s+INFO worker\.py:\d+ -- Started a local Ray instance", "starting_workers"),
        (_BAR + r"Generating train split: ", "loading_data"),
        (_OWN + r"train and validate dataloader initialized", "loading_model"),
        (_OWN + r"all initialize finished, ready to fit", "generating"),
        (_BAR + r"Training Progress: ", "training"),
    )
)
MARKS: Mapping[str, tuple[bytes, ...]] = {
    "phase": (
        *(
            b"[validate_config] ",
            b"Started a local Ray",
            b"Generating train split: ",
            b"validate dataloader initialized",
        ),
        *(b"all initialize finished", b"Training Progress: "),
    ),
    "train_examples": (b"val dataset size: ",),
    "validation_examples": (b"val dataset size: ",),
    "total_steps": (b"Total training steps: ",),
}
"""Bytes without which a line says nothing of that kind (contract.MarksLog)."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def read_log(lines: Iterable[str]) -> list[LogFact]:
    """What the lines say, in order; a phase is told when it changes. Progress bars may share a line, split by \\r."""
    facts: list[LogFact] = []
    phase = ""
    for line in plain(lines):
        if found := _SIZES.match(line):
            facts.append(LogFact("train_examples", int(found.group(1))))
            facts.append(LogFact("validation_examples", int(found.group(2))))
        elif found := _STEPS.match(line):
            facts.append(LogFact("total_steps", int(found.group(1))))
        new = next((name for pattern, name in PHASES if pattern.match(line)), phase)
        if new != phase:
            phase = new
            facts.append(LogFact("phase", phase))
    return facts


def expected_examples(plan: Plan) -> Mapping[str, int]:
    """The approved rows of both files, where verl reports all that it keeps; empty where it may keep fewer of them, or
    says nothing (before 0.9, or with the older trainer)."""
    native, inputs = plan.native, plan.loopai["inputs"]
    data: Mapping[str, Any] = native.get("data") or {}
    older = native.get("trainer", {}).get("use_v1") is False or plan.loopai["backend"]["version"].startswith("0.8")
    fewer = data.get("filter_overlong_prompts") is True or any(
        isinstance(data.get(name), int) and data[name] > 0 for name in ("train_max_samples", "val_max_samples")
    )
    if older or fewer:
        return {}
    found = {"train_examples": inputs.get("train"), "validation_examples": inputs.get("validation")}
    return {kind: int(entry["rows"]) for kind, entry in found.items() if entry and entry.get("rows")}


def plain(lines: Iterable[str]) -> Iterator[str]:
    """Lines without colours, the states of a progress bar one by one."""
    for line in lines:
        yield from (_COLOUR.sub("", piece.rstrip("\n")) for piece in line.split("\r"))
