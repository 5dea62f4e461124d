"""Judges what verl left behind below Agent Lightning: `global_step_N` folders with the shards of every rank.

verl's own tracker file is not believed, nothing is unpickled. (The backend verl has the same question of another verl;
backends know nothing of each other.) Source: verl 0.8.0, utils/checkpoint/fsdp_checkpoint_manager.py.
"""

from __future__ import annotations

import os
import re
import zipfile

from loopai_trainer.files import exported_model
from loopai_trainer.records import Artefact, Checkpoint, Command, Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopai_trainer.records import Plan

_FOLDER = re.compile(r"global_step_(\d+)")
_SHARD = re.compile(r"model_world_size_(\d+)_rank_(\d+)\.pt")


def find_checkpoints(folder: str) -> list[Checkpoint]:
    """All global_step_N of a folder, by N."""
    found = [(int(match[1]), name) for name in _names(folder) if (match := _FOLDER.fullmatch(name))]
    return [_checkpoint(os.path.join(folder, name), step) for step, name in sorted(found)]


def final_artefact(folder: str) -> Artefact:
    """The newest whole checkpoint."""
    found = find_checkpoints(folder)
    whole = [one for one in found if one.complete]
    if whole:
        return Artefact(whole[-1].path, True, True)
    return Artefact(folder, False, True, f"{found[-1].name}: {found[-1].why}" if found else "there is no checkpoint")


def export(plan: Plan, checkpoint: Checkpoint, destination: str, env: Mapping[str, str]) -> Command:
    """verl's own merger, on the CPU and offline."""
    python, actor = plan.loopai["backend"]["python"], os.path.join(checkpoint.path, "actor")
    argv = (python, "-m", "verl.model_merger", "merge", "--backend", "fsdp", "--local_dir", actor)
    path = os.path.dirname(python) + os.pathsep + "/usr/bin:/bin"
    return Command((*argv, "--target_dir", destination), "", {"PATH": path, "CUDA_VISIBLE_DEVICES": "", **env})


def export_problems(plan: Plan, checkpoint: Checkpoint) -> list[Problem]:
    """Why a merge would fail, or be wrong without saying so."""
    if not checkpoint.complete:
        return [_problem("SHARDS_MISSING", f"{checkpoint.name}: {checkpoint.why}", checkpoint.path)]
    model = (plan.native.get("verl") or {}).get("actor_rollout_ref", {}).get("model", {})
    if model.get("lora_rank"):
        message = "the checkpoint holds a LoRA adapter, which verl's merger does not merge into the model"
        return [_problem("EXPORT_LORA", message, checkpoint.path)]
    return []


def verify_export(plan: Plan, folder: str) -> list[Problem]:
    """What is wrong with the model that the merger made."""
    return exported_model.problems(str(plan.loopai["inputs"]["model"]["path"]), folder)


def _checkpoint(path: str, step: int) -> Checkpoint:
    why = _fault(os.path.join(path, "actor"))
    return Checkpoint(os.path.basename(path), step, path, not why, why)


def _fault(actor: str) -> str:
    shards = [match for name in _names(actor) if (match := _SHARD.fullmatch(name))]
    if not shards:
        return "no shards: pruned, or not saved to the end"
    sizes = {int(match[1]) for match in shards}
    if len(sizes) > 1:
        return f"shards of different world sizes: {', '.join(map(str, sorted(sizes)))}"
    size = sizes.pop()
    ranks = {int(match[2]) for match in shards} & set(range(size))
    if len(ranks) < size:
        return f"{len(ranks)} of {size} shards"
    torn = sorted(match[0] for match in shards if not zipfile.is_zipfile(os.path.join(actor, match[0])))
    return f"{torn[0]} is no whole shard" if torn else ""


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _problem(code: str, message: str, path: str) -> Problem:
    hint = "export another step with trainer export --step N, or train again"
    return Problem("error", code, "model", message, hint, path=path)
