"""Small verl plans, models and checkpoints as verl leaves them, without torch."""

import copy
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fakes.plans import LOOPAI
from fakes.safetensors_files import decoder_tensors, write_safetensors
from fakes.tokenizer_files import write_tokenizer
from loopai_trainer.records import Plan
from loopai_trainer.rules import plan as plans

NATIVE: Mapping[str, Any] = {
    "data": {"train_files": "/run/train.parquet", "val_files": "/run/validation.parquet"},
    "trainer": {"n_gpus_per_node": 2, "nnodes": 1},
}
RESULT = {"selection_metric": "val-core/*/acc/mean@*", "selection_mode": "max", "export_huggingface": True}
CONFIG = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 8, "vocab_size": 259}
GENERATION = {"eos_token_id": [257, 256], "temperature": 0.7, "transformers_version": "5.0"}


def verl_plan(
    native: Mapping[str, Any] | None = None,
    result: Mapping[str, Any] | None = None,
    model: str = "/model",
    **loopai: Any,
) -> Plan:
    """A GRPO plan; `native` replaces whole groups of verl's tree, `loopai` fields of the reserved block."""
    block = copy.deepcopy(LOOPAI)
    block.update(framework="verl", stage="grpo")
    block["backend"] = {**block["backend"], "package": "verl", "version": "0.9.1"}
    block["launch"] = {**block["launch"], "devices": "0,1"}
    block["inputs"]["validation"] = {**block["inputs"]["train"], "rows": 2}
    block["inputs"]["model"]["path"] = model
    return plans.render({**block, **loopai}, {**RESULT, **(result or {})}, {**NATIVE, **(native or {})})


def save_base_model(folder: Path, **config: Any) -> Path:
    """A base model: config, tokenizer, generation settings and weights."""
    write_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    (folder / "generation_config.json").write_text(json.dumps(GENERATION))
    write_safetensors(folder / "model.safetensors", decoder_tensors(dtype="F32"))
    return folder


def save_checkpoint(folder: Path, step: int, world_size: int = 1, base: Path | None = None) -> Path:
    """`global_step_N` as verl 0.9.1 saves it: shards of every rank, config and tokenizer, fsdp_config.json."""
    path = folder / f"global_step_{step}"
    actor = path / "actor"
    actor.mkdir(parents=True)
    for rank in range(world_size):
        for kind in ("model", "optim", "extra_state"):
            with zipfile.ZipFile(actor / f"{kind}_world_size_{world_size}_rank_{rank}.pt", "w") as archive:
                archive.writestr("archive/data.pkl", b"")
    model = write_tokenizer(actor / "huggingface")
    source = base or model
    for name, standby in (("config.json", CONFIG), ("generation_config.json", GENERATION)):
        told = source / name
        (model / name).write_text(told.read_text() if told.exists() else json.dumps(standby))
    (actor / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": world_size}))
    with zipfile.ZipFile(path / "data.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"place in the data")
    return path
