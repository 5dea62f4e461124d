"""What `scripts/bench data` measures, each in a process of its own: prints CPU seconds after imports and peak memory.

python benchmarks/data_jobs.py JOB FOLDER FILE...
"""

import hashlib
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

BLOCK_BYTES = 1 << 20


def sha256(folder: Path, path: Path) -> None:
    """SHA-256 of the file alone."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)


def stdlib(
    folder: Path, path: Path, pairs: Callable[[list[tuple[str, object]]], dict[str, object]] | None = None
) -> None:
    """A loop over the lines with the standard library's parser: SHA-256 and the same judgement of a row."""
    from loopai_trainer.rules.rows import row_check_for

    digest, check = hashlib.sha256(), None
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            digest.update(line)
            value = json.loads(line, object_pairs_hook=pairs)
            if check is None:
                _, check = row_check_for([value])
            check(value, number)


def stdlib_keys(folder: Path, path: Path) -> None:
    """`stdlib` that also refuses a key that stands twice."""

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(items)
        if len(found) != len(items):
            raise ValueError("a key stands twice")
        return found

    stdlib(folder, path, pairs)


def check(folder: Path, path: Path) -> None:
    """Tables and the row check: no snapshot, no duplicates."""
    from loopai_trainer.files.tables import open_table
    from loopai_trainer.operations.row_pass import collection_paused
    from loopai_trainer.rules.rows import row_check_for
    from loopai_trainer.rules.rows.columns import plain_columns

    judge = None
    with collection_paused():
        for positions, values in open_table(str(path)).batches():
            if judge is None:
                _, judge = row_check_for(values[:100])
            if plain_columns(judge, values) is None:
                for position, value in zip(positions, values, strict=True):
                    judge(value, position)


def whole(folder: Path, path: Path) -> None:
    """The whole data pass as `prepare` does it: parse, check, duplicates, SHA-256, statistics, snapshot, report."""
    from loopai_trainer.backends import get
    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.operations.sft_data import prepare_sft_data
    from loopai_trainer.records import Settings

    values = {"train_input_dataset_path": str(path), "train_input_eval_dataset_path": None, "bad_rows": "reject"}
    run = folder / path.name
    run.mkdir()
    settings = Settings(values, dict.fromkeys(values, "--dataset"))
    prepare_sft_data(get("llamafactory", "sft"), settings, RunDir(str(run)), None, 42, None)


def load_dataset(folder: Path, path: Path) -> None:
    """`datasets.load_dataset`, which checks nothing."""
    import datasets

    kind = "parquet" if path.suffix == ".parquet" else "json"
    datasets.load_dataset(kind, data_files=str(path), split="train", cache_dir=str(folder / "cache"))


def llamafactory(folder: Path, path: Path) -> None:
    """LLaMA-Factory's own load and align of one file, as its training does it before it tokenises."""
    from llamafactory.data.loader import _load_single_dataset
    from llamafactory.data.parser import get_dataset_list
    from llamafactory.hparams import get_train_args

    formatting = "sharegpt" if path.name.startswith("sharegpt") else "alpaca"
    entry = {"file_name": str(path), "formatting": formatting}
    (folder / "dataset_info.json").write_text(json.dumps({"data": entry}))
    arguments = {"stage": "sft", "do_train": True, "model_name_or_path": str(folder), "template": "qwen"}
    arguments |= {"finetuning_type": "lora", "output_dir": str(folder / "out"), "report_to": "none"}
    arguments |= {"dataset": "data", "dataset_dir": str(folder), "cache_dir": str(folder / "cache")}
    model, data, training, _, _ = get_train_args(arguments)
    (attributes,) = get_dataset_list(["data"], data.dataset_dir)
    _load_single_dataset(attributes, model, data, training)


JOBS = {job.__name__: job for job in (sha256, stdlib, stdlib_keys, check, whole, load_dataset, llamafactory)}
IMPORTS = {
    "stdlib": "loopai_trainer.rules.rows",
    "stdlib_keys": "loopai_trainer.rules.rows",
    "check": "loopai_trainer.operations.row_pass loopai_trainer.rules.rows",
    "whole": "loopai_trainer.operations.sft_data loopai_trainer.backends.llamafactory_sft loopai_trainer.rules.rows",
    "load_dataset": "datasets",
    "llamafactory": "llamafactory.data.loader llamafactory.hparams",
}
"""Imported before the clock starts."""


def cpu_s() -> float:
    """User and system CPU seconds of this process and those that it waited for."""
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_bytes() -> int:
    """Most resident memory of this process; ru_maxrss would include that of the parent which started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def main() -> None:
    """Run one job over all its files, one after the other."""
    name, folder, *paths = sys.argv[1:]
    for module in IMPORTS.get(name, "").split():
        __import__(module)
    start = cpu_s()
    for path in paths:
        JOBS[name](Path(folder), Path(path))
    report = {"cpu_s": cpu_s() - start, "peak_bytes": peak_bytes(), "python": sys.version.split()[0]}
    os.write(1, ("\n" + json.dumps(report) + "\n").encode())


if __name__ == "__main__":
    main()
