"""Whether training can go on from a checkpoint exactly where it stopped, and what makes LLaMA-Factory do so.

Source: transformers 5.6.0 `Trainer._load_optimizer_and_scheduler`, `_load_rng_state`; LLaMA-Factory 0.9.5
hparams/parser.py (`resume_from_checkpoint` in a fresh output folder is taken as it stands).
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from loopai_trainer.backends.llamafactory_sft import schedule
from loopai_trainer.records import Checkpoint, Plan, Problem

KEY = "resume_from_checkpoint"
_STATE = "trainer_state.json"


def resume_keys(path: str) -> dict[str, Any]:
    """The native keys of a run that continues the checkpoint folder `path`."""
    return {KEY: path}


def checkpoint_problems(checkpoint: Checkpoint, before: Plan) -> list[Problem]:
    """Why the training of the plan `before` cannot be continued from this checkpoint; empty: it can."""
    return [_problem(checkpoint, why) for why in _faults(checkpoint, before)]


def plan_problems(plan: Plan) -> Iterator[Problem]:
    """Faults of a final YAML that continues another round, or says so."""
    path, block = plan.native.get(KEY), plan.loopai.get("resume")
    if not path and not block:
        return
    hint = "prepare it with `trainer prepare --resume VERSION`"
    if not isinstance(block, Mapping) or path != block.get("path"):
        message = f"'{KEY}' is {path!r}, but the checkpoint that was checked is that of loopai.resume"
        yield Problem("error", "UNCOVERED_INPUT", "config", message, hint, field=KEY)
        return
    pinned = {entry["path"] for entry in plan.loopai["inputs"]["files"]}
    loose = [name for name in _files(str(path)) if name not in pinned]
    if loose or not _files(str(path)):
        message = f"'{KEY}' names files that the plan does not pin: {', '.join(loose[:3]) or path}"
        yield Problem("error", "UNCOVERED_INPUT", "config", message, hint, field=KEY)
    planned = schedule.of_plan(plan).total_steps
    if planned is not None and int(block.get("step") or 0) >= planned:
        message = f"training would end at step {planned}, and the checkpoint is of step {block.get('step')}"
        yield Problem("error", "RESUME_FINISHED", "config", message, "raise num_train_epochs or max_steps", field=KEY)


def _faults(checkpoint: Checkpoint, before: Plan) -> Iterator[str]:
    if not checkpoint.complete:
        yield checkpoint.why
        return
    folder, launch = checkpoint.path, before.loopai["launch"]
    processes = int(launch["nproc_per_node"]) * int(launch["nodes"])
    names = set(os.listdir(folder))
    step = _state(folder).get("global_step")
    if step is None:
        yield f"{_STATE} is missing or torn"
    elif step != checkpoint.step:
        yield f"{_STATE} is of step {step}"
    if before.native.get("deepspeed"):
        yield from _deepspeed_faults(folder, names, processes)
    else:
        yield from (fault for name in ("optimizer.pt", "scheduler.pt") if (fault := _torch_fault(folder, name)))
    wanted = ["rng_state.pth"] if processes == 1 else [f"rng_state_{rank}.pth" for rank in range(processes)]
    yield from (fault for name in wanted if (fault := _torch_fault(folder, name)))


def _deepspeed_faults(folder: str, names: set[str], processes: int) -> Iterator[str]:
    """DeepSpeed keeps one optimizer shard a process in the folder that `latest` names."""
    try:
        with open(os.path.join(folder, "latest"), encoding="utf-8") as file:
            held = os.path.join(folder, file.read().strip())
    except OSError:
        yield "latest is missing"
        return
    shards = [name for name in (os.listdir(held) if os.path.isdir(held) else []) if name.endswith("_optim_states.pt")]
    if len(shards) != processes:
        yield f"{os.path.basename(held)} holds {len(shards)} optimizer shards of {processes}"
    yield from (fault for name in shards if (fault := _torch_fault(held, name)))


def _torch_fault(folder: str, name: str) -> str:
    """Why a file of torch.save cannot be read; its list of contents is written last, so a torn file has none."""
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return f"{name} is missing" + (" (save_only_model keeps none)" if name == "optimizer.pt" else "")
    return "" if zipfile.is_zipfile(path) else f"{name} is torn"


def _state(folder: str) -> dict[str, Any]:
    try:
        with open(os.path.join(folder, _STATE), "rb") as file:
            state = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def _files(folder: str) -> list[str]:
    return sorted(os.path.join(root, name) for root, _, names in os.walk(folder) for name in names)


def _problem(checkpoint: Checkpoint, why: str) -> Problem:
    return Problem("error", "NOT_RESUMABLE", "model", f"{checkpoint.name}: {why}", path=checkpoint.path)
