"""Prepares GRPO data as `trainer prepare` does, and writes sources in all the formats that it reads."""

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations.prompt_data import prepare_prompt_data
from loopai_trainer.records import Settings

CASES = Path(__file__).parents[1] / "cases" / "grpo"


def settings(train=None, validation=None, **more):
    """Settings as a call makes them: what stands in `more` was given, the rest are defaults."""
    defaults = {"verl_data_adapter": "auto", "bad_rows": "reject", "verl_validation_ratio": 0.05}
    defaults |= {"verl_split_seed": 42, "split_seed": 42, "allow_overlap": False, "verl_reward_mode": "auto"}
    given = {"train_input_dataset_path": train, "train_input_eval_dataset_path": validation, **more}
    given = {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}
    origins = {**dict.fromkeys(defaults, "default"), **{name: f"--{name}" for name in given}}
    return Settings({**defaults, **given}, origins)


def prepare(run, train=None, validation=None, reused=None, progress=None, **more):
    run.mkdir(exist_ok=True)
    wanted = settings(train, validation, **more)
    return prepare_prompt_data(wanted, RunDir(str(run)), str(reused) if reused else None, progress)


def rows_of(report, where="train"):
    return pyarrow.parquet.read_table(report.split(where).snapshot.path).to_pylist()


def manifest(run):
    return json.loads((run / "prepared_data" / "dataset_manifest.json").read_text())


def rejected(run):
    path = run / "prepared_data" / "rejected_rows.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def native_row(number, question=None, truth=None, source="openai/gsm8k", **more):
    return {
        "data_source": source,
        "prompt": [{"role": "user", "content": question or f"What is {number} plus {number}?"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(2 * number) if truth is None else truth},
        "extra_info": {"split": "train", "index": number},
        **more,
    }


def native_rows(count, first=0):
    return [native_row(number) for number in range(first, first + count)]


def write_native(path, rows, **options):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, **options)
    return path
