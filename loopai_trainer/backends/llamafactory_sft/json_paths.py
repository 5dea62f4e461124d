"""Files and folders that the JSON of DeepSpeed, FSDP and accelerate names: covered, inside the run, or refused.

Source: DeepSpeed 0.18 runtime/config.py, monitor/config.py, runtime/zero/offload_config.py and the data efficiency
library; a path under any other key is refused, since nobody here knows what reads it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.llamafactory_sft.coverage import FILE_KEYS, output_problems
from loopai_trainer.records import Problem

OUTPUTS = ("output_path", "output_file", "results_dir", "exps_dir")
"""Where monitors, the profiler and the autotuner write."""

SWAP = ("nvme_path",)
"""Swap space of ZeRO-Infinity: written before it is read, and on a disk of its own."""

_ENDINGS = ("path", "file", "dir", "folder", "checkpoint", "filename")


def json_path_problems(native: Mapping[str, Any], run: str) -> Iterator[Problem]:
    """All findings on paths in the JSON that FILE_KEYS name or hold."""
    for key in FILE_KEYS:
        for dotted, value in _texts(_content(native.get(key)), ""):
            yield from _judge(key, dotted, value, run)


def _judge(key: str, dotted: str, value: str, run: str) -> Iterator[Problem]:
    name = dotted.rpartition(".")[2]
    if name in SWAP:
        return
    if name in OUTPUTS:
        yield from output_problems(f"{key}: {dotted}", value, run)
    elif os.sep in value or name.endswith(_ENDINGS):
        message = f"{key}: '{dotted}' is {value!r}: training would read what the approved hash does not cover"
        hint = f"remove {dotted} from that configuration"
        yield Problem("error", "UNCOVERED_INPUT", "config", message, hint, field=key)


def _content(value: Any) -> Any:
    if isinstance(value, str):
        try:
            with open(value, "rb") as file:
                return json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}  # reported as FILE_INVALID
    return value if isinstance(value, dict) else {}


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for part, child in value.items():
            yield from _texts(child, f"{key}.{part}" if key else str(part))
    elif isinstance(value, list):
        for child in value:
            yield from _texts(child, key)
    elif isinstance(value, str) and value:
        yield key, value
