"""A `llamafactory-cli` that trains nothing and leaves what a training leaves: rows counted, a log, checkpoints.

It makes the environment of fakes.llamafactory_env startable, so that whole runs go from `prepare` to the result.
"""

import sys
from pathlib import Path

TEMPLATE = """finetuning_type: full
template: qwen
use_cpu: true
learning_rate: 1.0e-5
per_device_train_batch_size: 2
gradient_accumulation_steps: 1
max_steps: 4
save_steps: 2
logging_steps: 1
val_size: 0.25
eval_strategy: steps
eval_steps: 2
"""
"""A plan that it can play: four steps, two checkpoints, an evaluation with each."""

TESTS = Path(__file__).resolve().parents[1]

PROGRAM = """
import json, os, shutil, sys
sys.path.insert(0, TESTS)
import pyarrow.parquet
import yaml
from pathlib import Path
from fakes.safetensors_files import decoder_tensors, write_safetensors

def rows_of(name):
    registry = json.loads(Path(native["dataset_dir"], "dataset_info.json").read_text())
    path = os.path.join(native["dataset_dir"], registry[name]["file_name"])
    return pyarrow.parquet.read_metadata(path).num_rows

def save(folder, last):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    write_safetensors(folder / "model.safetensors", decoder_tensors())
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": last, "max_steps": STEPS, "log_history": []}))

STEPS = 4
with open(sys.argv[2]) as file:
    native = yaml.safe_load(file)
out = Path(native["output_dir"])
head = "[INFO|trainer.py:1] 2026-01-01 00:00:00,000 >> "
print(head + "***** Running training *****")
print(head + f"  Num examples = {rows_of(native['dataset']):,}")
print(head + f"  Total optimization steps = {STEPS}", flush=True)
lines = []
for step in range(1, STEPS + 1):
    about = {"current_steps": step, "total_steps": STEPS, "percentage": 100 * step / STEPS, "epoch": step / STEPS}
    lines.append({**about, "loss": 2 / step, "lr": 1e-5})
    if native.get("eval_dataset") and step % 2 == 0:
        print("***** Running Evaluation *****")
        print(head + f"  Num examples = {rows_of(native['eval_dataset']):,}", flush=True)
        lines.append({**about, "eval_loss": 1 + step / 10})
    if step % 2 == 0:
        save(out / f"checkpoint-{step}", step)
out.mkdir(parents=True, exist_ok=True)
(out / "trainer_log.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
save(out, STEPS)
for name in ("tokenizer.json", "tokenizer_config.json"):
    source = Path(native["model_name_or_path"], name)
    if source.exists():
        shutil.copy(source, out / name)
(out / "all_results.json").write_text("{}")
"""


def make_startable(environment: Path) -> Path:
    """The environment with a Python that runs (the tests' own) and this program in its bin folder."""
    python = environment / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (environment / "bin" / "llamafactory-cli").write_text(f"TESTS = {str(TESTS)!r}\n{PROGRAM}")
    return environment
