"""A stand-in for a training program: standard library only, driven by a JSON file of options (see fakes.backend).

It writes what real trainers write: an append-only metrics file, checkpoints, a final artefact, a chatty log; and it
leaves what real trainers leave: helpers in sessions of their own that outlive it and inherit no lock.
"""

import json
import os
import signal
import sys
import time

HELPER = """
import os, signal, sys, time
if sys.argv[3] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
new = f"{sys.argv[1]}.{os.getpid()}"  # ranks of several hosts write the same one
with open(new, "w") as file:
    file.write(str(os.getpid()))
os.rename(new, sys.argv[1])
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    time.sleep(0.05)
"""


def main(options: dict) -> int:
    out = options["out"]
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "starts.txt"), "a") as file:
        file.write(f"{os.getpid()}\n")
    if options["deaf"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options["helper_s"]:
        start_helper(os.path.join(out, "helper.pid"), options)
    say("phase loading_data")
    if options["report_examples"] is not None:
        say(f"examples {options['report_examples']}")
    say(f"steps {options['steps']}")
    for step in range(1, options["steps"] + 1):
        if step == options["stop_at"] and options["stop_node"] in ("", os.environ.get("NODE_RANK")):
            print(options["last_words"], file=sys.stderr, flush=True)
            return options["exit_code"]
        one_step(out, step, options)
    if options["steps"] and options["artefact"]:
        write(os.path.join(out, "final.json"), {"finite": not options["nan_at"]})
    wait_for(options["hold_file"])
    return options["exit_code"]


def one_step(out: str, step: int, options: dict) -> None:
    time.sleep(options["pause_s"])
    if options["spam_bytes"]:
        piece = b"\r%3d%%|####" % (100 * step // options["steps"])
        sys.stdout.buffer.write(piece * (options["spam_bytes"] // len(piece)) + b"\n")
        sys.stdout.buffer.flush()
    loss = float("nan") if options["nan_at"] and step >= options["nan_at"] else round(2 / step, 4)
    row = {"step": step, "total_steps": options["steps"], "loss": loss, "learning_rate": 1e-4}
    with open(os.path.join(out, "metrics.jsonl"), "a") as file:
        file.write(json.dumps(row) + "\n")
    if step % options["save_steps"] == 0:
        os.makedirs(os.path.join(out, f"checkpoint-{step}"), exist_ok=True)
        write(os.path.join(out, f"checkpoint-{step}", "weights.json"), {"step": step})


def start_helper(pid_file: str, options: dict) -> None:
    manner = "deaf" if options["helper_deaf"] else "polite"
    argv = [sys.executable, "-I", "-S", "-c", HELPER, pid_file, str(options["helper_s"]), manner]
    environment = dict(os.environ)
    pid = os.posix_spawn(argv[0], argv, environment, setsid=True)
    while not os.path.exists(pid_file) and os.waitpid(pid, os.WNOHANG)[0] == 0:  # somebody may kill it at once
        time.sleep(0.005)


def wait_for(path: str) -> None:
    while path and os.path.exists(path):
        time.sleep(0.02)


def say(text: str) -> None:
    print(text, flush=True)


def write(path: str, value: object) -> None:
    """The whole file or none: ranks of several hosts write the same ones, and they are looked at meanwhile."""
    new = f"{path}.{os.getpid()}"
    with open(new, "w") as file:
        json.dump(value, file)
    os.replace(new, path)


if __name__ == "__main__":
    with open(sys.argv[1]) as given:
        sys.exit(main(json.load(given)))
