"""The code that a run executes besides the installed packages': copied into `inputs/`, so that the hash covers it."""

from __future__ import annotations

import os
from collections.abc import Mapping

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_INSIDE = os.path.join(_FOLDER, "inside")
_DRIVER = (
    *("agl_main.py", "agl_told.py", "agl_hidden.py", "agl_run.py"),
    *("agl_parts.py", "agl_records.py", "agl_watch.py"),
)

_OF_STAGE: Mapping[str, tuple[str, ...]] = {"apo": ("agl_prompts.py",), "grpo": ("agl_one.py", "agl_agent.py")}


def input_files(stage: str) -> Mapping[str, str]:
    """The driver: name in `inputs/` -> where it lies now."""
    names = (*_DRIVER, *_OF_STAGE.get(stage, ()))
    rules = os.path.join(os.path.dirname(os.path.dirname(_FOLDER)), "rules", "components.py")
    return {**{name: os.path.join(_INSIDE, name) for name in names}, "components.py": rules}
