"""One run from call to result, as its processes really behave."""

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest
from fakes.backend import PROGRAM
from fakes.runs import LIMIT_S, answer, wait_for

from loopai_trainer.files import event_log

pytestmark = pytest.mark.flow


def test_a_run_completes(prepare):
    run = prepare(steps=5, pause_s=0.02)
    code, document = run.run_to_end()
    assert (code, document["ok"], document["status"]) == (0, True, "completed")
    assert document["data"]["current_step"] == document["data"]["total_steps"] == 5
    assert document["data"]["best_checkpoint"]["name"] == "checkpoint-5"
    assert run.starts == 1
    wait_for(lambda: run.locked() == (False, False))
    rows = [json.loads(line) for line in Path(run.run.metric_rows).read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5]
    assert all(row["attempt"] == 1 and row["kind"] == "train" for row in rows)
    events = event_log.read(run.run.events)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    statuses = [event["status"] for event in events]
    assert statuses[0] == "running"
    assert statuses[-2:] == ["finalizing", "completed"]
    assert Path(run.run.approved_config).read_bytes() == Path(run.run.config).read_bytes()


def test_caches_are_private_and_go_away(prepare):
    run = prepare()
    assert run.run_to_end()[0] == 0
    assert not os.path.exists(run.run.cache)
    assert not os.path.exists(run.run.tmp)
    outside = run.state()["tmp_dir"]
    assert not os.path.exists(outside)
    for folder in (run.run.launch, run.run.metrics):
        assert os.stat(folder).st_mode & 0o777 == 0o700
    for file in (run.run.run_state, run.run.result, run.run.train_log, run.run.worker_log, run.run.events):
        assert os.stat(file).st_mode & 0o077 == 0


def test_the_same_call_again_gives_the_stored_result(prepare):
    run = prepare()
    first, second = run.run_to_end(), run.run_to_end()
    assert first[0] == second[0] == 0
    assert first[1]["data"] == second[1]["data"]
    assert run.starts == 1


def test_another_hash_for_a_run_that_ended_is_refused(prepare):
    run = prepare()
    assert run.run_to_end()[0] == 0
    Path(run.run.config).write_text("changed: 1\n")
    code, document = answer(run.call("run-prepared", run.run.config, "--sha256", "0" * 64, "--json"))
    assert code == 5
    assert document["error"]["code"] == "CONFIG_HASH_MISMATCH"
    assert run.sha256 in document["error"]["detail"]
    assert "0" * 64 in document["error"]["detail"]
    assert run.starts == 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"exit_code": 3}, "EXIT_STATUS"),
        ({"steps": 6, "stop_at": 4}, "STEPS_MISSING"),
        ({"artefact": False}, "ARTEFACT_MISSING"),
        ({"nan_at": 2}, "DIVERGED"),
        ({"program": PROGRAM}, "EXEC_FAILED"),
        ({"report_examples": 7}, "EXAMPLES_MISMATCH"),
        ({"report_examples": None}, "EXAMPLES_UNKNOWN"),
    ],
)
def test_anything_less_is_failed(prepare, options, code):
    run = prepare(**options)
    exit_code, document = run.run_to_end()
    assert (exit_code, document["status"]) == (11, "failed")
    assert document["error"]["code"] == code
    assert run.status == "failed"
    wait_for(lambda: run.locked() == (False, False))


def test_training_on_another_number_of_examples_is_stopped(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(report_examples=7, hold_file=str(hold), helper_s=60.0)
    code, document = run.run_to_end()
    assert code == 11
    assert "7 train examples" in document["error"]["detail"]
    assert "8 were approved" in document["error"]["detail"]


def test_nonfinite_metrics_are_null_and_named(prepare):
    run = prepare(nan_at=2, steps=2)
    run.run_to_end()
    rows = [json.loads(line) for line in Path(run.run.metric_rows).read_text().splitlines()]
    assert rows[0].get("nonfinite") is None
    assert rows[1]["values"]["loss"] is None
    assert rows[1]["nonfinite"] == ["loss"]
    assert run.state()["loss"] is None


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_the_callers_parent_had_ignored_stays_ignored(prepare, tmp_path, number):
    """As under `nohup`: such a caller is to stay."""
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold))
    caller = run.start(ignored=[number])
    wait_for(lambda: run.state().get("current_step") == 3)
    os.killpg(caller.pid, number)
    hold.unlink()
    code, document = answer(caller)
    assert (code, document["status"]) == (0, "completed")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_signals_to_the_callers_group_detach(prepare, tmp_path, number):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold))
    caller = run.start()
    wait_for(lambda: run.state().get("current_step") == 3)
    os.killpg(caller.pid, number)
    code, document = answer(caller)
    assert (code, document["error"]["code"]) == (130, "INTERRUPTED")
    assert document["error"]["next_command"] == f"trainer wait {run.run.path}"
    assert run.locked() == (True, True)
    again = run.start()
    hold.unlink()
    code, document = answer(again)
    assert (code, document["status"]) == (0, "completed")
    assert run.starts == 1


def test_leftover_helpers_are_ended(prepare):
    run = prepare(helper_s=300.0)
    code, _ = run.run_to_end()
    assert code == 0
    assert run.living() == []
    wait_for(lambda: run.locked() == (False, False))


def test_much_output_is_kept_within_bounds_and_blocks_nobody(prepare):
    run = prepare(spam_bytes=30_000_000, steps=4)
    code, _ = run.run_to_end()
    assert code == 0
    sizes = [os.path.getsize(run.run.train_log + end) for end in ("", ".1") if os.path.exists(run.run.train_log + end)]
    assert sum(sizes) > 100_000_000
    assert max(sizes) <= 64 * 1024 * 1024


def open_files(pid):
    """What a process has open; a descriptor that it closes while it is looked at is left out."""
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return found


def locks_of(pid):
    return {path for path in open_files(pid) if path.endswith(".lock")}


def test_a_descriptor_of_the_caller_does_not_reach_the_worker(prepare, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = prepare(hold_file=str(hold))
    caller = run.start()
    assert caller.stdout is not None
    wait_for(lambda: run.state().get("training"))
    caller.kill()
    # An agent reads until the end of the pipe: it must come although training goes on.
    caller.communicate(timeout=LIMIT_S)
    assert run.locked() == (True, True)
    for name in ("worker", "keeper", "training"):
        pid = run.state()[name]["pid"]
        assert any("/dev/null" in path or "memfd" in path for path in open_files(pid))
        expected = {"worker": {run.run.run_lock}, "keeper": {run.run.training_lock}, "training": set()}[name]
        # What was inherited stays; the worker alone opens training.lock again and again, each time for microseconds.
        wait_for(lambda pid=pid, expected=expected: locks_of(pid) == expected)
    hold.unlink()
    assert run.run_to_end()[0] == 0


def test_inline_runs_the_worker_inside_the_caller(prepare):
    launch = {"executor": "inline", "devices": "", "nodes": 1, "nproc_per_node": 1, "env": {}, "pass_env": []}
    run = prepare(loopai={"launch": launch})
    code, document = run.run_to_end()
    assert (code, document["status"]) == (0, "completed")
    assert run.state()["worker"]["pid"] == run.state()["caller"]["pid"]
    wait_for(lambda: run.locked() == (False, False))
    assert run.run_to_end()[0] == 0
    assert run.starts == 1


def test_an_unknown_executor_starts_nothing(prepare):
    launch = {"executor": "moon", "devices": "", "nodes": 1, "nproc_per_node": 1, "env": {}, "pass_env": []}
    run = prepare(loopai={"launch": launch})
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (3, "CONFIG_INVALID")
    assert run.starts == 0
    wait_for(lambda: run.locked() == (False, False))
