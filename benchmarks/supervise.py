"""What supervising costs, in CPU seconds of one run. Exit 1 if a limit is missed.

    scripts/bench supervise [SECONDS]

"loading", "training": worker and keeper together while training prints 100,000 lines a second, as a share of one core,
before and after LLaMA-Factory has said all that its log can tell. "whole run": caller, worker and keeper from start to
result, as a share of the CPU of a training of SECONDS (default 125) that computes and logs a step a second.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from fakes.llamafactory_env import make_environment  # noqa: E402 - the stand-ins of the tests lie beside the product
from fakes.runs import PreparedRun, wait_for  # noqa: E402

from loopai_trainer.host import environments  # noqa: E402
from loopai_trainer.worker.observe import read_started  # noqa: E402

LIMITS = {"loading": 0.03, "training": 0.03, "whole run": 0.01}
LINES_A_SECOND = 100_000
MEASURED_S = 6.0

CHATTER = r"""
import json, os, sys, time
PREFIX = "[INFO|trainer.py:2461] 2026-01-01 00:00:00,000 >> "
BAR = " 42%|####      | 420/1000 [00:42<00:58,  9.99it/s, loss=1.2345]\n"
here = os.path.dirname(os.path.abspath(sys.argv[0]))
plan = json.load(open(os.path.join(here, "plan.json")))

def chat(lines_a_second, until, steps):
    begun, written, step = time.monotonic(), 0, 0
    while time.monotonic() < until():
        if lines_a_second:
            sys.stdout.write(BAR * 1000)
            sys.stdout.flush()
            written += 1000
            ahead = written / lines_a_second - (time.monotonic() - begun)
            if ahead > 0:
                time.sleep(ahead)
        else:
            sum(range(100000))
        if steps and time.monotonic() - begun > step + 1:
            step += 1
            log(step)

def log(step):
    os.makedirs(plan["checkpoints"], exist_ok=True)
    row = {"current_steps": step, "total_steps": 10000, "loss": 1.0, "lr": 1e-4, "epoch": 0.1}
    with open(os.path.join(plan["checkpoints"], "trainer_log.jsonl"), "a") as file:
        file.write(json.dumps(row) + "\n")

def begin():
    for text in ("***** Running training *****", "  Num examples = 1", "  Total optimization steps = 10000"):
        sys.stdout.write(PREFIX + text + "\n")
    sys.stdout.flush()

def told(name):
    return lambda: 0.0 if os.path.exists(os.path.join(here, name)) else float("inf")

if plan["seconds"]:
    begin()
    end = time.monotonic() + plan["seconds"]
    chat(0, lambda: end, True)
else:
    chat(plan["lines_a_second"], told("go-on"), False)
    begin()
    chat(plan["lines_a_second"], told("stop"), True)
"""


def prepared(root: Path) -> PreparedRun:
    """A LLaMA-Factory run whose interpreter is the chatter."""
    env = root / "env"
    make_environment(env)
    (root / "chatter.py").write_text(CHATTER)
    (env / "bin" / "python").write_text(f"#!/bin/sh\nexec {sys.executable} -I -S {root}/chatter.py\n")
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
    return PreparedRun(root, "v1", {"framework": "llamafactory", "backend": backend}, use_cpu=True)


def tell(run: PreparedRun, plan: dict[str, float]) -> None:
    """Give the chatter its plan."""
    (run.root / "plan.json").write_text(json.dumps({**plan, "checkpoints": run.run.checkpoints}))


def cpu_s(pid: int) -> float:
    """CPU seconds of a living process (nanoseconds in /proc/PID/schedstat)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def share(run: PreparedRun) -> dict[str, float]:
    """CPU of worker and keeper as shares of one core, over some seconds."""
    pids = {"worker": run.state()["worker"]["pid"], "keeper": read_started(run.run)["keeper"]["pid"]}
    time.sleep(1.5)
    before, begun = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic()
    time.sleep(MEASURED_S)
    wall_s = time.monotonic() - begun
    return {name: (cpu_s(pid) - before[name]) / wall_s for name, pid in pids.items()}


def chatty() -> dict[str, dict[str, float]]:
    """The shares while loading and while training."""
    with tempfile.TemporaryDirectory() as folder:
        run = prepared(Path(folder))
        tell(run, {"seconds": 0, "lines_a_second": LINES_A_SECOND})
        caller = run.start()
        wait_for(lambda: run.state().get("training"))
        found = {"loading": share(run)}
        (run.root / "go-on").touch()
        wait_for(lambda: run.state().get("phase") == "training")
        found["training"] = share(run)
        (run.root / "stop").touch()
        caller.communicate(timeout=120)
    return found


def whole_run(seconds: float) -> tuple[float, float]:
    """(CPU seconds of our processes, CPU seconds of training) of a run that computes for so long."""
    with tempfile.TemporaryDirectory() as folder:
        run = prepared(Path(folder))
        tell(run, {"seconds": seconds, "lines_a_second": 0})
        before = os.times()
        caller = run.start()
        wait_for(lambda: run.state().get("training"))
        training = read_started(run.run)["training"]["pid"]
        spent = 0.0
        while True:
            try:
                spent = cpu_s(training)
            except (OSError, IndexError):
                break
            time.sleep(0.05)
        caller.communicate(timeout=120)
        # The caller has collected the worker, the worker its keeper, the keeper training: all of it is the caller's.
        after = os.times()
    whole = after.children_user + after.children_system - before.children_user - before.children_system
    return whole - spent, spent


def main() -> int:
    """Print the table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 125.0
    found = chatty()
    ours, training = whole_run(seconds)
    ratios = {name: sum(parts.values()) for name, parts in found.items()} | {"whole run": ours / training}
    print(f"supervising, Python {sys.version.split()[0]}; {LINES_A_SECOND} lines/s, {seconds:g} s of training")
    for name, ratio in ratios.items():
        verdict = "ok" if ratio <= LIMITS[name] else "MISSED"
        print(f"  {name:<10} {ratio:7.2%}   limit {LIMITS[name]:6.1%}   {verdict}")
    parts = {name: {who: f"{value:.2%}" for who, value in shares.items()} for name, shares in found.items()}
    print(f"  in detail: {json.dumps(parts)}; whole run: ours {ours:.2f} s, training {training:.2f} s")
    return any(ratios[name] > limit for name, limit in LIMITS.items())


if __name__ == "__main__":
    sys.exit(main())
