"""What GRPO data cost beside what people run today, in CPU seconds. Exit 1 if a limit is missed.

    scripts/bench grpo-data [ROWS] [ROUNDS]

ROWS (1,000,000) are generated as native Parquet and as JSON Lines of questions with GSM8K-like solutions, in a
temporary folder that is removed. LOOPAI_TRAINER_VERL_ENV (or LOOPAI_TRAINER_LF_ENV) names an environment that has
`datasets`; without it, the conversion has nothing to be held against. Each job runs in a process of its own, one after
the other, ROUNDS times (3); imports do not count, medians are shown, and a limit is held against the median of the
rounds' own ratios.
"""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow
import pyarrow.parquet
from data import Found, Limit
from data_files import Texts

HERE = Path(__file__).resolve().parent
CHINESE_SHARE = 0.1
BATCH_ROWS = 50_000
MAX_MEMORY_MB = 300
INSTRUCTION = ' Let\'s think step by step and output the final answer after "####".'
NATIVE = ("sha256", "read_columns", "read_table", "validate", "prepare_native")
NAMES = {
    "sha256": "hashlib.sha256 of the Parquet file",
    "read_columns": "pyarrow reads the three columns, by batches",
    "read_table": "pyarrow.parquet.read_table of the three columns",
    "validate": "judging all rows of it",
    "prepare_native": "whole preparation, native Parquet",
    "convert": "whole preparation, JSON Lines",
    "datasets_map": "datasets: load + map + to_parquet, JSON Lines",
}


def generate(folder: Path, rows: int) -> None:
    """train.parquet, validation.parquet (1 % as many) and train.jsonl. Deterministic."""
    texts, rng = Texts(1), random.Random(2)
    native_file(folder / "train.parquet", rows, texts, rng)
    native_file(folder / "validation.parquet", max(1, rows // 100), texts, rng)
    with open(folder / "train.jsonl", "w", encoding="utf-8") as file:
        for number in range(rows):
            chinese = rng.random() < CHINESE_SHARE
            solution = f"{texts.cut(chinese, 280, 0.5).replace('#', '')}\n#### {rng.randrange(10_000)}"
            question = f"{texts.cut(chinese, 220, 0.5)} ({number})"
            file.write(json.dumps({"question": question, "answer": solution}, ensure_ascii=False) + "\n")


def native_file(path: Path, rows: int, texts: Texts, rng: random.Random) -> None:
    """verl's own columns, as datasets writes them: Snappy, dictionaries."""
    writer = None
    for start in range(0, rows, BATCH_ROWS):
        made = [native_row(number, path.stem, texts, rng) for number in range(start, min(rows, start + BATCH_ROWS))]
        table = pyarrow.Table.from_pylist(made)
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def native_row(number: int, split: str, texts: Texts, rng: random.Random) -> dict[str, object]:
    """One row, as verl's example for GSM8K makes them."""
    question = f"{texts.cut(rng.random() < CHINESE_SHARE, 220, 0.5)} ({split} {number})"
    return {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": question + INSTRUCTION}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(rng.randrange(10_000))},
        "extra_info": {"split": split, "index": number, "question": question},
    }


def run_job(job: str, python: str, root: Path) -> Found:
    """One job in a new process with empty caches."""
    train = root / ("train.jsonl" if job in ("convert", "datasets_map") else "train.parquet")
    with tempfile.TemporaryDirectory(dir=root) as folder:
        environ = {**os.environ, "HF_HOME": folder, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
        command = [python, str(HERE / "grpo_jobs.py"), job, folder, str(train), str(root / "validation.parquet")]
        done = subprocess.run(command, env=environ, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{job} failed:\n{done.stderr[-2000:]}")
    report = json.loads(done.stdout.strip().splitlines()[-1])
    return Found(report["cpu_s"], report["peak_bytes"])


def measure(root: Path, rounds: int, theirs: str | None) -> dict[str, list[Found]]:
    """Each job's rounds, interleaved."""
    found: dict[str, list[Found]] = {}
    for _ in range(rounds):
        jobs = [*NATIVE, "convert", *(["datasets_map"] if theirs else [])]
        for job in jobs:
            python = theirs if theirs and job == "datasets_map" else sys.executable
            found.setdefault(job, []).append(run_job(job, python, root))
            print(f"  {job:16} {found[job][-1].cpu_s:8.2f} s", file=sys.stderr, flush=True)
    return found


def ratio(found: dict[str, list[Found]], job: str, other: str) -> float:
    """Median of the rounds' own ratios."""
    return statistics.median(ours.cpu_s / theirs.cpu_s for ours, theirs in zip(found[job], found[other], strict=True))


def limits(found: dict[str, list[Found]]) -> list[Limit]:
    """What is held."""
    result = [Limit("judging native rows / reading their columns", ratio(found, "validate", "read_columns"), 2.5)]
    if "datasets_map" in found:
        result.append(Limit("preparing JSON Lines / datasets", ratio(found, "convert", "datasets_map"), 0.2))
    for job in ("prepare_native", "convert"):
        peak = statistics.median(run.peak_bytes for run in found[job])
        result.append(Limit(f"peak memory, {NAMES[job]}", peak / 1e6, MAX_MEMORY_MB, " MB"))
    return result


def main() -> int:
    """Print the table and the limits."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the generated files go away then too
    env = os.environ.get("LOOPAI_TRAINER_VERL_ENV") or os.environ.get("LOOPAI_TRAINER_LF_ENV")
    theirs = str(Path(env) / "bin" / "python") if env else None
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder), rows)
        sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.0f} MB" for path in sorted(Path(folder).iterdir()))
        print(f"{rows} rows: {sizes}; Python {sys.version.split()[0]}, pyarrow {pyarrow.__version__}")
        found = measure(Path(folder), rounds, theirs)
    for job, runs in found.items():
        run = Found(*map(statistics.median, zip(*runs, strict=True)))
        print(f"{NAMES[job]:52} {run.cpu_s:8.2f} s CPU {run.peak_bytes / 1e6:8.0f} MB")
    print(f"{'whole preparation, native / reading':52} {ratio(found, 'prepare_native', 'read_columns'):8.2f}")
    if theirs is None:
        print("LOOPAI_TRAINER_VERL_ENV is not set: datasets was not measured")
    missed = False
    for one in limits(found):
        missed |= one.value > one.limit
        verdict = "MISSED" if one.value > one.limit else "ok"
        print(f"  {one.what:52} {one.value:8.2f}   limit {one.limit:6.2f}{one.unit}   {verdict}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
