"""Run directories as a LLaMA-Factory training leaves them, whole or damaged."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fakes.safetensors_files import write_safetensors
from fakes.sft_plans import make_plan
from loopai_trainer.files.run_dir import RunDir, TaskDir
from loopai_trainer.results.outcome import Ending

TENSORS = {"w": ("F32", (4,))}


def save_model(folder: Path, data: bytes | None = None, *, adapter: bool = False) -> Path:
    """A whole full or LoRA checkpoint; `data`: the 16 bytes of its only tensor."""
    folder.mkdir(parents=True, exist_ok=True)
    name, config = ("adapter_model", "adapter_config.json") if adapter else ("model", "config.json")
    write_safetensors(folder / f"{name}.safetensors", TENSORS, data)
    (folder / config).write_text("{}")
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": [], "max_steps": 40}))
    return folder


class FinishedRun:
    """40 steps, logged every 5, evaluated and saved every 10; the best eval_loss (0.9) is at step 30."""

    def __init__(self, root: Path) -> None:
        self.run: RunDir = TaskDir(str(root / "outputs"), "demo").run("v1")
        self.path = Path(self.run.path)
        self.path.mkdir(parents=True)
        self.plan = make_plan(self.path)
        Path(self.run.config).write_text(self.plan.text)
        self.checkpoints = Path(self.run.checkpoints)
        self.log([2.0, 1.8, 1.6, 1.4, 1.3, 1.2, 1.1, 1.0], [1.4, 1.1, 0.9, 1.0])
        for step in (10, 20, 30, 40):
            save_model(self.checkpoints / f"checkpoint-{step}")
        save_model(self.checkpoints)
        (self.checkpoints / "all_results.json").write_text("{}")
        (self.checkpoints / "tokenizer.json").write_text("{}")

    def log(self, losses: Sequence[float], evaluations: Sequence[float] = (), total_steps: int = 40) -> None:
        """trainer_log.jsonl with one loss every 5 steps and one eval_loss every 10."""
        entries: list[dict[str, Any]] = []
        for index, loss in enumerate(losses, 1):
            step = index * 5
            entries.append(
                {"current_steps": step, "total_steps": total_steps, "loss": loss, "lr": 1e-5, "epoch": step / 40}
            )
            if step % 10 == 0 and step // 10 <= len(evaluations):
                eval_loss = evaluations[step // 10 - 1]
                entries.append(
                    {"current_steps": step, "total_steps": total_steps, "eval_loss": eval_loss, "epoch": step / 40}
                )
        entries.append({"current_steps": len(losses) * 5, "total_steps": total_steps, "epoch": 1.0})
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (self.checkpoints / "trainer_log.jsonl").write_text(text)

    def break_weights(self) -> None:
        """The final weights become NaN."""
        save_model(self.checkpoints, b"\xff" * 16)


def ending(**changes: Any) -> Ending:
    """How training ended: well, unless `changes` says otherwise."""
    values: dict[str, Any] = {
        "exit_record": {"returncode": 0, "signal": None, "exec_error": None, "duration_s": 12.5, "at": 1012.5},
        "started_at": 1000.0,
        "ended_at": 1013.0,
        "planned_steps": 40,
    }
    return Ending(**{**values, **changes})


def strict(document: object) -> Any:
    """The document through strict JSON, as a reader gets it; fails on NaN."""

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} in JSON")

    return json.loads(json.dumps(document, allow_nan=False), parse_constant=refuse)


NAN = math.nan
