"""What the data pass costs beside what people run today, in CPU seconds. Exit 1 if a limit is missed.

    scripts/bench data [MEGABYTES] [ROUNDS]

MEGABYTES of JSON Lines (1000) are generated with their JSON-list and Parquet twins, 70 % alpaca and 30 % ShareGPT, in a
temporary folder that is removed. LOOPAI_TRAINER_LF_ENV names LLaMA-Factory's environment; without it, what runs there
is left out. Everything runs in a process of its own, one after the other, ROUNDS times (3; `datasets` alone, and
LLaMA-Factory on the twins, once); imports do not count, medians are shown. What is held against a limit is the median
of the rounds' ratios: the two of a round ran minutes apart, on a machine whose speed changes.
"""

import importlib.metadata
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
SUFFIXES = {"JSON Lines": ".jsonl", "JSON list": ".json", "Parquet": ".parquet"}
OURS = ("sha256", "stdlib", "stdlib_keys", "check", "whole")
LIMITED = ("llamafactory",)
THEIRS = ("load_dataset", *LIMITED)
NAMES = {
    "sha256": "hashlib.sha256 of the file",
    "stdlib": "stdlib json, same checks but duplicate keys",
    "stdlib_keys": "stdlib json, the same checks",
    "check": "checking alone",
    "whole": "whole data pass",
    "load_dataset": "datasets.load_dataset",
    "llamafactory": "LLaMA-Factory's load + align",
}


class Found(NamedTuple):
    """A job's run, or the medians of its runs."""

    cpu_s: float
    peak_bytes: float


class Limit(NamedTuple):
    """`value` must not be more than `limit`."""

    what: str
    value: float
    limit: float
    unit: str = ""


def run_job(job: str, python: str, root: Path, suffix: str) -> Found:
    """One job over both data sets, in a new process with empty caches."""
    with tempfile.TemporaryDirectory(dir=root) as folder:
        environ = {**os.environ, "HF_HOME": folder, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
        files = [str(root / f"{name}{suffix}") for name in ("alpaca", "sharegpt")]
        done = subprocess.run(
            [python, str(HERE / "data_jobs.py"), job, folder, *files], env=environ, capture_output=True, text=True
        )
    if done.returncode:
        raise SystemExit(f"{job} failed:\n{done.stderr[-2000:]}")
    report = json.loads(done.stdout.strip().splitlines()[-1])
    return Found(report["cpu_s"], report["peak_bytes"])


Runs = dict[tuple[str, str], list[Found]]
"""By (layout, job), in the order of the rounds."""


def measure(root: Path, rounds: int, lf_python: str | None) -> Runs:
    """All runs. What takes longest and has no limit (others' loaders) runs in the first round only."""
    found: Runs = {}
    for number in range(rounds):
        for layout, suffix in SUFFIXES.items():
            jobs = [job for job in OURS if layout == "JSON Lines" or not job.startswith("stdlib")]
            if lf_python:
                jobs += THEIRS if not number else LIMITED if layout == "JSON Lines" else ()
            for job in jobs:
                python = lf_python if lf_python and job in THEIRS else sys.executable
                found.setdefault((layout, job), []).append(run_job(job, python, root, suffix))
                print(f"  {layout:12} {job:14} {found[layout, job][-1].cpu_s:8.2f} s", file=sys.stderr, flush=True)
    return found


def limits(found: Runs, rows: int) -> list[Limit]:
    """Those of the JSON Lines file, and the memory of all three."""

    def ratio(job: str, other: str) -> float:
        pairs = zip(found["JSON Lines", job], found["JSON Lines", other], strict=True)
        return statistics.median(one.cpu_s / beside.cpu_s for one, beside in pairs)

    result = [
        Limit("checking alone / sha256", ratio("check", "sha256"), 8),
        Limit("checking alone / stdlib json, the same checks", ratio("check", "stdlib_keys"), 0.8),
    ]
    if ("JSON Lines", "llamafactory") in found:
        result.append(Limit("whole pass / LLaMA-Factory's load + align", ratio("whole", "llamafactory"), 0.25))
    allowed = 150 + 16 * rows / 1e6
    for layout in SUFFIXES:
        most = max(run.peak_bytes for run in found[layout, "whole"])
        result.append(Limit(f"peak memory, {layout}", most / 1e6, allowed, " MB"))
    return result


def table(runs: Runs) -> list[str]:
    """A line for each measurement: CPU seconds, ratio to sha256 of that file, peak memory; medians."""
    found = {key: Found(*map(statistics.median, zip(*some, strict=True))) for key, some in runs.items()}
    lines = [f"{'':12} {'':46} {'CPU s':>8} {'/ sha256':>9} {'peak MB':>8}"]
    for (layout, job), run in found.items():
        ratio = run.cpu_s / found[layout, "sha256"].cpu_s
        lines.append(f"{layout:12} {NAMES[job]:46} {run.cpu_s:8.2f} {ratio:9.1f} {run.peak_bytes / 1e6:8.0f}")
    return lines


def versions(lf_python: str | None) -> str:
    """Of the interpreter and of what reads the files."""
    known = [f"{name} {importlib.metadata.version(name)}" for name in ("orjson", "pyarrow")]
    text = f"Python {sys.version.split()[0]}, {', '.join(known)}"
    if lf_python is None:
        return text
    named = "(f'{n} {m.version(n)}' for n in ('llamafactory', 'datasets'))"
    script = f"import importlib.metadata as m; print(*{named}, sep=', ')"
    theirs = subprocess.run([lf_python, "-c", script], capture_output=True, text=True, check=True)
    return f"{text}, {theirs.stdout.strip()}"


def main() -> int:
    """Print the table and the limits."""
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 1000.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the generated files go away then too
    lf_env = os.environ.get("LOOPAI_TRAINER_LF_ENV")
    lf_python = str(Path(lf_env) / "bin" / "python") if lf_env else None
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run(
            [sys.executable, str(HERE / "data_files.py"), folder, str(megabytes)], capture_output=True, check=True
        )
        rows, size = int(made.stdout), sum(path.stat().st_size for path in Path(folder).glob("*.jsonl"))
        print(f"{rows} rows, {size / 1e6:.0f} MB of JSON Lines ({size / rows:.0f} bytes a row); {versions(lf_python)}")
        found = measure(Path(folder), rounds, lf_python)
    print(*table(found), sep="\n")
    if lf_python is None:
        print("LOOPAI_TRAINER_LF_ENV is not set: datasets and LLaMA-Factory were not measured")
    missed = False
    for one in limits(found, rows):
        missed |= one.value > one.limit
        verdict = "MISSED" if one.value > one.limit else "ok"
        print(f"  {one.what:46} {one.value:8.2f}   limit {one.limit:6.2f}{one.unit}   {verdict}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
