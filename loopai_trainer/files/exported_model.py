"""Judges an exported model folder against the base model that training started from, without loading either.

Weights: the names and shapes of the base, one float format, finite. Everything beside them: as the base has it, since
training changes weights alone; the tokenizer as the training had it, where that wrote one of its own.
"""

from __future__ import annotations

import json
import os

from loopai_trainer.files import safetensors, vocabulary
from loopai_trainer.files.model_folder import TOKENIZER, TOKENIZER_FILES
from loopai_trainer.records import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

CONFIG = "config.json"
GENERATION = "generation_config.json"
INDEX = "model.safetensors.index.json"
FORMATS = frozenset(("BF16", "F16", "F32"))

ARCHITECTURE = (
    "model_type", "architectures", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size", "tie_word_embeddings", "max_position_embeddings", "num_experts",
)  # fmt: skip
"""Keys of config.json that decide what the weights mean; the others are rewritten by every version of transformers."""

_NOT_SETTINGS = frozenset(("transformers_version", "_from_model_config"))
_SAMPLING = ("temperature", "top_p", "typical_p")
_TEMPLATE = "chat_template.jinja"
_TIED = "lm_head.weight"
_NAMED_AT_MOST = 3


def problems(base: str, folder: str, tokenizer: str | None = None) -> list[Problem]:
    """Everything that is wrong with the model in `folder`; empty: it can be loaded and used like `base`.

    `tokenizer`: the folder whose tokenizer and chat template the model has to have; None: those of `base`.
    """
    if not os.path.isdir(folder):
        return [_problem("EXPORT_MISSING", f"there is no model folder {folder}", "export it again", folder)]
    return [
        *config_problems(base, folder, tokenizer),
        *_weight_problems(base, folder),
    ]


def config_problems(base: str, folder: str, tokenizer: str | None = None) -> Iterator[Problem]:
    """What differs beside the weights: architecture, tokenizer, generation settings, chat template."""
    path = os.path.join(folder, CONFIG)
    config, wanted = json_object(path), json_object(os.path.join(base, CONFIG))
    if config is None:
        yield _problem("EXPORT_CONFIG", f"{path} is missing or no JSON object", f"copy {CONFIG} from {base}", path)
        return
    for key, value in (wanted or {}).items():
        if key in ARCHITECTURE and config.get(key) != value:
            message = f"{CONFIG}: {key} is not the base model's\n  expected: {value}\n  got:      {config.get(key)}"
            yield _problem("EXPORT_CONFIG", message, f"copy {CONFIG} from {base}", path)
    tokenizer = tokenizer or base
    yield from _tokenizer_problems(tokenizer, folder, config)
    yield from _generation_problems(base, folder)
    if chat_template(folder) != chat_template(tokenizer):
        message = f"the chat template is not {_whose(tokenizer, base)}"
        yield _problem("EXPORT_TOKENIZER", message, f"copy the tokenizer's files from {tokenizer}", folder)


def checkpoint_problems(base: str, folder: str) -> list[Problem]:
    """What keeps a checkpoint, whose weights are judged already, from being a model: a tokenizer that was lost.

    `base`: the model that training started from, whose files are to be copied.
    """
    hint, path = _copy_hint(base), os.path.join(folder, TOKENIZER)
    if not _tokenizer_files(folder):
        return [_no_tokenizer(folder, hint)]
    document = json_object(path) or {}
    if vocabulary.is_told(document):
        config = json_object(os.path.join(folder, CONFIG)) or {}
        found = list(_lost_tokens(vocabulary.tokens(document), config, hint, path))
        if found:
            return found
    if chat_template(base) and not chat_template(folder):
        message = f"{folder} has no chat template, and the base model has one"
        return [_problem("EXPORT_TOKENIZER", message, hint, folder)]
    return []


def chat_template(folder: str) -> str:
    """The model's chat template; empty if it has none."""
    try:
        with open(os.path.join(folder, _TEMPLATE), encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, ValueError):
        told = (json_object(os.path.join(folder, "tokenizer_config.json")) or {}).get("chat_template")
    return told.strip() if isinstance(told, str) else json.dumps(told) if told else ""


def json_object(path: str) -> dict[str, Any] | None:
    """The JSON object in a file, None if there is none."""
    try:
        with open(path, "rb") as file:
            value = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _whose(tokenizer: str, base: str) -> str:
    return "the base model's" if tokenizer == base else "that of the training"


def _copy_hint(base: str) -> str:
    return f"copy the tokenizer's files ({', '.join(_tokenizer_files(base)) or TOKENIZER}) from {base}"


def _no_tokenizer(folder: str, hint: str) -> Problem:
    return _problem("EXPORT_TOKENIZER", f"{folder} has no tokenizer", hint, folder)


def _tokenizer_problems(base: str, folder: str, config: Mapping[str, Any]) -> Iterator[Problem]:
    hint = _copy_hint(base)
    if not _tokenizer_files(folder):
        yield _no_tokenizer(folder, hint)
        return
    path = os.path.join(folder, TOKENIZER)
    if not os.path.isfile(path):
        return
    document, of_base = json_object(path) or {}, json_object(os.path.join(base, TOKENIZER)) or {}
    found, merges = vocabulary.tokens(document), _merges(document)
    wanted, base_merges = vocabulary.tokens(of_base), _merges(of_base)
    if wanted and merges != base_merges:
        message = f"{TOKENIZER} holds other merges than the base model's: {len(merges)} against {len(base_merges)}"
        yield _problem("EXPORT_TOKENIZER", message, hint, path)
    if wanted and found != wanted:
        message = f"{TOKENIZER} holds other tokens than the base model's: {len(found)} against {len(wanted)}"
        yield _problem("EXPORT_TOKENIZER", message, hint, path)
    else:
        yield from _lost_tokens(found, config, hint, path)


def _lost_tokens(found: Mapping[str, object], config: Mapping[str, Any], hint: str, path: str) -> Iterator[Problem]:
    lost = vocabulary.lost(found, config.get("vocab_size"))
    if lost:
        yield _problem("EXPORT_TOKENIZER", f"{TOKENIZER} has {lost}", hint, path)


def _generation_problems(base: str, folder: str) -> Iterator[Problem]:
    path = os.path.join(folder, GENERATION)
    wanted = json_object(os.path.join(base, GENERATION))
    if wanted is None:
        return
    found = json_object(path) or {}
    differing = [key for key, value in wanted.items() if key not in _NOT_SETTINGS and found.get(key) != value]
    if found.get("do_sample") is True and any(wanted.get(key) not in (None, 1, 1.0) for key in _SAMPLING):
        # Sampling settings without do_sample contradict themselves, which LLaMA-Factory corrects (patcher.py, 0.9.5).
        differing = [key for key in differing if key != "do_sample"]
    if differing:
        message = f"{GENERATION} differs from the base model's in {', '.join(differing)}"
        yield _problem("EXPORT_GENERATION", message, f"copy {GENERATION} from {base}", path)


def _weight_problems(base: str, folder: str) -> Iterator[Problem]:
    names = weight_files(folder)
    if not names:
        yield _problem("EXPORT_WEIGHTS", f"{folder} has no safetensors weights", "export it again", folder)
        return
    tensors: dict[str, safetensors.Tensor] = {}
    for name in names:
        path = os.path.join(folder, name)
        try:
            tensors |= {tensor.name: tensor for tensor in safetensors.read_header(path)}
            spoilt = safetensors.not_finite(path)
        except FileNotFoundError:
            yield _problem("EXPORT_WEIGHTS", f"{name} is missing", "export it again", path)
            return
        except safetensors.Damaged as error:
            yield _problem("EXPORT_WEIGHTS", f"{name}: {error}", "export it again", path)
            return
        if spoilt:
            message = f"{name}: the tensor {spoilt} holds NaN or Inf"
            yield _problem("EXPORT_NOT_FINITE", message, "export an earlier step, from before it diverged", path)
    formats = {tensor.dtype for tensor in tensors.values()}
    if len(formats) > 1 or not formats <= FORMATS:
        message = f"the weights have the formats {', '.join(sorted(formats))}"
        yield _problem("EXPORT_WEIGHTS", message, "export it again", folder)
    yield from _shape_problems(base, folder, {name: tensor.shape for name, tensor in tensors.items()})


def _shape_problems(base: str, folder: str, found: dict[str, tuple[int, ...]]) -> Iterator[Problem]:
    """Against the base's own headers; a base of another file format has none to compare with."""
    try:
        paths = [os.path.join(base, name) for name in weight_files(base)]
        wanted = {tensor.name: tensor.shape for path in paths for tensor in safetensors.read_header(path)}
    except (OSError, safetensors.Damaged):
        return
    if not wanted:
        return
    if (json_object(os.path.join(folder, CONFIG)) or {}).get("tie_word_embeddings"):
        found, wanted = ({n: s for n, s in shapes.items() if n != _TIED} for shapes in (found, wanted))
    differing = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    if differing:
        first = differing[0]
        message = (
            f"{len(differing)} weights are not those of the base model ({_shown(differing)})\n"
            f"  expected: {first} {_shape(wanted.get(first))}\n  got:      {first} {_shape(found.get(first))}"
        )
        yield _problem("EXPORT_WEIGHTS", message, "export it again, and report it if it happens again", folder)


def weight_files(folder: str) -> list[str]:
    """The weight files that a loader would read: one whole file, else those of the index, else all."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    if "model.safetensors" in names:
        return ["model.safetensors"]
    mapping = (json_object(os.path.join(folder, INDEX)) or {}).get("weight_map")
    if isinstance(mapping, dict):
        return sorted({str(name) for name in mapping.values()})
    return [name for name in names if name.endswith(".safetensors") and not name.startswith("adapter_")]


def _merges(document: Mapping[str, Any]) -> list[str]:
    """BPE merges in order, as text; newer versions of tokenizers write each as a pair."""
    model = document.get("model")
    told = model.get("merges") if isinstance(model, dict) else None
    return [merge if isinstance(merge, str) else " ".join(map(str, merge)) for merge in told or ()]


def _tokenizer_files(folder: str) -> list[str]:
    return [name for name in TOKENIZER_FILES if os.path.isfile(os.path.join(folder, name))]


def _shown(names: list[str]) -> str:
    more = ", ..." if len(names) > _NAMED_AT_MOST else ""
    return ", ".join(names[:_NAMED_AT_MOST]) + more


def _shape(shape: tuple[int, ...] | None) -> str:
    return "none" if shape is None else str(list(shape))


def _problem(code: str, message: str, hint: str, path: str) -> Problem:
    return Problem("error", code, "model", message, hint, path=path)
