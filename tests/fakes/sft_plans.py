"""A run folder with everything that an SFT plan names, and the plan itself, made through the real draft and render."""

import hashlib
import io
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from fakes.safetensors_files import decoder_tensors, write_safetensors
from fakes.tokenizer_files import write_tokenizer
from loopai_trainer import backends
from loopai_trainer.files import snapshots
from loopai_trainer.records import (
    Counts,
    DataReport,
    InputFile,
    LaunchPaths,
    LengthStats,
    Model,
    Plan,
    Settings,
    SplitReport,
)
from loopai_trainer.rules import plan as plans

TEMPLATE: Mapping[str, Any] = {
    "stage": "sft",
    "do_train": True,
    "finetuning_type": "full",
    "template": "qwen",
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 4,
    "max_steps": 40,
    "save_steps": 20,
}


def input_file(path: Path, content: bytes, rows: int | None = None) -> InputFile:
    """A file with that content, as prepare would report it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return InputFile(str(path), hashlib.sha256(content).hexdigest(), len(content), rows)


def make_model_folder(folder: Path, config: Mapping[str, Any] | None = None) -> Path:
    """A model folder that a check finds nothing wrong with."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2", **(config or {})}))
    write_tokenizer(folder)
    write_safetensors(folder / "model.safetensors", decoder_tensors())
    return folder


def make_paths(run: Path) -> LaunchPaths:
    """The folders of a run at `run`, not made."""
    launch = run / "launch"
    return LaunchPaths(
        str(run),
        str(launch),
        str(run / "checkpoints"),
        str(run / "metrics"),
        str(launch / "cache"),
        str(launch / "tmp"),
    )


@lru_cache
def parquet(rows: int) -> bytes:
    """A Parquet file of so many rows, which hold their number alone."""
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"source_line": range(rows)}), buffer)
    return buffer.getvalue()


def make_data(run: Path, train_rows: int = 90, validation_rows: int = 10) -> DataReport:
    """Snapshots and registry in `run`; no validation split for 0 rows."""
    lengths = LengthStats(1, 2, 3, 4, 5)
    splits = [
        SplitReport(
            where, "alpaca", input_file(run / "prepared_data" / f"{where}.parquet", parquet(rows), rows), Counts(rows, rows, 0),
            lengths, "--dataset",
        )
        for where, rows in (("train", train_rows), ("validation", validation_rows))
        if rows
    ]  # fmt: skip
    path = run / "prepared_data" / "dataset_info.json"
    path.unlink(missing_ok=True)
    registry = snapshots.write_registry(str(path), {split.where: split.snapshot.path for split in splits})
    return DataReport(tuple(splits), (), {}, registry)  # type: ignore[arg-type]


def make_plan(
    run: Path,
    template: Mapping[str, Any] | None = None,
    *,
    native: Mapping[str, Any] | None = None,
    launch: Mapping[str, Any] | None = None,
    files: tuple[InputFile, ...] = (),
    validation_rows: int = 10,
    train_rows: int = 90,
    model: Path | None = None,
) -> Plan:
    """`template` changes the template, `native` the final YAML behind the draft's back, as an edit would (None removes)."""
    model = model or make_model_folder(run.parent / "model")
    data = make_data(run, train_rows, validation_rows)
    settings = Settings({"CUDA_VISIBLE_DEVICES": "0", "nproc_per_node": (launch or {}).get("nproc_per_node")}, {})
    base = {**TEMPLATE, **(template or {})}
    backend = backends.get("llamafactory", "sft")
    keys = backend.draft(settings, data, base, Model(str(model), "f" * 64), make_paths(run))
    keys = {key: value for key, value in {**keys, **(native or {})}.items() if value is not None}
    pinned = [data.registry, *files]
    loopai = {
        "format": 1,
        "task_id": "demo",
        "version_id": "v1",
        "framework": "llamafactory",
        "stage": "sft",
        "backend": {
            "package": "llamafactory", "version": "0.9.5", "python": "/env/bin/python", "environment": "/env",
            "environment_sha256": "e" * 64,
        },
        "launch": {
            "executor": "local", "devices": "0", "nodes": 1, "nproc_per_node": 1, "env": {}, "pass_env": [], **(launch or {})
        },
        "inputs": {
            **{s.where: {"path": s.snapshot.path, "sha256": s.snapshot.sha256, "bytes": 4, "rows": s.snapshot.rows} for s in data.splits},
            "model": {"path": str(model), "fingerprint": "f" * 64},
            "files": [{"path": file.path, "sha256": file.sha256} for file in pinned if file],
        },
    }  # fmt: skip
    result = {
        "selection_metric": "eval_loss" if validation_rows else "loss",
        "selection_mode": "min",
        "export_huggingface": False,
    }
    return plans.render(loopai, result, keys)
