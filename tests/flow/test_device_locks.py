"""Two runs never share a GPU of one host, however they name it, and whoever of the first one is dead."""

import os

import pytest
from fakes import nvml
from fakes.runs import LIMIT_S, answer, kill, wait_for

from loopai_trainer.host import processes
from loopai_trainer.worker.observe import read_started

pytestmark = pytest.mark.flow


@pytest.fixture
def on_devices(prepare, tmp_path):
    """Makes runs on the devices of a host with two GPUs; the first one waits at its end for the file `hold`."""
    driver = nvml.library_folder(tmp_path)

    def make(version_id, devices, **options):
        launch = {"executor": "local", "devices": devices, "nodes": 1, "nproc_per_node": 1, "env": {}, "pass_env": []}
        run = prepare(version_id, loopai={"launch": launch}, **options)
        run.extra_env = {"LD_LIBRARY_PATH": driver, "LOOPAI_TRAINER_DEVICE_LOCK_DIR": str(tmp_path / "locks")}
        return run

    return make


@pytest.fixture
def first(on_devices, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    run = on_devices("first", "0", hold_file=str(hold), helper_s=300.0)
    caller = run.start()
    wait_for(lambda: run.state().get("current_step") == 3)
    return run, caller, hold


def refused(run):
    code, document = run.run_to_end()
    assert (code, document["error"]["code"]) == (7, "DEVICE_IN_USE")
    assert not os.path.exists(run.run.approval)  # it is not used up
    assert run.starts == 0
    return document["error"]


@pytest.mark.parametrize("devices", ["0", "GPU-11aa-22", "GPU-11", "1,0"])
def test_the_same_gpu_is_refused_and_its_holder_named(on_devices, first, devices):
    run, caller, hold = first
    second = on_devices("second", devices)
    error = refused(second)
    assert error["device"] == "GPU-11aa-22"
    assert error["holder"]["run_dir"] == run.run.path
    assert "run first" in error["detail"]
    assert error["next_command"] == f"trainer status {run.run.path}"
    hold.unlink()
    assert answer(caller)[0] == 0
    wait_for(lambda: run.locked() == (False, False))
    assert second.run_to_end()[0] == 0


def test_other_gpus_and_cpu_runs_go_side_by_side(on_devices, first, prepare):
    _, caller, hold = first
    assert on_devices("second", "1").run_to_end()[0] == 0
    assert on_devices("third", "", use_cpu=True).run_to_end()[0] == 0
    assert on_devices("fourth", "0", use_cpu=True).run_to_end()[0] == 0
    hold.unlink()
    assert answer(caller)[0] == 0


def test_the_gpu_stays_locked_when_the_worker_is_dead(on_devices, first):
    run, caller, _ = first
    kill(run.state()["worker"])
    assert answer(caller)[0] == 8
    second = on_devices("second", "0")
    refused(second)
    assert answer(run.call("recover", run.run.path, "--terminate", "--json"))[0] == 0
    wait_for(lambda: run.locked() == (False, False))
    assert second.run_to_end()[0] == 0


def test_a_rank_that_outlived_worker_and_keeper_keeps_the_gpu(on_devices, first):
    run, caller, _ = first
    kill(run.state()["worker"])
    kill(read_started(run.run)["keeper"])
    caller.communicate(timeout=LIMIT_S)
    wait_for(lambda: run.locked() == (False, False) and not processes.alive(read_started(run.run)["training"]))
    second = on_devices("second", "0")
    assert "what is left of run first" in refused(second)["detail"]
    assert answer(run.call("recover", run.run.path, "--terminate", "--json"))[0] == 0
    wait_for(lambda: run.locked() == (False, False))
    assert second.run_to_end()[0] == 0


def test_an_orphans_refusal_names_its_devices(first):
    run, caller, _ = first
    kill(run.state()["worker"])
    caller.communicate(timeout=LIMIT_S)
    code, document = run.run_to_end()
    assert (code, document["error"]["devices"]) == (8, "0")
    assert "on device 0" in document["error"]["detail"]
    assert answer(run.call("recover", run.run.path, "--terminate", "--json"))[0] == 0


def test_a_folder_that_cannot_be_shared_is_refused(on_devices, tmp_path):
    (tmp_path / "locks").symlink_to(tmp_path)
    code, document = on_devices("v1", "0").run_to_end()
    assert (code, document["error"]["code"]) == (9, "LOCKS_UNRELIABLE")
    assert "LOOPAI_TRAINER_DEVICE_LOCK_DIR" in document["error"]["hint"]


def test_a_failed_start_frees_the_gpu(on_devices, first, tmp_path):
    """What is refused after the devices were locked leaves them free for others."""
    run, caller, hold = first
    hold.unlink()
    assert answer(caller)[0] == 0
    wait_for(lambda: run.locked() == (False, False))
    broken = on_devices("broken", "0", program="/bin/does-not-exist")
    assert broken.run_to_end()[0] == 11
    wait_for(lambda: broken.locked() == (False, False))
    assert on_devices("second", "0").run_to_end()[0] == 0
