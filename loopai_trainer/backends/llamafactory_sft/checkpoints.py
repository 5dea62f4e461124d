"""Judges what LLaMA-Factory left behind: checkpoint folders and the final weights."""

import json
import os
import re
from collections.abc import Iterator

from loopai_trainer.files import safetensors
from loopai_trainer.files.model_folder import TOKENIZER_FILES
from loopai_trainer.records import Artefact, Checkpoint

_FOLDER = re.compile(r"checkpoint-(\d+)")


def find_checkpoints(folder: str) -> list[Checkpoint]:
    """All checkpoint-N of a run, by N; one that died while it was saved is listed with what it lacks."""
    names = [name for name in (os.listdir(folder) if os.path.isdir(folder) else []) if _FOLDER.fullmatch(name)]
    paths = [path for name in names if os.path.isdir(path := os.path.join(folder, name))]
    # trainer_state.json is saved last, so a checkpoint that lacks it died while it was saved; but a folder that was
    # copied without any of them still holds models that can be loaded (field case SUP-05B).
    stateful = any(os.path.lexists(os.path.join(path, "trainer_state.json")) for path in (folder, *paths))
    return sorted((_checkpoint(path, stateful) for path in paths), key=lambda checkpoint: checkpoint.step)


def _checkpoint(path: str, stateful: bool) -> Checkpoint:
    name = os.path.basename(path)
    faults = [fault for fault in _faults(path) if stateful or not fault.startswith("trainer_state.json")]
    return Checkpoint(name, int(name.removeprefix("checkpoint-")), path, not faults, "; ".join(faults))


def final_artefact(folder: str) -> Artefact:
    """The weights in the run's output folder: written after the last step (the best ones if load_best_model_at_end).

    Without all_results.json training died before its end. Every float weight is read to look for NaN and Inf.
    """
    faults = [*_faults(folder), *_tokenizer_faults(folder)]
    if not _is_json_object(os.path.join(folder, "all_results.json")):
        faults.append("all_results.json is missing: training did not reach its end")
    if faults:
        return Artefact(folder, False, False, "; ".join(faults))
    for name in _weight_names(folder):
        tensor = safetensors.not_finite(os.path.join(folder, name))
        if tensor:
            return Artefact(folder, True, False, f"{name}: the tensor {tensor} holds NaN or Inf")
    return Artefact(folder, True, True)


def _faults(folder: str) -> Iterator[str]:
    if not _is_json_object(os.path.join(folder, "trainer_state.json")):
        yield "trainer_state.json is missing or torn"
    names = _weight_names(folder)
    if not names:
        yield _no_weights(folder)
        return
    adapter = any(name.startswith("adapter_model") for name in names)
    config = "adapter_config.json" if adapter else "config.json"
    if not _is_json_object(os.path.join(folder, config)):
        yield f"{config} is missing or torn"
    for name in names:
        try:
            safetensors.read_header(os.path.join(folder, name))
        except FileNotFoundError:
            yield f"{name} is missing"
        except safetensors.Damaged as error:
            yield f"{name}: {error}"


def _no_weights(folder: str) -> str:
    if any(name.startswith("global_step") for name in (os.listdir(folder) if os.path.isdir(folder) else [])):
        return "no weights but DeepSpeed's own (set stage3_gather_16bit_weights_on_model_save in its JSON)"
    return "no weights"


def _weight_names(folder: str) -> list[str]:
    """The weight files that a loader would read: those of an index, else every safetensors file."""
    for index in ("model.safetensors.index.json", "adapter_model.safetensors.index.json"):
        try:
            with open(os.path.join(folder, index), "rb") as file:
                names = set(json.load(file)["weight_map"].values())
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return [index]  # no safetensors header in it: reported as damaged
        return sorted(names)
    names_here = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name for name in names_here if name.endswith(".safetensors"))


def _tokenizer_faults(folder: str) -> Iterator[str]:
    if not any(os.path.isfile(os.path.join(folder, name)) for name in TOKENIZER_FILES):
        yield "no tokenizer files"


def _is_json_object(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return isinstance(json.load(file), dict)
    except (OSError, ValueError, RecursionError):
        return False
