"""Start-up in CPU seconds relative to `python -c pass`, pairs interleaved in one run. Exit 1 if a limit is missed.

    scripts/bench startup [ROUNDS]

"start": caller, worker and keeper together from the caller's start to training's exec, with a stand-in environment
(four packages to probe) and inputs of a few bytes to hash, so that these two cost next to nothing.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from fakes.runs import PreparedRun  # noqa: E402 - the stand-ins of the tests lie beside the product
from fakes.start_cost import measure  # noqa: E402

LIMITS = {"--version": 3.0, "status --json": 3.0, "--help": 25.0, "start": 15.0}


def cpu_ms(argv: list[str]) -> float:
    """User and system CPU milliseconds of one process and its children."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (usage.ru_utime + usage.ru_stime) * 1000


def ratios(rounds: int) -> dict[str, float]:
    """Median ratio of each command to `python -c pass`."""
    trainer = str(Path(sys.executable).with_name("trainer"))
    with tempfile.TemporaryDirectory() as folder:
        run = PreparedRun(Path(folder))
        commands = {
            "--version": [trainer, "--version"],
            "status --json": [trainer, "status", run.run.path, "--json"],
            "--help": [trainer, "--help"],
        }
        found: dict[str, list[float]] = {name: [] for name in commands}
        for round_number in range(rounds + 1):
            for name, argv in commands.items():
                base = cpu_ms([sys.executable, "-c", "pass"])
                ratio = cpu_ms(argv) / base
                if round_number:  # the first one compiles
                    found[name].append(ratio)
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> int:
    """Print the table."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    found = ratios(rounds)
    start = measure(rounds)
    found["start"] = start["ratio"]
    print(f"CPU relative to `python -c pass`, median of {rounds} interleaved pairs, Python {sys.version.split()[0]}")
    for name, ratio in found.items():
        print(f"  {name:<14} {ratio:6.2f}   limit {LIMITS[name]:5.1f}   {'ok' if ratio <= LIMITS[name] else 'MISSED'}")
    print(
        "  start in detail, ms: "
        + json.dumps({key: start[key] for key in ("caller", "worker", "keeper", "python_pass")})
    )
    return any(found[name] > limit for name, limit in LIMITS.items())


if __name__ == "__main__":
    sys.exit(main())
