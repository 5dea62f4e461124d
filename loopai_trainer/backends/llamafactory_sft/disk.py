"""Estimates the disk that a run's checkpoints and caches need, with the formula shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from loopai_trainer.backends.llamafactory_sft import schedule
from loopai_trainer.files.model_folder import Weights
from loopai_trainer.records import Problem

ADAM_BYTES = 8
"""Two float32 moments a trained parameter."""
MASTER_BYTES = 4
"""The float32 copy of a trained parameter that DeepSpeed keeps, and saves, beside the moments."""
CACHE_FACTOR = 7
"""LLaMA-Factory's tokenised cache is about 7 times its data (measured, 0.9.5)."""
_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "KB"))


class Estimate(NamedTuple):
    """Bytes. `weights_only` leaves the optimizer's state out: less than that cannot be enough.

    `with_optimizer`: whether checkpoints hold that state.
    """

    weights_only: int
    total: int
    formula: str
    with_optimizer: bool = True


def estimate(native: Mapping[str, Any], weights: Weights, steps: schedule.Schedule, data_bytes: int) -> Estimate:
    """Checkpoints kept, one more while the next is saved, the final weights, and the data caches."""
    saved, trained = _saved_and_trained(native, weights)
    each, what = (ADAM_BYTES, "Adam moments")
    if native.get("deepspeed"):
        each, what = (ADAM_BYTES + MASTER_BYTES, "Adam moments and float32 weights")
    alone = native.get("save_only_model") is True
    optimizer = 0 if alone else each * trained
    kept = _kept(native, steps.total_steps)
    cache = CACHE_FACTOR * data_bytes
    held = f"{_shown(saved)} weights" if alone else f"({_shown(saved)} weights + {_shown(optimizer)} {what})"
    formula = f"({kept} kept + 1 during a save) x {held} + {_shown(saved)} final weights + {_shown(cache)} data cache"
    return Estimate((kept + 1) * saved, (kept + 1) * (saved + optimizer) + saved + cache, formula, not alone)


def disk_problems(found: Estimate, free_bytes: int) -> list[Problem]:
    """An error if the weights alone do not fit, a warning if the whole estimate does not."""
    if found.total <= free_bytes:
        return []
    severe = found.weights_only > free_bytes
    message = (
        f"about {_shown(found.total, 0)} of disk are needed, {_shown(free_bytes, 0)} are free (an estimate): "
        + found.formula
        + (f"; the weights alone take {_shown(found.weights_only, 0)}" if severe else "")
    )
    less = "lower save_total_limit, set save_only_model: true," if found.with_optimizer else "lower save_total_limit"
    hint = f"{less} or choose another --output-dir"
    return [Problem("error" if severe else "warning", "DISK_SPACE", "host", message, hint, field="save_total_limit")]


def _shown(size: int, digits: int = 1) -> str:
    """Bytes in the largest decimal unit that leaves a number of at least 1."""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.{digits}f} {name}"
    return f"{size} bytes"


def _saved_and_trained(native: Mapping[str, Any], weights: Weights) -> tuple[int, int]:
    """(bytes of weights in a checkpoint, trained parameters). LoRA and OFT save float32 of their targets alone."""
    method = native.get("finetuning_type")
    if method == "lora":
        rank = schedule.positive(native.get("lora_rank"), 8)
        trained = sum(rank * sum(shape) for shape in _targets(native.get("lora_target", "all"), weights))
    elif method == "oft":
        trained = sum(_rotations(native, columns) for _, columns in _targets(native.get("oft_target", "all"), weights))
    else:
        return weights.size_bytes, weights.parameters
    return 4 * trained, trained


def _targets(wanted: object, weights: Weights) -> Iterator[tuple[int, ...]]:
    """Shapes of the matrices that an adapter is put on."""
    names = wanted.split(",") if isinstance(wanted, str) else list(wanted) if isinstance(wanted, (list, tuple)) else []
    targets = {str(name).strip() for name in names}
    for name, shape in weights.tensors.items():
        if len(shape) == 2 and ("all" in targets or name.removesuffix(".weight").rpartition(".")[2] in targets):
            yield shape


def _rotations(native: Mapping[str, Any], columns: int) -> int:
    """Parameters of one target: a skew-symmetric matrix for each block of its inputs.

    Source: PEFT 0.18.1 tuners/oft/layer.py OFTLayer.update_layer; either the size of a block or their number is set.
    A size that does not divide the inputs is changed by PEFT to one near it, which changes the sum as little.
    """
    size = schedule.positive(native.get("oft_block_size", 32), 0) or columns // schedule.positive(
        native.get("oft_rank"), columns
    )
    return columns * (size - 1) // 2


def _kept(native: Mapping[str, Any], total_steps: int | None) -> int:
    """Checkpoints that exist at the end: as many as are saved, at most save_total_limit."""
    if native.get("save_strategy") == "no":
        return 0
    every = schedule.interval(native.get("save_steps", 500), total_steps)
    planned = -(-total_steps // every) if total_steps and every and native.get("save_strategy") != "epoch" else None
    limit = schedule.positive(native.get("save_total_limit"), 0)
    known = [number for number in (planned, limit) if number]
    return min(known) if known else 1
