"""What a verl output folder holds: metric lines and `global_step_N` folders. Moves into the verl backend with it.

Source: verl 0.9.1 (utils/tracking.py, fsdp_checkpoint_manager).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import Any

from loopai_trainer.files import safetensors
from loopai_trainer.records import Checkpoint, MetricKind, MetricRow
from loopai_trainer.results.metric_files import numbers

DEFAULT_METRIC = "val-core/*/acc/mean@*"
TRACKER = "latest_checkpointed_iteration.txt"

_STEP_FOLDER = re.compile(r"global_step_(\d+)")
_SHARD = re.compile(r"model_world_size_(\d+)_rank_(\d+)\.pt")


class VerlFolder:
    """Reads what verl wrote; the counterpart of a backend for folders that this project did not start."""

    name = "verl"

    def read_metrics(self, lines: Iterable[bytes]) -> list[MetricRow]:
        """{"step", "data": {...}} lines -> rows in file order; null (verl's NaN) becomes NaN."""
        return [row for line in lines for row in _rows(line)]

    def find_checkpoints(self, folder: str) -> list[Checkpoint]:
        """All global_step_N folders by step. Complete: every shard of the world size, or a Hugging Face model.

        The tracker file is not believed: another step of verl writes it than the shards (verl PR 4873).
        """
        try:
            names = os.listdir(folder)
        except OSError:
            return []
        found = [(int(match[1]), name) for name in names if (match := _STEP_FOLDER.fullmatch(name))]
        return [_checkpoint(os.path.join(folder, name), name, step) for step, name in sorted(found)]


def tracked_step(folder: str) -> int | None:
    """The step that verl's tracker file names, for people to compare."""
    try:
        with open(os.path.join(folder, TRACKER), "rb") as file:
            text = file.read(32).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _rows(line: bytes) -> list[MetricRow]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return []
    step, data = (entry.get("step"), entry.get("data")) if isinstance(entry, dict) else (None, None)
    if not isinstance(step, int) or isinstance(step, bool) or not isinstance(data, dict):
        return []
    split: dict[MetricKind, dict[str, Any]] = {"train": {}, "val": {}}
    for name, value in data.items():
        split["val" if name.startswith("val-") else "train"][name] = value
    # A validation line without training carries bookkeeping alone; it is no training point.
    if all(name.startswith("training/") for name in split["train"]):
        split["train"] = {}
    return [MetricRow(step, kind, values) for kind, found in split.items() if (values := numbers(found))]


def _checkpoint(path: str, name: str, step: int) -> Checkpoint:
    actor = os.path.join(path, "actor")
    if not os.path.isdir(actor):
        return Checkpoint(name, step, path, False, "no actor folder: pruned, or not saved to the end")
    missing = _missing_shards(actor)
    if missing and not _holds_model(os.path.join(actor, "huggingface")):
        return Checkpoint(name, step, path, False, missing)
    return Checkpoint(name, step, path, True)


def _missing_shards(actor: str) -> str:
    """Why the shards do not make a model; empty if they do."""
    shards = [(match, name) for name in os.listdir(actor) if (match := _SHARD.fullmatch(name))]
    told = _world_size(os.path.join(actor, "fsdp_config.json"))
    sizes = {int(match[1]) for match, _ in shards} | ({told} if told else set())
    if not sizes:
        return "no model shards and no model in actor/huggingface"
    if len(sizes) > 1:
        return f"shards of different world sizes: {', '.join(map(str, sorted(sizes)))}"
    world_size = sizes.pop()
    ranks = {int(match[2]) for match, _ in shards}
    if len(ranks & set(range(world_size))) < world_size:
        return f"{len(ranks)} of {world_size} model shards"
    empty = sorted(name for _, name in shards if os.path.getsize(os.path.join(actor, name)) == 0)
    return f"{empty[0]} is empty" if empty else ""


def _world_size(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            size = json.loads(file.read()).get("world_size")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return size if isinstance(size, int) and size > 0 else None


def _holds_model(folder: str) -> bool:
    """config.json and all weight files whole."""
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    weights = {name for name in names if name.endswith(".safetensors")} | _indexed(folder)
    return "config.json" in names and bool(weights) and all(_is_whole(os.path.join(folder, name)) for name in weights)


def _indexed(folder: str) -> set[str]:
    """The weight files that the index names, whether or not they are there."""
    try:
        with open(os.path.join(folder, "model.safetensors.index.json"), "rb") as file:
            return set(json.loads(file.read())["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()


def _is_whole(path: str) -> bool:
    try:
        safetensors.read_header(path)
    except (OSError, safetensors.Damaged):
        return False
    return True
