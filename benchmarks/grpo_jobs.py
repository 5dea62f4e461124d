"""What `scripts/bench grpo-data` measures, each in a process of its own: prints CPU seconds after imports, peak memory.

python benchmarks/grpo_jobs.py JOB FOLDER TRAIN VALIDATION
"""

import hashlib
import json
import os
import re
import sys
from pathlib import Path

from data_jobs import BLOCK_BYTES, cpu_s, peak_bytes

COLUMNS = ["prompt", "data_source", "reward_model"]
NUMBER = re.compile(r"#### (-?[0-9.,]+)")


def read_columns(folder: Path, train: Path, validation: Path) -> None:
    """The three columns that have to be judged, with pyarrow's own defaults for the batch, by row group."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(train) as file:
        for group in range(file.num_row_groups):
            for _ in file.iter_batches(row_groups=[group], columns=COLUMNS, use_threads=False):
                pass


def read_table(folder: Path, train: Path, validation: Path) -> None:
    """The same columns as most people read them: whole."""
    import pyarrow.parquet

    pyarrow.parquet.read_table(train, columns=COLUMNS)


def validate(folder: Path, train: Path, validation: Path) -> None:
    """Every row judged, data sources, kinds and lengths of prompts counted; no keys, no copy."""
    from loopai_trainer.files.prompt_columns import NativeFile, PromptBlock

    rows = 0
    with NativeFile(str(train)) as file:
        for batch in file.batches(file.needed()):
            block = PromptBlock(batch)
            if block.suspects(text_only=True):
                raise SystemExit("a generated row is suspected")
            block.data_sources()
            rows += len(block.characters())
    if rows != file.rows:
        raise SystemExit("rows are missing")


def prepare_native(folder: Path, train: Path, validation: Path) -> None:
    """The whole preparation of a native pair: copies, hashes, verdicts, repeats, overlap, manifest, report."""
    prepare(folder, {"train_input_dataset_path": str(train), "train_input_eval_dataset_path": str(validation)})


def convert(folder: Path, train: Path, validation: Path) -> None:
    """The whole preparation of records: verdicts, answers, repeats, split, two Parquet files, manifest, report."""
    prepare(folder, {"train_input_dataset_path": str(train)})


def prepare(folder: Path, values: dict[str, object]) -> None:
    """What `trainer prepare` does with GRPO data."""
    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.operations.prompt_data import prepare_prompt_data
    from loopai_trainer.records import Settings

    values = {**values, "verl_validation_ratio": 0.05, "verl_split_seed": 42}
    prepare_prompt_data(Settings(values, dict.fromkeys(values, "default")), RunDir(str(folder)), None, None)


def sha256(folder: Path, train: Path, validation: Path) -> None:
    """SHA-256 of the file alone."""
    digest = hashlib.sha256()
    with open(train, "rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)


def datasets_map(folder: Path, train: Path, validation: Path) -> None:
    """load_dataset, map and to_parquet, as verl's own examples make its data: no check, no split, no repeats."""
    import datasets

    def converted(record: dict[str, str], index: int) -> dict[str, object]:
        found = NUMBER.search(record["answer"])
        return {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": record["question"]}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": found.group(1).replace(",", "") if found else ""},
            "extra_info": {"split": "train", "index": index},
        }

    rows = datasets.load_dataset("json", data_files=str(train), split="train", cache_dir=str(folder / "cache"))
    rows = rows.map(converted, with_indices=True, remove_columns=rows.column_names)
    rows.to_parquet(str(folder / "train.parquet"))


JOBS = {
    job.__name__: job for job in (read_columns, read_table, validate, prepare_native, convert, sha256, datasets_map)
}
OURS = "loopai_trainer.operations.prompt_data loopai_trainer.files.run_dir loopai_trainer.records"
IMPORTS = {
    "read_columns": "pyarrow.parquet",
    "read_table": "pyarrow.parquet",
    "validate": OURS,
    "prepare_native": OURS,
    "convert": OURS,
    "datasets_map": "datasets",
}
"""Imported before the clock starts."""


def main() -> None:
    """Run one job."""
    name, folder, train, validation = sys.argv[1:]
    for module in IMPORTS.get(name, "").split():
        __import__(module)
    start = cpu_s()
    JOBS[name](Path(folder), Path(train), Path(validation))
    report = {"cpu_s": cpu_s() - start, "peak_bytes": peak_bytes()}
    os.write(1, ("\n" + json.dumps(report) + "\n").encode())


if __name__ == "__main__":
    main()
