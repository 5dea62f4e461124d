"""Judges what verl left behind: `global_step_N` folders. Nothing is ever unpickled, and verl's tracker is not believed.

Source: verl 0.9.1, utils/checkpoint/fsdp_checkpoint_manager.py: every rank writes its shards, then the first one
`huggingface/`, then `fsdp_config.json`; the tracker is written by another step yet (verl PR 4873).
"""

from __future__ import annotations

import json
import os
import re

from loopai_trainer.files import safetensors
from loopai_trainer.files.model_folder import TOKENIZER_FILES
from loopai_trainer.records import Artefact, Checkpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ACTOR = "actor"
HUGGINGFACE = "huggingface"
FSDP_CONFIG = "fsdp_config.json"

_FOLDER = re.compile(r"global_step_(\d+)")
_SHARD = re.compile(r"(model|optim|extra_state)_world_size_(\d+)_rank_(\d+)\.pt")


def find_checkpoints(folder: str) -> list[Checkpoint]:
    """All global_step_N of a folder, by N; one that died while it was saved, or was pruned, says what it lacks.

    Complete: every shard of its world size (or a whole Hugging Face model), with the world size and the config and
    tokenizer that verl writes beside them. Older versions write none of these: they are asked for where one of the
    folder's checkpoints has them.
    """
    found = [(int(match[1]), name) for name in _names(folder) if (match := _FOLDER.fullmatch(name))]
    paths = {step: os.path.join(folder, name) for step, name in found}
    actors = [os.path.join(path, ACTOR) for path in paths.values()]
    beside = {what for actor in actors for what in _beside(actor)}
    return [_checkpoint(path, step, beside) for step, path in sorted(paths.items())]


def final_artefact(folder: str) -> Artefact:
    """The newest checkpoint that is whole with everything that an export needs.

    Its weights are pickled, so their values are left to the metrics and to the export: `finite` says nothing more.
    """
    everything = {FSDP_CONFIG, "config.json", "a tokenizer"}
    why = "there is no checkpoint"
    for checkpoint in reversed(find_checkpoints(folder)):
        judged = _checkpoint(checkpoint.path, checkpoint.step, everything)
        if judged.complete:
            return Artefact(checkpoint.path, True, True)
        if why == "there is no checkpoint":
            why = f"{checkpoint.name}: {judged.why}"
    return Artefact(folder, False, False, why)


def resumable(checkpoint: Checkpoint) -> str:
    """Why training cannot go on from a complete checkpoint; empty: it can. An export needs none of this."""
    actor = os.path.join(checkpoint.path, ACTOR)
    for kind in ("model", "optim", "extra_state"):
        missing = missing_shards(actor, kind)
        if missing:
            return missing
    if not os.path.isfile(os.path.join(checkpoint.path, "data.pt")):
        return "data.pt is missing: the place in the data is not known"
    return ""


def missing_shards(actor: str, kind: str = "model") -> str:
    """Why the shards of that kind are not those of one whole world; empty if they are."""
    shards = [(match, name) for name in _names(actor) if (match := _SHARD.fullmatch(name)) and match[1] == kind]
    told = world_size(actor)
    sizes = {int(match[2]) for match, _ in shards} | ({told} if told else set())
    if not sizes:
        return f"no {kind} shards"
    if len(sizes) > 1:
        return f"{kind} shards of different world sizes: {', '.join(map(str, sorted(sizes)))}"
    size = sizes.pop()
    ranks = {int(match[3]) for match, _ in shards} & set(range(size))
    if len(ranks) < size:
        return f"{len(ranks)} of {size} {kind} shards"
    empty = sorted(name for _, name in shards if os.path.getsize(os.path.join(actor, name)) == 0)
    return f"{empty[0]} is empty" if empty else ""


def shard_names(actor: str) -> list[str]:
    """The model shards, by name."""
    return sorted(name for name in _names(actor) if (match := _SHARD.fullmatch(name)) and match[1] == "model")


def world_size(actor: str) -> int | None:
    """What fsdp_config.json says; None if it says nothing."""
    size = (json_object(os.path.join(actor, FSDP_CONFIG)) or {}).get("world_size")
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None


def json_object(path: str) -> dict[str, Any] | None:
    """The JSON object in a file, None if there is none."""
    try:
        with open(path, "rb") as file:
            value = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _checkpoint(path: str, step: int, beside: set[str]) -> Checkpoint:
    name = os.path.basename(path)
    actor = os.path.join(path, ACTOR)
    if not os.path.isdir(actor):
        return Checkpoint(name, step, path, False, "no actor folder: pruned, or not saved to the end")
    faults = list(_faults(actor, beside))
    return Checkpoint(name, step, path, not faults, "; ".join(faults))


def _faults(actor: str, beside: set[str]) -> Iterator[str]:
    missing = missing_shards(actor)
    if missing:
        if _holds_model(os.path.join(actor, HUGGINGFACE)):
            return
        yield missing + ("" if shard_names(actor) else " and no model in actor/huggingface")
    lacking = sorted(beside - set(_beside(actor)))
    if lacking:
        yield f"{', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} missing: it was not saved to the end"


def _beside(actor: str) -> Iterator[str]:
    """What lies beside the shards of a checkpoint that was saved to its end."""
    if world_size(actor):
        yield FSDP_CONFIG
    model = os.path.join(actor, HUGGINGFACE)
    if json_object(os.path.join(model, "config.json")) is not None:
        yield "config.json"
    if any(name in TOKENIZER_FILES for name in _names(model)):
        yield "a tokenizer"


def _holds_model(folder: str) -> bool:
    """config.json and all weight files whole."""
    names = _names(folder)
    weights = {name for name in names if name.endswith(".safetensors")} | _indexed(folder)
    return "config.json" in names and bool(weights) and all(_is_whole(os.path.join(folder, name)) for name in weights)


def _indexed(folder: str) -> set[str]:
    """The weight files that the index names, whether or not they are there."""
    mapping = (json_object(os.path.join(folder, "model.safetensors.index.json")) or {}).get("weight_map")
    return {str(name) for name in mapping.values()} if isinstance(mapping, dict) else set()


def _is_whole(path: str) -> bool:
    try:
        safetensors.read_header(path)
    except (OSError, safetensors.Damaged):
        return False
    return True


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
