"""Plays the Python of a verl environment (fakes.verl_program): composes, rehearses, trains and merges by copying.

Called as HOLD STARTS and what the launcher gives the environment's Python. What it prints while it trains are lines of
verl 0.9.1 (tests/cases/verl).
"""

import itertools
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow.parquet
import yaml

from fakes.safetensors_files import decoder_tensors, write_safetensors
from fakes.verl_runs import save_checkpoint

RUNNER = "(TaskRunnerV1 pid=1) INFO:2026-01-01 00:00:00,000:"


def compose() -> None:
    """The plan's own keys, as if verl had no defaults."""
    json.dump({"yaml": yaml.safe_dump(json.load(sys.stdin)["native"]), "problems": []}, sys.stdout)


def rehearse() -> None:
    """Nothing to be found fault with."""
    json.dump({"problems": [], "summary": {}}, sys.stdout)


def train(launch: str, hold: Path, starts: Path) -> None:
    """Two steps with a checkpoint each, the second one better; then as long as it is held."""
    native = yaml.safe_load(Path(launch, "resolved.yaml").read_text())
    rows = [pyarrow.parquet.read_metadata(_one(native["data"][name])).num_rows for name in ("train_files", "val_files")]
    print("[validate_config] All configuration checks passed successfully!")
    print(
        f"{RUNNER}train and validate dataloader initialized, train dataset size: {rows[0]}, val dataset size: {rows[1]}"
    )
    print(f"{RUNNER}Total training steps: 2", flush=True)
    with Path(os.environ["VERL_FILE_LOGGER_PATH"]).open("w") as metrics:
        for step in (1, 2):
            data = {"actor/loss": 0.5 / step, "actor/grad_norm": 1.0, "critic/score/mean": 0.1 * step}
            data |= {f"val-core/{SOURCE}/acc/mean@1": 0.2 * step, "training/global_step": step}
            metrics.write(json.dumps({"step": step, "data": data}) + "\n")
            base = Path(native["actor_rollout_ref"]["model"]["path"])
            save_checkpoint(Path(native["trainer"]["default_local_dir"]), step, base=base)
    with starts.open("a") as file:
        file.write("started\n")
    while hold.exists():
        time.sleep(0.02)


SOURCE = "openai/gsm8k"


def _one(files: Any) -> str:
    return files if isinstance(files, str) else files[0]


def merge(actor: str, target: str, broken: Path) -> None:
    """A model folder of the checkpoint; without its weights where `broken` is there."""
    shutil.copytree(os.path.join(actor, "huggingface"), target, dirs_exist_ok=True)
    if not broken.exists():
        write_safetensors(Path(target, "model.safetensors"), decoder_tensors(dtype="F32"))


def main(hold: str, starts: str, *words: str) -> None:
    """One call of the environment's Python."""
    if words[-1].endswith("/compose.py"):
        compose()
    elif words[-1].endswith("/rehearse.py"):
        rehearse()
    elif words[:2] == ("-m", "verl.trainer.main_ppo"):
        train(words[words.index("--config-path") + 1], Path(hold), Path(starts))
    elif words[:2] == ("-m", "verl.model_merger"):
        given = dict(itertools.pairwise(words))
        merge(given["--local_dir"], given["--target_dir"], Path(starts).with_name("no_merge"))
    else:
        sys.exit(f"verl_played.py knows no {words}")


if __name__ == "__main__":
    main(*sys.argv[1:])
