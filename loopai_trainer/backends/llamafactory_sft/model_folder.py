"""Looks at a model folder as a loader would: weights whole, tokenizer present, modules that LoRA could train."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from loopai_trainer.backends.llamafactory_sft.checkpoints import TOKENIZER_FILES
from loopai_trainer.files import safetensors
from loopai_trainer.records import Problem

_BYTES: Mapping[str, int] = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I64": 8, "I32": 4, "I16": 2}


class Weights(NamedTuple):
    """What the safetensors headers say. `tensors` maps names to shapes; empty if the weights are of another kind."""

    tensors: Mapping[str, tuple[int, ...]]
    parameters: int
    size_bytes: int


class ModelFolder(NamedTuple):
    """`weights` is None if a file is damaged or missing: `problems` says which."""

    config: Mapping[str, Any]
    weights: Weights | None
    problems: tuple[Problem, ...]


def read_model_folder(path: str) -> ModelFolder:
    """Config, weights and every fault of a local model folder."""
    if not os.path.isdir(path):
        hint = "name a local model folder: training runs offline"
        return ModelFolder({}, None, (_problem("MODEL_NOT_FOUND", f"there is no model folder {path}", hint, path),))
    config = _json_object(os.path.join(path, "config.json"))
    problems = [] if config is not None else [_config_problem(path)]
    if not any(name in TOKENIZER_FILES or name.endswith(".tiktoken") for name in os.listdir(path)):
        message = f"no tokenizer files in {path}: LLaMA-Factory would train on rows without text and say nothing"
        problems.append(_problem("TOKENIZER_MISSING", message, "put the model's tokenizer files there", path))
    names = _weight_files(path)
    if not names:
        hint = "copy the model's *.safetensors there"
        problems.append(_problem("WEIGHTS_MISSING", f"no weights in {path}", hint, path))
    faults = list(_weight_problems(path, names))
    weights = None if faults or not names else _weights(path, names)
    return ModelFolder(config or {}, weights, (*problems, *faults))


def module_names(weights: Weights) -> frozenset[str]:
    """Last components of the modules with a two-dimensional weight: what `lora_target` may name."""
    return frozenset(
        name.removesuffix(".weight").rpartition(".")[2]
        for name, shape in weights.tensors.items()
        if name.endswith(".weight") and len(shape) == 2
    )


def _weight_files(path: str) -> list[str]:
    """What transformers would load: an index's shards, else safetensors, else PyTorch files."""
    for index in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        mapping = (_json_object(os.path.join(path, index)) or {}).get("weight_map")
        if isinstance(mapping, dict):
            return sorted({str(name) for name in mapping.values()})
    names = sorted(os.listdir(path))
    found = [name for name in names if name.endswith(".safetensors") and not name.startswith("adapter_")]
    return found or [name for name in names if name.startswith("pytorch_model") and name.endswith(".bin")]


def _weight_problems(path: str, names: list[str]) -> Iterator[Problem]:
    for name in names:
        file_path = os.path.join(path, name)
        if not os.path.isfile(file_path):
            hint = "download the model again"
            yield _problem("SHARD_MISSING", f"the index names {name}, which is not in {path}", hint, file_path)
            continue
        try:
            if name.endswith(".safetensors"):
                safetensors.read_header(file_path)
            elif _starts_as_pointer(file_path):
                raise safetensors.Damaged("it is a Git LFS pointer, not the weights")
        except safetensors.Damaged as error:
            code = "MODEL_LFS_POINTER" if "LFS" in str(error) else "WEIGHTS_DAMAGED"
            yield _problem(code, f"{name}: {error}", "download the model's weights again", file_path)


def _weights(path: str, names: list[str]) -> Weights:
    tensors: dict[str, tuple[int, ...]] = {}
    parameters = size = 0
    for name in names:
        size += os.path.getsize(os.path.join(path, name))
        if name.endswith(".safetensors"):
            for tensor in safetensors.read_header(os.path.join(path, name)):
                tensors[tensor.name] = tensor.shape
                parameters += (tensor.end - tensor.start) // _BYTES.get(tensor.dtype, 1)
    return Weights(tensors, parameters or size // 2, size)


def _starts_as_pointer(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(safetensors.LFS_START)) == safetensors.LFS_START


def _json_object(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _config_problem(path: str) -> Problem:
    where = os.path.join(path, "config.json")
    what = "is not valid JSON" if os.path.isfile(where) else "is missing"
    return _problem("MODEL_CONFIG", f"{where} {what}", "put the model's config.json there", where)


def _problem(code: str, message: str, hint: str, path: str) -> Problem:
    return Problem("error", code, "model", message, hint, path=path, field="model_name_or_path")
