"""verl's own note of its newest checkpoint: shown where it disagrees with what is there, and never believed."""

from __future__ import annotations

import os

TRACKER = "latest_checkpointed_iteration.txt"


def tracked_step(folder: str) -> int | None:
    """The step that verl's tracker file names, for people to compare. Source: verl 0.9.1, trainer_base.py."""
    try:
        with open(os.path.join(folder, TRACKER), "rb") as file:
            text = file.read(32).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
