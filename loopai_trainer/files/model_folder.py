"""Looks at a model folder as a loader would: weights whole, tokenizer present, modules that LoRA could train."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from loopai_trainer.files import safetensors, vocabulary
from loopai_trainer.records import Problem

TOKENIZER = "tokenizer.json"
TOKENIZER_FILES = (TOKENIZER, "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
"""A model folder needs one of them."""

SMALL_FILES = (
    "config.json", "generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja", "merges.txt", *TOKENIZER_FILES,
)  # fmt: skip
"""Files beside the weights that are read as they are: a clone without Git LFS may have left pointers of any of them."""

_SHARD = re.compile(r"-\d{5}-of-\d{5}\.(safetensors|bin)$")
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
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
    base = _base_elsewhere(path)
    if base is not None:
        message = f"{path} is an adapter of {base}, which would be loaded from there, unchecked"
        hint = "merge it into a model folder first, and name that folder"
        return ModelFolder({}, None, (_problem("MODEL_IS_ADAPTER", message, hint, path),))
    config = _json_object(os.path.join(path, "config.json"))
    problems = [] if config is not None else [_config_problem(path)]
    if not any(name in TOKENIZER_FILES or name.endswith(".tiktoken") for name in os.listdir(path)):
        message = f"no tokenizer files in {path}: some frameworks then train on rows without text and say nothing"
        problems.append(_problem("TOKENIZER_MISSING", message, "put the model's tokenizer files there", path))
    problems += _small_file_problems(path, (config or {}).get("vocab_size"))
    index = _index(path)
    names = sorted(set(index.values())) if index else _weight_files(path)
    if not names:
        hint = "copy the model's *.safetensors there"
        problems.append(_problem("WEIGHTS_MISSING", f"no weights in {path}", hint, path))
    faults = [*_outside_problems(path, names), *_weight_problems(path, names)]
    if not index and names and all(map(_SHARD.search, names)):
        message = f"{path} holds shards of weights ({names[0]}, ...) without their index: they would not be found"
        faults.append(_problem("SHARD_INDEX_MISSING", message, f"put {_INDEXES[0]} there", path))
    weights = None if faults or not names else _weights(path, names)
    if weights is not None and weights.tensors:
        faults += _missing_tensors(path, index, weights)
    return ModelFolder(config or {}, weights, (*problems, *faults))


def _base_elsewhere(path: str) -> str | None:
    """The base model that adapter_config.json sends a loader to, config.json or not; None if there is no other."""
    where = os.path.join(path, "adapter_config.json")
    if not os.path.lexists(where):
        return None
    base = (_json_object(where) or {}).get("base_model_name_or_path")
    if isinstance(base, str) and os.path.isabs(base) and os.path.realpath(base) == os.path.realpath(path):
        return None
    return str(base) if base else "a model that it does not name"


def module_names(weights: Weights) -> frozenset[str]:
    """Last components of the modules with a two-dimensional weight: what `lora_target` may name."""
    return frozenset(
        name.removesuffix(".weight").rpartition(".")[2]
        for name, shape in weights.tensors.items()
        if name.endswith(".weight") and len(shape) == 2
    )


def _index(path: str) -> dict[str, str]:
    """Tensor -> shard, as the folder's index says; empty without one. A whole file goes before it, as it is loaded."""
    if os.path.isfile(os.path.join(path, "model.safetensors")):
        return {}
    for index in _INDEXES:
        mapping = (_json_object(os.path.join(path, index)) or {}).get("weight_map")
        if isinstance(mapping, dict):
            return {str(tensor): str(name) for tensor, name in mapping.items()}
    return {}


def _missing_tensors(path: str, index: Mapping[str, str], weights: Weights) -> Iterator[Problem]:
    """Tensors that the index names and no shard holds: a loader makes them up at random and only logs it."""
    missing = [tensor for tensor in index if tensor not in weights.tensors]
    if missing:
        message = f"the index names {len(missing)} tensors that the shards do not hold ({', '.join(missing[:3])}, ...)"
        yield _problem("WEIGHTS_INCOMPLETE", message, "download the model again", path)


def _small_file_problems(path: str, rows: object) -> Iterator[Problem]:
    """`rows`: of the model's embedding, as config.json says."""
    for name in SMALL_FILES:
        file_path = os.path.join(path, name)
        if not os.path.isfile(file_path):
            continue
        if _starts_as_pointer(file_path):
            message = f"{name}: it is a Git LFS pointer, not the file (run `git lfs pull` where it was cloned)"
            yield _problem("MODEL_LFS_POINTER", message, "download the model again", file_path)
        elif name in (TOKENIZER, "tokenizer_config.json"):
            document = _json_object(file_path)
            if document is None:
                message = f"{name}: it is not a whole JSON object"
                yield _problem("TOKENIZER_DAMAGED", message, "download the model's tokenizer again", file_path)
            elif name == TOKENIZER and vocabulary.is_told(document):
                yield from _lost_tokens(file_path, document, rows)


def _lost_tokens(path: str, document: Mapping[str, Any], rows: object) -> Iterator[Problem]:
    lost = vocabulary.lost(vocabulary.tokens(document), rows)
    if lost:
        message = f"{TOKENIZER} has {lost}: most text would be trained on as nothing"
        yield _problem("TOKENIZER_LOST", message, "copy the tokenizer's files from the base model", path)


def _weight_files(path: str) -> list[str]:
    """What transformers would load without an index: safetensors, else PyTorch files."""
    names = sorted(os.listdir(path))
    found = [name for name in names if name.endswith(".safetensors") and not name.startswith("adapter_")]
    return found or [name for name in names if name.startswith("pytorch_model") and name.endswith(".bin")]


def _outside_problems(path: str, names: list[str]) -> Iterator[Problem]:
    """Shards that the index sends a loader out of the folder for: the fingerprint covers the folder alone."""
    for name in names:
        if os.path.isabs(name) or os.path.normpath(name).startswith(".."):
            hint = "put the shard into the model's folder, and its bare name into the index"
            message = f"the index names {name}, which lies outside of the folder and would be read unchecked"
            yield _problem("MODEL_REACHES_OUT", message, hint, path)


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
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _config_problem(path: str) -> Problem:
    where = os.path.join(path, "config.json")
    what = "is not valid JSON" if os.path.isfile(where) else "is missing"
    return _problem("MODEL_CONFIG", f"{where} {what}", "put the model's config.json there", where)


def _problem(code: str, message: str, hint: str, path: str) -> Problem:
    return Problem("error", code, "model", message, hint, path=path, field="model_name_or_path")
