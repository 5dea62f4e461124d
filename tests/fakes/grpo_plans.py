"""A run folder with everything that a GRPO plan names, and the plan itself, made through the real draft and render."""

import hashlib
import io
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from fakes.sft_plans import input_file, make_model_folder
from fakes.verl_trees import make_verl, versions_of
from loopai_trainer import backends
from loopai_trainer.backends.verl_grpo.check import check
from loopai_trainer.backends.verl_grpo.draft import BACKEND_VERSION
from loopai_trainer.files import templates
from loopai_trainer.records import (
    Counts,
    DataReport,
    Device,
    Host,
    InputFile,
    LaunchPaths,
    LengthStats,
    Model,
    Plan,
    Problem,
    PromptFacts,
    Settings,
    SplitReport,
)
from loopai_trainer.rules import dotted, yaml_text
from loopai_trainer.rules import plan as plans

MODEL_CONFIG: Mapping[str, Any] = {
    "model_type": "qwen2", "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
}  # fmt: skip

KEPT = object()
REMOVED = object()
"""As a value: the key is taken out."""


def make_settings(**values: Any) -> Settings:
    """The settings of a preparation; `device` as CUDA_VISIBLE_DEVICES."""
    chosen = {
        "task_id": "demo", "trainer_version_id": "v1", "CUDA_VISIBLE_DEVICES": "0,1",
        "verl_reward_mode": "preset", "verl_reward_preset": "gsm8k_exact",
        "verl_selection_metric": "val-core/*/acc/mean@*", "verl_selection_mode": "max",
        "verl_export_huggingface": True, "verl_multi_round_enabled": True, **values,
    }  # fmt: skip
    return Settings(chosen, dict.fromkeys(chosen, "test"))


def make_paths(run: Path) -> LaunchPaths:
    """The folders of a run at `run`, not made."""
    launch = run / "launch"
    return LaunchPaths(
        str(run), str(launch), str(run / "checkpoints"), str(run / "metrics"), str(launch / "cache"), str(launch / "tmp"),
        str(run / "inputs"),
    )  # fmt: skip


@lru_cache
def prompts(rows: int, extra: str = "") -> bytes:
    """A Parquet file of so many prompts, in verl's own columns; `extra` names one column more, of bytes."""
    buffer = io.BytesIO()
    table = pyarrow.table(
        {
            "data_source": ["openai/gsm8k"] * rows,
            "prompt": [[{"role": "user", "content": f"{row}+{row}=?"}] for row in range(rows)],
            "reward_model": [{"style": "rule", "ground_truth": str(2 * row)} for row in range(rows)],
            **({extra: [b"x"] * rows} if extra else {}),
        }
    )
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()


def make_data(run: Path, train_rows: int = 64, validation_rows: int = 30, extra: str = "") -> DataReport:
    """Snapshots in `run`; no validation split for 0 rows."""
    lengths = LengthStats(1, 2, 3, 4, 5)
    splits = tuple(
        SplitReport(
            where, "native", input_file(run / "prepared_data" / f"{where}.parquet", prompts(rows, extra), rows),
            Counts(rows, rows, 0), lengths, "--dataset",
        )
        for where, rows in (("train", train_rows), ("validation", validation_rows))
        if rows
    )  # fmt: skip
    facts = PromptFacts({"openai/gsm8k": train_rows}, {"str": train_rows}, {}, native=True)
    return DataReport(splits, (), {}, prompts=facts)  # type: ignore[arg-type]


def template_values(name: str = "verl_grpo_smoke") -> dict[str, Any]:
    """The keys of a bundled template."""
    path = templates.find_template(name, "grpo")
    return dict(yaml_text.load(Path(path).read_text(encoding="utf-8"), path).values)


def edited(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with dotted keys changed; REMOVED takes one out."""
    found = dict(values)
    for key, value in changes.items():
        dotted.put(found, key, value)
        if value is REMOVED:
            parent, _, name = key.rpartition(".")
            del (dotted.get(found, parent) if parent else found)[name]
    return found


def make_plan(
    run: Path,
    template: str | Mapping[str, Any] = "verl_grpo_smoke",
    *,
    changes: Mapping[str, Any] | None = None,
    native: Mapping[str, Any] | None = None,
    launch: Mapping[str, Any] | None = None,
    result: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    data: DataReport | None = None,
    model: Path | None = None,
    version: str = "0.9.1",
    files: tuple[InputFile, ...] = (),
    reward: Any = KEPT,
) -> Plan:
    """`changes` (dotted) change the template, `native` the final YAML behind the draft's back, as an edit would."""
    model = model or make_model_folder(run.parent / "model", MODEL_CONFIG)
    data = data or make_data(run)
    settings = settings or make_settings()
    settings = Settings({**settings.values, BACKEND_VERSION: version}, settings.origins)
    base = edited(template_values(template) if isinstance(template, str) else template, changes or {})
    backend = backends.get("verl", "grpo")
    keys = edited(backend.draft(settings, data, base, Model(str(model), "f" * 64), make_paths(run)), native or {})
    pinned = [*files, *copied(run, backend.input_files(settings, keys))]
    placement = backend.placement(settings, keys)
    loopai = {
        "format": 1,
        "task_id": "demo",
        "version_id": "v1",
        "framework": "verl",
        "stage": "grpo",
        "backend": {
            "package": "verl", "version": version, "python": "/env/bin/python", "environment": "/env",
            "environment_sha256": "e" * 64,
        },
        "launch": {
            "executor": "local", "devices": placement.devices, "nodes": 1, "nproc_per_node": placement.processes,
            "env": {}, "pass_env": [], **(launch or {}),
        },
        **(backend.reserved(settings, data) if reward is KEPT else {"reward": reward}),
        "inputs": {
            **{s.where: {"path": s.snapshot.path, "sha256": s.snapshot.sha256, "bytes": 4, "rows": s.snapshot.rows} for s in data.splits},
            "model": {"path": str(model), "fingerprint": "f" * 64},
            "files": [{"path": file.path, "sha256": file.sha256} for file in pinned],
        },
    }  # fmt: skip
    return plans.render(loopai, {**backend.result_block(settings, data), **(result or {})}, keys)


def copied(run: Path, files: Mapping[str, str]) -> list[InputFile]:
    """The copies that prepare would make in `inputs/`."""
    found = []
    for name, source in files.items():
        content = Path(source).read_bytes()
        path = run / "inputs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        found.append(InputFile(str(path), hashlib.sha256(content).hexdigest(), len(content)))
    return found


GPUS = tuple(Device(index, f"GPU-{index}", "test", 1 << 36) for index in range(8))
HOST = Host(GPUS, 16, 10**13)


def findings(run: Path, *, without: tuple[str, ...] = (), host: Host = HOST, **plan: Any) -> list[Problem]:
    """What `check` says of a plan made by `make_plan`, with a verl made by hand beside the run."""
    version = plan.get("version", "0.9.1")
    family = "0.8" if version.startswith("0.8") else "0.9"
    folder = run.parent / f"verl-{family}"
    package = folder / "verl" if folder.is_dir() else make_verl(folder, family)
    return check(make_plan(run, **plan), versions_of(package, version, without), host)


def errors(run: Path, **plan: Any) -> list[str]:
    """The codes of its errors."""
    return [problem.code for problem in findings(run, **plan) if problem.severity == "error"]


def warnings(run: Path, **plan: Any) -> list[str]:
    """The codes of its warnings."""
    return [problem.code for problem in findings(run, **plan) if problem.severity == "warning"]
