"""CPU and memory of analysing a very long metrics file, against a loop of json.loads. Exit 1 on a miss.

    scripts/bench analyze [LINES [ROUNDS]]

LINES (1,000,000) of LLaMA-Factory's trainer_log.jsonl, one in a thousand of them an evaluation; and of verl's file
logger, whose lines have about a hundred metrics each, as many as make the same number of bytes.
"""

import json
import os
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

LIMIT_SHARE = 0.25
LIMIT_MB = 100.0
VERL_SHARE = 0.05
"""Verl's lines for one of LLaMA-Factory's: each is about twenty times as long."""

LOOP = "import json, sys\nfor line in open(sys.argv[1], 'rb'):\n    json.loads(line)\n"
OURS = """
import sys
from loopai_trainer import backends
from loopai_trainer.results.analysis import Rule, analyze_folder
framework, stage, folder, metric, wanted = sys.argv[1:]
backend = backends.get(framework, stage)
rule = Rule(metric or None, "max" if metric else None, backend.losses_decide)
found = analyze_folder(folder, backend, rule)
assert found.selection.metric is not None and found.selection.metric.step == int(wanted), found.selection
"""


class Spent(NamedTuple):
    """One process."""

    cpu_s: float
    peak_mb: float


def spent(*words: str) -> Spent:
    """Run Python so; raises if it fails."""
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", *words], os.environ)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"it failed: {words[1:]}")
    return Spent(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def write_sft(folder: Path, lines: int) -> tuple[Path, int]:
    """(the log, the step with the lowest eval_loss)."""
    noise, best, at = random.Random(1), 9.0, 0
    path = folder / "trainer_log.jsonl"
    with path.open("w") as file:
        for step in range(1, lines + 1):
            done = step / lines
            rows: list[dict[str, float]] = [
                {"loss": round(2.0 - done + noise.random() / 10, 4), "lr": 5e-05 * (1 - done)}
            ]
            if step % 1000 == 0:
                value = round(1.0 + (done - 0.7) ** 2 + noise.random() / 100, 6)
                best, at = min((best, at), (value, step))
                rows.append({"eval_loss": value})
            end = {"epoch": round(3 * done, 4), "percentage": round(100 * done, 2)}
            for row in rows:
                told = {"current_steps": step, "total_steps": lines, **row, **end}
                file.write(json.dumps({**told, "elapsed_time": "1:02:03", "remaining_time": "4:05:06"}) + "\n")
    return path, at


def write_verl(folder: Path, lines: int) -> tuple[Path, int]:
    """(the log, the step with the highest validation score)."""
    noise, best, at = random.Random(2), -1.0, 0
    names = [f"timing_s/part_{number}" for number in range(60)] + [f"perf/part_{number}" for number in range(36)]
    path = folder / "metrics" / "verl_metrics.jsonl"
    path.parent.mkdir()
    with path.open("w") as file:
        for step in range(1, lines + 1):
            told = {name: noise.random() * 100 for name in names}
            told |= {
                "actor/loss": noise.random(),
                "actor/grad_norm": noise.random(),
                "critic/score/mean": noise.random(),
            }
            if step % 100 == 0:
                value = round(0.5 - (step / lines - 0.6) ** 2 + noise.random() / 100, 6)
                best, at = max((best, at), (value, step))
                told["val-core/openai/gsm8k/acc/mean@1"] = value
            file.write(json.dumps({"step": step, "data": told}) + "\n")
    return path, at


def main() -> int:
    """Print the figures."""
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    missed = False
    with tempfile.TemporaryDirectory() as root:
        for name, write, count, words in (
            ("LLaMA-Factory", write_sft, lines, ("llamafactory", "sft", "")),
            ("verl", write_verl, int(lines * VERL_SHARE), ("verl", "grpo", "val-core/*/acc/mean@*")),
        ):
            folder = Path(root) / words[0]
            folder.mkdir()
            path, wanted = write(folder, count)
            rows = []
            for _ in range(rounds):
                loop = spent(LOOP, str(path))
                ours = spent(OURS, words[0], words[1], str(folder), words[2], str(wanted))
                rows.append((ours.cpu_s / loop.cpu_s, loop.cpu_s, ours.cpu_s, ours.peak_mb))
            share, loop_s, ours_s, peak = (statistics.median(column) for column in zip(*rows, strict=True))
            good = share <= LIMIT_SHARE and peak < LIMIT_MB
            missed = missed or not good
            size_mb = path.stat().st_size / 1e6
            print(
                f"{name:14} {count:9} lines {size_mb:6.0f} MB   json loop {loop_s:6.2f} s   analysis {ours_s:6.2f} s   "
                f"share {share:.3f} (limit {LIMIT_SHARE})   peak {peak:.0f} MB (limit {LIMIT_MB:.0f})   "
                f"{'ok' if good else 'MISSED'}"
            )
            path.unlink()
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
