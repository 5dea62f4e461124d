"""The supervision cases from the field (tests/cases/supervision), each as the real processes behave."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.case_backend import CASES
from fakes.runs import LIMIT_S, answer, kill, wait_for

from loopai_trainer.host import processes
from loopai_trainer.worker.observe import read_started

pytestmark = pytest.mark.flow

STATUS_MEMORY_KB = 100 * 1024


@pytest.fixture
def case(prepare):
    def make(name):
        return prepare(name, loopai={"framework": "case_stub"}, case=name)

    return make


def test_sup_01a_the_terminal_closes_while_it_trains(case):
    run = case("SUP-01A")
    caller = run.start()
    wait_for(lambda: (run.state().get("current_step") or 0) >= 3)
    training = read_started(run.run)["training"]
    kill(training, signal.SIGSTOP)  # it does not end before the caller has left, however long that takes
    os.killpg(caller.pid, signal.SIGHUP)
    assert answer(caller)[0] == 130
    kill(training, signal.SIGCONT)
    code, document = run.run_to_end()  # attaches
    assert (code, document["status"], document["data"]["current_step"]) == (0, "completed", 30)
    assert run.starts == 1
    assert run.living() == []  # its helper, which would sleep for a quarter of an hour, too


def test_sup_02a_the_state_says_running_and_the_process_is_gone(prepare):
    run = prepare("v-old")
    shutil.copy(CASES / "SUP-02A" / "run_state.json", run.run.run_state)
    Path(run.run.train_log).write_text("the last words\n")
    code, document = answer(run.call("status", run.run.path, "--json"))
    assert (code, document["status"], document["data"]["error"]["code"]) == (0, "failed", "WORKER_LOST")
    assert document["data"]["error"]["recoverable"]
    assert document["data"]["error"]["log_tail"] == ["the last words"]


def test_sup_03a_the_worker_is_dead_and_training_lives(case):
    run = case("SUP-03A")
    caller = run.start()
    wait_for(lambda: (run.state().get("current_step") or 0) >= 2)
    kill(run.state()["worker"])
    assert answer(caller)[0] == 8
    training = read_started(run.run)["training"]
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (8, "ORPHANED_TRAINING")
    shown = {one["pid"]: one for one in document["error"]["processes"]}
    assert "stub_train.py" in shown[training["pid"]]["command"]
    assert shown[training["pid"]]["age_s"] > 0
    assert "recover" in document["error"]["next_command"]
    assert processes.alive(training)
    assert run.starts == 1
    assert answer(run.call("recover", run.run.path, "--terminate", "--json"))[0] == 0
    assert not processes.alive(training)


def test_sup_04a_300_mb_of_progress_bars(case):
    run = case("SUP-04A")
    code, document = run.run_to_end()
    assert (code, document["status"]) == (0, "completed")
    logs = list(Path(run.run.path).glob("train.log*"))
    sizes = [path.stat().st_size for path in logs]
    assert sum(sizes) <= 256 * 1024 * 1024
    assert sum(sizes) > 150_000_000
    for words in (("status", run.run.path, "--json"), ("logs", run.run.path, "--tail", "5", "--json")):
        document, peak_kb = measured(run, *words)
        assert document["ok"]
        assert peak_kb < STATUS_MEMORY_KB
    assert document["data"]["lines"][-1] == "100%|####"


def test_sup_09a_exit_code_0_after_a_crash(case):
    run = case("SUP-09A")
    code, document = run.run_to_end()
    assert (code, document["status"]) == (11, "failed")
    assert document["error"]["code"] in ("STEPS_MISSING", "ARTEFACT_MISSING")
    assert "step 6 of 20" in document["error"]["detail"]
    assert "stand-in failure" in document["error"]["detail"]
    assert document["data"]["update_model_path"] is None


def test_sup_11a_the_clock_steps_back_an_hour(prepare):
    run = prepare("v1")
    shutil.copy(CASES / "SUP-11A" / "events.jsonl", run.run.events)
    code, document = answer(run.call("events", run.run.path, "--json"))
    assert (code, document["data"]["next_seq"]) == (0, 3)
    assert [event["seq"] for event in document["data"]["events"]] == [1, 2, 3]
    shown = run.call("events", run.run.path)
    out, err = shown.communicate(timeout=LIMIT_S)
    assert (shown.returncode, err) == (0, b"")
    assert [line.split()[0] for line in out.decode().splitlines()] == ["1", "2", "3"]
    code, document = answer(run.call("events", run.run.path, "--since", "2", "--json"))
    assert [event["seq"] for event in document["data"]["events"]] == [3]


MEASURED = """
import re, sys
from loopai_trainer.cli.fast import main
sys.argv = ["trainer", *sys.argv[1:]]
try:
    code = main()
finally:
    with open("/proc/self/status") as file:
        sys.stderr.write(re.search(r"VmHWM:\\s*(\\d+)", file.read())[1])
sys.exit(code)
"""


def measured(run, *words):
    """(JSON answer, peak resident KiB) of a call. Its own account: wait4's would hold what this process had at fork."""
    argv = [sys.executable, "-c", MEASURED, *words]
    done = subprocess.run(argv, env=run.env, cwd=run.root, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), int(done.stderr)
