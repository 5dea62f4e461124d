"""What verl dumps beside its metrics: one JSONL of replies a step, in which samples that it made up can be counted.

When the reward raises, verl 0.9.1 replaces all samples of the prompt by padding and goes on as if nothing had
happened: no metric says so, only the `uid` of such a row. Source: verl 0.9.1, trainer/ppo/padding_utils.py.
"""

from __future__ import annotations

import os
import re

from loopai_trainer.records import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopai_trainer.records import LaunchPaths

ROLLOUTS = "rollouts"
VALIDATIONS = "validations"
KEPT_BYTES = 1 << 30
"""Dumps of a folder beyond this are removed, the oldest first: for a large run they would fill any disk."""

_DUMP = re.compile(r"(\d+)\.jsonl")
_PADDED = b', "uid": "pad'
"""As verl writes it; inside of a reply the quotes would be escaped."""
_PIECE_BYTES = 1 << 20
_TIDY_EVERY = 8


def step_problems(paths: LaunchPaths, step: int) -> list[Problem]:
    """A warning for a step with made-up samples. Every few steps it removes the oldest dumps beyond about 1 GiB."""
    if step % _TIDY_EVERY == 0 or step == 1:
        for name in (ROLLOUTS, VALIDATIONS):
            prune(os.path.join(paths.run, name), KEPT_BYTES)
    path = os.path.join(paths.run, ROLLOUTS, f"{step}.jsonl")
    rows, padded = count(path)
    if not padded:
        return []
    message = (
        f"{padded} of {rows} samples ({padded / rows:.0%}) of step {step} were made up by verl to replace prompts "
        "that failed, mostly because the reward raised: they train nothing"
    )
    hint = "look for 'Error in _run_prompt' in train.log and mend the reward, then prepare again"
    return [Problem("warning", "REWARD_PADDING", "train", message, hint, path=path)]


def count(path: str) -> tuple[int, int]:
    """(rows, rows that verl made up) of a dump; nothing where there is none yet. Reads it once, as bytes."""
    rows = padded = 0
    rest = b""
    for piece in _pieces(path):
        rows += piece.count(b"\n")
        padded += (rest + piece).count(_PADDED)
        rest = piece[-len(_PADDED) + 1 :]
    return rows, min(padded, rows)


def prune(folder: str, kept_bytes: int) -> list[str]:
    """Remove the oldest dumps until at most `kept_bytes` are left; the newest always stays. Returns what is gone."""
    removed = []
    kept = 0
    for number, (_, path, size) in enumerate(sorted(_dumps(folder), reverse=True)):
        kept += size
        if number == 0 or kept <= kept_bytes:
            continue
        try:
            os.unlink(path)
        except OSError:
            continue
        removed.append(path)
    return removed


def _dumps(folder: str) -> Iterator[tuple[int, str, int]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                match = _DUMP.fullmatch(entry.name)
                if match and entry.is_file(follow_symlinks=False):
                    yield int(match[1]), entry.path, entry.stat(follow_symlinks=False).st_size
    except OSError:
        return


def _pieces(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb", buffering=0) as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
    except OSError:
        return
