"""CPU of `trainer list` over many runs, beyond that of `trainer --help`. Exit 1 if it is more than 50 ms.

    scripts/bench list [RUNS [ROUNDS]]

Twice: with the runs below the output directory, and with runs that the user's index alone knows.
"""

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from startup import cpu_ms

LIMIT_MS = 50.0


def make_runs(root: Path, count: int) -> None:
    """Ended runs, 100 a task, each with what listing looks at; and an index that names them all."""
    index = []
    for number in range(count):
        version_id = f"v{number:05}"
        folder = root / "outputs" / f"task-{number // 100}" / "trainer" / version_id
        (folder / "launch").mkdir(parents=True)
        state = {"schema_version": 1, "version_id": version_id, "status": "completed", "attempt": 1}
        result = {"schema_version": 1, "trainer_version_id": version_id, "status": "completed", "attempt": 1}
        result |= {"checkpoints": [], "result": {"status": "completed"}}
        (folder / "run_state.json").write_text(json.dumps({**state, "config_sha256": "0" * 64}))
        (folder / "worker_result.json").write_text(json.dumps({**result, "config_sha256": "0" * 64}))
        (folder / "run.lock").touch()
        index.append(json.dumps({"version_id": version_id, "path": str(folder)}))
    (root / "state").mkdir()
    (root / "state" / "runs.jsonl").write_text("\n".join(index) + "\n")


def extra_ms(words: list[str], rounds: int) -> float:
    """Median CPU milliseconds of `trainer WORDS` beyond `trainer --help`, pairs interleaved."""
    trainer = str(Path(sys.executable).with_name("trainer"))
    found = []
    for round_number in range(rounds + 1):
        base = cpu_ms([trainer, "--help"])
        spent = cpu_ms([trainer, *words])
        if round_number:  # the first one compiles
            found.append(spent - base)
    return statistics.median(found)


def main() -> int:
    """Print both figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with tempfile.TemporaryDirectory() as folder:
        make_runs(Path(folder), count)
        os.environ["LOOPAI_TRAINER_STATE_DIR"] = str(Path(folder) / "nothing")
        found = {"by folder": extra_ms(["list", "--json", "--output-dir", str(Path(folder) / "outputs")], rounds)}
        os.environ["LOOPAI_TRAINER_STATE_DIR"] = str(Path(folder) / "state")
        os.environ["OUTPUT_DIR"] = str(Path(folder) / "nothing")
        found["by index"] = extra_ms(["list", "--json"], rounds)
    print(f"trainer list over {count} runs: CPU beyond --help, median of {rounds} interleaved pairs")
    for name, spent in found.items():
        print(f"  {name:<10} {spent:6.1f} ms   limit {LIMIT_MS:4.0f} ms   {'ok' if spent <= LIMIT_MS else 'MISSED'}")
    return any(spent > LIMIT_MS for spent in found.values())


if __name__ == "__main__":
    sys.exit(main())
