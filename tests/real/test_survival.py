"""Deaths around a real LLaMA-Factory training: the caller's, and the worker's and launcher's with a torchrun rank alive."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
from fakes.cli import start, trainer
from fakes.runs import kill

from loopai_trainer.host import processes
from loopai_trainer.worker.observe import members

pytestmark = pytest.mark.real


def until(condition, limit_s=300.0):
    """Wait for a condition; fail after `limit_s` of a machine that may be busy."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def run_words(prepared):
    return ["run-prepared", prepared.data["config_path"], "--sha256", prepared.data["config_sha256"]]


def state(folder):
    return json.loads((folder / "run_state.json").read_text())


def test_the_caller_is_killed_while_it_trains_and_the_same_command_attaches(workshop):
    prepared = workshop.prepare("caller-killed")
    folder = Path(prepared.data["run_dir"])
    caller = start(*run_words(prepared), **workshop.environ)
    until(lambda: (folder / "launch" / "started").exists())
    wanted = random.Random(7).randrange(1, 8)
    until(lambda: (state(folder).get("current_step") or 0) >= wanted or state(folder)["status"] == "completed")
    os.killpg(caller.pid, signal.SIGKILL)
    caller.communicate()
    seen = trainer("status", folder, **workshop.environ)
    assert seen.data["status"] in ("running", "finalizing", "completed")
    training = state(folder)["training"]
    ended = workshop.run(prepared)
    assert (ended.code, ended.data["status"]) == (0, "completed")
    assert state(folder)["training"] == training
    assert state(folder)["attempt"] == 1


def test_with_worker_and_launcher_killed_a_living_rank_keeps_everything_from_starting(workshop):
    prepared = workshop.prepare(
        "orphan",
        "--option",
        "nproc_per_node=2",
        "--set",
        "max_steps=100000",
        "--set",
        "save_steps=100000",
        "--set",
        "eval_steps=100000",
    )
    folder = Path(prepared.data["run_dir"])
    caller = start(*run_words(prepared), **workshop.environ)
    ranks = []
    try:
        until(lambda: (folder / "checkpoints" / "trainer_log.jsonl").exists())
        until(lambda: len(ranks_of(folder)) == 2)
        ranks = ranks_of(folder)
        found = state(folder)
        kill(found["worker"])
        kill(found["training"])
        caller.communicate(timeout=60)
        refused = workshop.run(prepared)
        assert (refused.code, refused.error["code"]) == (8, "ORPHANED_TRAINING")
        assert {one["pid"] for one in ranks} <= {process["pid"] for process in refused.error["processes"]}
        assert trainer("status", folder, **workshop.environ).data["status"] == "orphaned"
        assert state(folder)["attempt"] == 1
        assert all(processes.alive(one) for one in ranks), "nothing may be touched"
    finally:
        caller.kill()
        caller.communicate()
        for one in members(state(folder)):
            if str(folder).encode() in environment(one["pid"]):
                processes.send(one, signal.SIGKILL)
    until(lambda: not any(processes.alive(one) for one in ranks))
    # The keeper lets its lock go once it has seen that none is left.
    until(lambda: trainer("status", folder, **workshop.environ).data["status"] != "orphaned")
    ended = workshop.run(prepared)
    assert (ended.code, (ended.data or {}).get("status")) == (11, "failed"), ended.out + ended.err
    assert state(folder)["attempt"] == 1, "one version is one training"


def test_cancel_ends_both_ranks_and_keeps_the_checkpoints(workshop):
    prepared = workshop.prepare(
        "cancelled",
        "--option",
        "nproc_per_node=2",
        "--set",
        "max_steps=100000",
        "--set",
        "save_steps=2",
        "--set",
        "eval_steps=100000",
    )
    folder = Path(prepared.data["run_dir"])
    caller = start(*run_words(prepared), **workshop.environ)
    until(lambda: (folder / "checkpoints" / "checkpoint-2" / "trainer_state.json").exists())
    recorded = [pid for pid, _ in state(folder)["tree"]["members"]]
    cancelled = trainer("cancel", folder, **workshop.environ)
    assert (cancelled.code, cancelled.data["status"]) == (0, "cancelled")
    assert not [pid for pid in recorded if str(folder).encode() in environment(pid)]
    out, _ = caller.communicate(timeout=60)
    assert caller.returncode == 13
    assert json.loads(out)["error"]["type"] == "Cancelled"
    assert [item for item in cancelled.data["checkpoints"] if item["complete"]]
    assert cancelled.data["update_model_path"] is None


def ranks_of(folder):
    """The identities of the ranks that the worker has recorded so far."""
    return [one for one in members(state(folder)) if is_rank(command(one["pid"]))]


def is_rank(words):
    """torchrun names the same file on its own command line, and so does the launcher's child before its exec."""
    return b"launcher.py" in words and b"torchrun" not in words and b"llamafactory-cli" not in words


def command(pid):
    return read(f"/proc/{pid}/cmdline")


def environment(pid):
    return read(f"/proc/{pid}/environ")


def read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
