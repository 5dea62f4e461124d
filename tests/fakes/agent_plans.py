"""Plans of the backend agentlightning, as prepare would make them, without an environment."""

import copy
import hashlib
from pathlib import Path
from typing import Any

import yaml

from loopai_trainer import backends
from loopai_trainer.files import templates
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

AGENT = "import agentlightning\n\n@agentlightning.rollout\ndef solve(task):\n    return 1.0\n"
PROMPT = {"prompt": {"template": "Question: {q}", "engine": "f-string"}}
KEY = "agentlightning_api_key_env"
PATHS = LaunchPaths("/run", "/run/launch", "/run/checkpoints", "/run/metrics", "/run/cache", "/tmp/x", "/run/inputs")


def report(folder: Path, train: int = 4, validation: int = 0) -> DataReport:
    """Data of so many tasks; the files are only named."""
    splits = []
    for where, rows in (("train", train), ("validation", validation)):
        if rows:
            file = InputFile(str(folder / "prepared_data" / f"{where}.jsonl"), "0" * 64, 10, rows)
            counts, lengths = Counts(rows, rows, 0), LengthStats(1, 1, 1, 1, 1)
            splits.append(SplitReport(where, "task", file, counts, lengths, "--dataset"))  # type: ignore[arg-type]
    return DataReport(tuple(splits), (), {})


def base(stage: str, folder: Path, **changed: Any) -> dict[str, Any]:
    """The bundled template of a stage with an agent, and other top-level keys as given."""
    with open(templates.find_template(f"agentlightning_{stage}", stage)) as file:
        values = yaml.safe_load(file)
    folder.mkdir(parents=True, exist_ok=True)
    agent = folder / "agent.py"
    agent.write_text(AGENT)
    values["agent"] = {"file": str(agent), "name": "solve"}
    if stage == "apo":
        values["resources"] = copy.deepcopy(PROMPT)
    return {**values, **changed}


def drafted(stage: str, folder: Path, validation: int = 0, version: str = "0.3.0", **changed: Any) -> dict[str, Any]:
    """The native keys that the backend drafts for a version of Agent Lightning."""
    backend = backends.get("agentlightning", stage)
    settings = Settings(
        {KEY: "OPENAI_API_KEY", "CUDA_VISIBLE_DEVICES": "0,1", "task_id": "t", "backend_version": version}, {}
    )
    held = validation or (0 if stage == "dev" else 2)
    values = base(stage, folder, **changed)
    model = Model("/models/base", "f" * 64) if stage == "grpo" else Model("", "")
    return backend.draft(settings, report(folder, validation=held), values, model, PATHS)


def files(native: dict[str, Any]) -> list[dict[str, Any]]:
    """Entries of the small files that the keys name, as prepare would pin them."""
    parts = [part for part in native.values() if isinstance(part, dict) and part.get("file")]
    return [
        {"path": part["file"], "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        for part in parts
        for data in [Path(part["file"]).read_bytes() if Path(part["file"]).is_file() else b""]
    ]


def plan(stage: str, folder: Path, launch: dict[str, Any] | None = None, validation: int = 0, **changed: Any) -> Plan:
    """A final YAML."""
    backend = backends.get("agentlightning", stage)
    held = validation or (0 if stage == "dev" else 2)
    data = report(folder, validation=held)
    native = drafted(stage, folder, validation, **changed)
    inputs = {s.where: {"path": s.snapshot.path, "sha256": "0" * 64, "rows": s.snapshot.rows} for s in data.splits}
    passed = ["OPENAI_API_KEY"] if stage == "apo" else []
    block = {
        "format": 1,
        "task_id": "t",
        "version_id": "v1",
        "framework": "agentlightning",
        "stage": stage,
        "backend": {
            "package": "agentlightning",
            "version": "0.3.0",
            "python": "/env/bin/python",
            "environment": "/env",
            "environment_sha256": "0" * 64,
        },
        "launch": {
            "executor": "local",
            "devices": "",
            "nodes": 1,
            "nproc_per_node": 1,
            "env": {},
            "pass_env": passed,
            **(launch or {}),
        },
        "inputs": {
            **inputs,
            **({"model": {"path": "/models/base", "fingerprint": "f" * 64}} if stage == "grpo" else {}),
            "files": files(native),
        },
    }
    return plans.render(block, backend.result_block(Settings({}, {}), data), native)
