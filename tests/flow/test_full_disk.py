"""A disk that fills up while training runs: the end is known, said and answered, and nobody waits for ever."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.runs import LIMIT_S, PreparedRun, answer, kill, wait_for

from loopai_trainer.worker.observe import observe, read_started

pytestmark = pytest.mark.flow


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 900 KiB; needs root."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("tmpfs cannot be mounted here")
    yield place
    wait_for(lambda: subprocess.run(["umount", str(place)], capture_output=True, check=False).returncode == 0)


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), open(disk / "filler", "ab", buffering=0) as file:
        while True:
            file.write(b"x" * 512)


def started(disk: Path, **options) -> tuple[PreparedRun, "subprocess.Popen[bytes]"]:
    run = PreparedRun(disk, **{"steps": 2000, "pause_s": 0.05, "save_steps": 2000, **options})
    caller = run.start()
    wait_for(lambda: (run.state().get("current_step") or 0) >= 1)
    wait_for(lambda: os.path.exists(run.run.at("launch", "room")))
    return run, caller


def test_training_that_dies_of_it_is_answered_with_the_cause(small_disk):
    run, caller = started(small_disk)
    fill(small_disk)
    code, document = answer(caller)
    assert (code, document["status"], document["error"]["code"]) == (11, "failed", "DISK_FULL")
    assert "full" in document["error"]["detail"]
    assert "free space" in document["error"]["hint"]
    assert "Traceback" not in document["error"]["detail"]
    wait_for(lambda: run.locked() == (False, False))
    assert run.status == "failed"
    assert not os.path.exists(run.run.at("launch", "room"))
    assert not os.path.exists(run.run.launch_exit + ".reserved")
    assert run.run_to_end()[1]["error"]["code"] == "DISK_FULL"
    assert run.starts == 1


def test_cancel_works_on_a_full_disk(small_disk, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run, caller = started(small_disk, steps=2, pause_s=0.0, hold_file=str(hold))
    fill(small_disk)
    code, document = answer(run.call("cancel", run.run.path, "--json"))
    assert (code, document["status"]) == (0, "cancelled")
    assert answer(caller)[0] == 13
    assert run.living() == []


def test_without_any_room_it_is_said_until_there_is_some(small_disk, tmp_path):
    """Not even the room that was kept: status says so while the worker tries, and the next call finishes the run."""
    hold = tmp_path / "hold"
    hold.touch()
    run, caller = started(small_disk, steps=2, pause_s=0.0, hold_file=str(hold))
    os.unlink(run.run.at("launch", "room"))
    os.unlink(run.run.launch_exit + ".reserved")
    fill(small_disk)
    hold.unlink()
    wait_for(lambda: observe(run.run).verdict.code == "DISK_FULL")
    # While the keeper is stopped the worker waits for it, so that it gives up only after these looks, however slow.
    keeper = read_started(run.run)["keeper"]
    kill(keeper, signal.SIGSTOP)
    try:
        seen = observe(run.run).verdict
        assert (seen.status, seen.action, seen.code) == ("finalizing", "attach", "DISK_FULL")
        code, document = answer(run.call("status", run.run.path, "--json"))
        assert (code, document["status"], document["data"]["error"]["code"]) == (0, "finalizing", "DISK_FULL")
        assert document["data"]["error"]["hint"]
        begun = time.monotonic()
        os.unlink(small_disk / "filler")
    finally:
        kill(keeper, signal.SIGCONT)
    code, document = answer(caller)
    assert (code, document["status"]) == (0, "completed")
    assert time.monotonic() - begun < 30.0
    assert run.starts == 1


def test_a_worker_that_died_on_a_full_disk_leaves_a_run_that_is_finished_later(small_disk, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run, caller = started(small_disk, steps=2, pause_s=0.0, hold_file=str(hold))
    caller.kill()
    caller.communicate(timeout=LIMIT_S)
    worker, keeper = run.state()["worker"], read_started(run.run)["keeper"]
    os.unlink(run.run.at("launch", "room"))
    fill(small_disk)
    kill(worker)
    kill(keeper)
    wait_for(lambda: run.locked() == (False, False) and run.living() == [])
    assert (run.status, observe(run.run).verdict.code) == ("failed", "DISK_FULL")
    for _ in range(2):
        code, document = run.run_to_end()
        assert (code, document["error"]["code"]) == (9, "DISK_FULL")
        assert document["error"]["hint"]
    os.unlink(small_disk / "filler")
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (11, "WORKER_LOST")
    assert run.starts == 1


def test_a_disk_that_is_full_before_the_start_refuses_it(small_disk):
    run = PreparedRun(small_disk)
    fill(small_disk)
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) in ((9, "DISK_FULL"), (11, "DISK_FULL"))
    os.unlink(small_disk / "filler")
    assert run.run_to_end()[0] == 0
