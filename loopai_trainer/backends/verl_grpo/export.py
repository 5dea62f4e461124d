"""Makes a Hugging Face model of a checkpoint with verl's own merger: what is asked of it, and what is refused first.

The merger of verl 0.9.1 notices neither a lost tokenizer nor a changed config nor an adapter, and its exit status is
0 all the same; what it leaves is judged by files.exported_model. Source: verl 0.9.1, model_merger/.
"""

from __future__ import annotations

import os
import zipfile

from loopai_trainer.backends.verl_grpo import checkpoints
from loopai_trainer.backends.verl_grpo.launch import quiet_and_offline
from loopai_trainer.files import exported_model
from loopai_trainer.records import Command, Problem
from loopai_trainer.rules import launch_env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopai_trainer.records import Checkpoint, Plan

MODULE = "verl.model_merger"
_AGAIN = "export another step with trainer export --step N, or train again"


def export(plan: Plan, checkpoint: Checkpoint, destination: str) -> Command | None:
    """The merger's command: on the CPU, offline; whoever runs it gives it a home."""
    python = plan.loopai["backend"]["python"]
    actor = os.path.join(checkpoint.path, checkpoints.ACTOR)
    argv = (python, "-m", MODULE, "merge", "--backend", "fsdp", "--local_dir", actor, "--target_dir", destination)
    env = {
        "PATH": os.path.dirname(python) + os.pathsep + launch_env.SYSTEM_PATH,
        "CUDA_VISIBLE_DEVICES": "",
        **quiet_and_offline(),
    }
    return Command(argv, "", env)


def export_problems(plan: Plan, checkpoint: Checkpoint) -> list[Problem]:
    """Why a merge would fail, or be wrong without saying so. Reads no weights."""
    actor = os.path.join(checkpoint.path, checkpoints.ACTOR)
    found = [*_shard_problems(actor), *_adapter_problems(plan, actor)]
    return found or [*exported_model.config_problems(_base(plan), os.path.join(actor, checkpoints.HUGGINGFACE))]


def verify_export(plan: Plan, folder: str) -> list[Problem]:
    """What is wrong with the model that the merger made."""
    return exported_model.problems(_base(plan), folder)


def _base(plan: Plan) -> str:
    """The folder of the model that training started from."""
    return str(plan.loopai["inputs"]["model"]["path"])


def _shard_problems(actor: str) -> Iterator[Problem]:
    missing = checkpoints.missing_shards(actor)
    if missing:
        yield _problem("SHARDS_MISSING", f"{actor}: {missing}", _AGAIN, actor)
        return
    for name in checkpoints.shard_names(actor):
        path = os.path.join(actor, name)
        # torch.save writes a zip archive, whose directory comes last: a torn file has none. It is not read further.
        if not zipfile.is_zipfile(path):
            yield _problem("SHARD_DAMAGED", f"{name} is no whole shard: it was not saved to the end", _AGAIN, path)
    if checkpoints.world_size(actor) is None:
        path = os.path.join(actor, checkpoints.FSDP_CONFIG)
        size = len(checkpoints.shard_names(actor))
        hint = f'for a checkpoint of an older verl write {{"FSDP_version": 1, "world_size": {size}}} there'
        yield _problem("FSDP_CONFIG", f"{path} is missing, or does not name its world size", hint, path)


def _adapter_problems(plan: Plan, actor: str) -> Iterator[Problem]:
    """The merger writes an adapter beside the untouched base model: that model would be taken for the trained one."""
    model = plan.native.get("actor_rollout_ref", {}).get("model", {})
    rank = model.get("lora_rank") or (model.get("lora") or {}).get("rank") or 0
    meta = os.path.join(actor, "lora_train_meta.json")
    if rank or model.get("lora_adapter_path") or os.path.isfile(meta):
        message = "the checkpoint holds a LoRA adapter, which verl's merger does not merge into the model"
        hint = "merge it by hand with peft, or set result.export_huggingface: false and train without LoRA for rounds"
        yield _problem("EXPORT_LORA", message, hint, actor)


def _problem(code: str, message: str, hint: str, path: str) -> Problem:
    return Problem("error", code, "model", message, hint, path=path)
