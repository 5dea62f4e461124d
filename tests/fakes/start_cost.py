"""Measures what a start costs: CPU of caller, worker and keeper until training's exec, against `python -c pass`.

    python tests/fakes/start_cost.py [ROUNDS]

Training is replaced by a shell script that reads the CPU time (nanoseconds, /proc/PID/schedstat) of its three
ancestors as its first act. Compiled files have to be there already, so the first round is thrown away.
"""

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fakes.llamafactory_env import make_environment
from fakes.runs import PreparedRun
from loopai_trainer.host import environments

PROBE = """#!/bin/sh
keeper=$PPID
read -r _ _ _ worker _ < /proc/$keeper/stat
read -r _ _ _ caller _ < /proc/$worker/stat
for pid in $caller $worker $keeper; do
    read -r spent _ < /proc/$pid/schedstat
    echo "$spent"
done > spent.txt
"""


def python_pass_ms() -> float:
    """CPU milliseconds of `python -c pass`."""
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "pass"], os.environ)
    _, _, usage = os.wait4(pid, 0)
    return (usage.ru_utime + usage.ru_stime) * 1000


def start_ms(root: Path, number: int) -> dict[str, float]:
    """CPU milliseconds of each process of one start of a LLaMA-Factory run, whose interpreter is the probe."""
    env = root / "env"
    if not env.exists():
        make_environment(env)
        (env / "bin" / "python").write_text(PROBE)
        (env / "bin" / "python").chmod(0o755)
    environment = environments.resolve(str(env), "llamafactory", {})
    versions = environments.read_versions(environment, "llamafactory")
    backend = {
        "package": "llamafactory",
        "version": versions.version,
        "python": environment.python,
        "environment": str(env),
        "environment_sha256": versions.sha256,
    }
    run = PreparedRun(root, f"v{number}", {"framework": "llamafactory", "backend": backend}, use_cpu=True)
    code, document = run.run_to_end()
    spent = Path(run.run.launch, "spent.txt")
    if not spent.exists():
        raise SystemExit(f"training was not started: exit {code}, {document['error']}")
    return dict(zip(("caller", "worker", "keeper"), (int(ns) / 1e6 for ns in spent.read_text().split()), strict=True))


def measure(rounds: int) -> dict[str, float]:
    """Medians: milliseconds of each process, of `python -c pass` measured in between, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        start_ms(Path(folder), 0)
        pairs = [(python_pass_ms(), start_ms(Path(folder), number)) for number in range(1, rounds + 1)]
    found = {name: statistics.median(spent[name] for _, spent in pairs) for name in ("caller", "worker", "keeper")}
    found["python_pass"] = statistics.median(base for base, _ in pairs)
    found["ratio"] = statistics.median(sum(spent.values()) / base for base, spent in pairs)
    return {name: round(value, 2) for name, value in found.items()}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10)))
