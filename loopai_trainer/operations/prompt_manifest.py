"""dataset_manifest.json: what GRPO data were made of what, for LoopAI's other parts and for the next round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from loopai_trainer.errors import DataError
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations.prompt_side import PromptSide
from loopai_trainer.records import InputFile
from loopai_trainer.rules.reward_choice import RECOMMENDED

VERSION = 1


def write(
    run: RunDir,
    files: Mapping[str, InputFile],
    sides: Sequence[PromptSide],
    *,
    unchanged: bool,
    requested_adapter: str,
    duplicates: int,
    shared: int,
    split: Mapping[str, Any] | None,
    rejected_path: str | None,
) -> None:
    """Write the manifest; its `reward` is null until `record_reward` fills it.

    `files`: train and validation as they lie in prepared_data; `sides`: the sources that were read; `unchanged`:
    whether both files are byte for byte what was given.
    """
    adapters: Counter[str] = Counter()
    for side in sides:
        adapters.update(side.adapters)
    reused = next((side for side in sides if side.reused), None)
    own = [side for side in sides if side is not reused]
    train, held = files["train"], files["validation"]
    atomic.write_json(
        run.dataset_manifest,
        {
            "version": VERSION,
            "status": "reused_native_parquet" if unchanged else "prepared",
            "source_path": own[0].facts.path,
            "source_paths": {side.where: side.facts.path for side in own},
            "source_sha256": {side.where: side.facts.sha256 for side in own},
            "train_path": train.path,
            "validation_path": held.path,
            "reused_validation": reused.facts.path if reused else None,
            "input_records": sum(side.facts.input for side in own),
            "train_records": train.rows,
            "validation_records": held.rows,
            "rejected_records": sum(side.facts.rejected for side in own),
            "duplicate_records": duplicates,
            "cross_split_duplicates": shared,
            "adapter_counts": dict(adapters),
            "requested_adapter": requested_adapter,
            "reward": None,
            "split": dict(split) if split else None,
            "rejection_path": rejected_path,
            "train_sha256": train.sha256,
            "validation_sha256": held.sha256,
        },
    )


def record_reward(run: RunDir, reward: Mapping[str, Any]) -> None:
    """Say which reward the data were prepared for: {mode, origin, preset, recommendation}. Raises DataError."""
    manifest = read(run)
    if manifest is None:
        raise DataError(f"{run.dataset_manifest} is missing or damaged", hint="prepare again")
    atomic.write_json(run.dataset_manifest, {**manifest, "reward": dict(reward)})


def note_reward(run: RunDir, block: Mapping[str, Any] | None) -> None:
    """What a plan's reward block (`loopai.reward`) says, for LoopAI's other parts; nothing for plans without one."""
    if block is None:
        return
    told = {name: block.get(name) for name in ("mode", "origin", "preset")}
    reason = str(block.get("origin") or "")
    applied = reason.startswith(RECOMMENDED)
    advice = {"applied": True, "mode": block.get("mode"), "preset": block.get("preset"), "reason": reason}
    record_reward(run, {**told, "recommendation": advice if applied else None})


def read(run: RunDir) -> dict[str, Any] | None:
    """The manifest of a run; None if there is none, or a damaged one."""
    try:
        return atomic.read_json(run.dataset_manifest)
    except ValueError:
        return None
