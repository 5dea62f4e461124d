"""Small plans for tests that need one."""

import copy
from typing import Any

from loopai_trainer.records import Plan
from loopai_trainer.rules import plan as plans

LOOPAI: dict[str, Any] = {
    "format": 1,
    "task_id": "demo",
    "version_id": "v1",
    "framework": "llamafactory",
    "stage": "sft",
    "backend": {
        "package": "llamafactory",
        "version": "0.9.5",
        "python": "/env/bin/python",
        "environment": "/env",
        "environment_sha256": "e" * 64,
    },
    "launch": {"executor": "local", "devices": "", "nodes": 1, "nproc_per_node": 1, "env": {}, "pass_env": []},
    "inputs": {
        "train": {"path": "/run/train.parquet", "sha256": "a" * 64, "bytes": 10, "rows": 3},
        "model": {"path": "/model", "fingerprint": "f" * 64},
        "files": [{"path": "/run/dataset_info.json", "sha256": "b" * 64, "bytes": 2}],
    },
}
RESULT = {"selection_metric": "eval_loss", "selection_mode": "min", "export_huggingface": False}


def small_plan(native: dict[str, Any] | None = None, **loopai: Any) -> Plan:
    """A plan with `loopai` fields replaced."""
    return plans.render({**copy.deepcopy(LOOPAI), **loopai}, RESULT, native or {"learning_rate": 1e-5})
