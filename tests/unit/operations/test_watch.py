"""operations.watch: the pace, the GPUs of the plan on this host alone, no secrets, and refusals."""

import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes import nvml
from fakes.finished_runs import FinishedRun, strict

from loopai_trainer.errors import NotFound, UsageError
from loopai_trainer.files import atomic
from loopai_trainer.host import device_load, locks, processes
from loopai_trainer.operations import watch
from loopai_trainer.operations.targets import Scope

TOKEN = "hf_" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1Babcdef"
METRICS = '{"step": 1, "kind": "train", "attempt": 1, "values": {"loss": 2.0, "lr": 1e-05}}\n'


@pytest.fixture
def run(tmp_path):
    """A run that goes on: its lock is held, and its training is this very process."""
    run = FinishedRun(tmp_path).run
    for folder in (os.path.dirname(run.approved_config), run.metrics, run.launch):
        os.makedirs(folder)
    os.rename(run.config, run.approved_config)
    Path(run.metric_rows).write_text(METRICS)
    Path(run.train_log).write_text(f"login with {TOKEN}\n")
    atomic.write_json(run.launch_started, {"training": dict(processes.own_identity())})
    write_state(run, current_step=1)
    with open(locks.try_exclusive(run.run_lock)) as run.holder:
        yield run


def write_state(run, training=None, **values):
    training = training or dict(processes.own_identity())
    state = {"version_id": "v1", "status": "running", "phase": "training", "training": training, "total_steps": 9}
    atomic.write_json(run.run_state, {**state, **values})


@pytest.fixture
def driver(tmp_path, monkeypatch):
    library = os.path.join(nvml.library_folder(tmp_path), "libnvidia-ml.so.1")
    monkeypatch.setattr(watch, "Gauge", partial(device_load.Gauge, library=library))


def test_a_look(run, driver):
    watching = watch.start(run.path, Scope({}))
    sample = watching.look()
    watching.close()
    assert sample.goes_on
    assert sample.curves == {"loss": [(1, 2.0)]}
    assert sample.metrics == {"loss": 2.0, "lr": 1e-05}
    assert [(one.label, one.use_percent) for one in sample.devices] == [("GPU 0", 41)]
    assert sample.log == ("login with [redacted]",)
    data = strict(sample.data())
    assert (data["type"], data["status"], data["devices"][0]["memory_total_bytes"]) == ("state", "running", 80 * 2**30)


def test_another_hosts_gpus_are_not_ours(run, driver):
    write_state(run, {**processes.own_identity(), "boot_id": "00000000-0000-4000-8000-000000000001"})
    assert watch.start(run.path, Scope({})).look().devices == ()


def test_a_plan_that_cannot_be_read_names_no_gpus(run, driver):
    Path(run.approved_config).write_text("{")
    assert watch.start(run.path, Scope({})).look().devices == ()


def test_the_pace_is_that_of_what_was_watched(run, monkeypatch):
    now = iter((0.0, 30.0, 30.0, 300.0))
    monkeypatch.setattr(
        watch, "time", SimpleNamespace(monotonic=lambda: next(now))
    )  # its own alone: threads read it, too
    watching = watch.Watch(run, {})
    told = []
    for step in (1, 4, 4, 5):
        write_state(run, current_step=step)
        told.append(watching.look().steps_per_minute)
    assert told == [None, 6.0, 6.0, 0.22]


def test_lines_come_at_changes_and_end_with_the_run(run, monkeypatch):
    def went_on(_):
        step = watching["step"] = watching["step"] + 1
        write_state(run, current_step=min(step, 3), **({"status": "failed"} if step > 5 else {}))
        if step > 5:
            run.holder.close()
        assert step < 10

    watching = {"step": 1}
    monkeypatch.setattr(watch.time, "sleep", went_on)
    lines = list(watch.follow_samples(run.path, Scope({})))
    assert [line["current_step"] for line in lines] == [1, 2, 3, 3]
    assert [line["type"] for line in lines] == ["state", "state", "state", "end"]


def test_a_quiet_run_says_so_now_and_then(run, monkeypatch):
    monkeypatch.setattr(watch, "_SAY_AGAIN_S", 0.0)
    monkeypatch.setattr(watch.time, "sleep", lambda _: None)
    lines = watch.follow_samples(run.path, Scope({}))
    assert [next(lines)["current_step"] for _ in range(3)] == [1, 1, 1]
    lines.close()


def test_what_is_merely_prepared_is_refused(tmp_path):
    run = FinishedRun(tmp_path).run
    with pytest.raises(UsageError) as caught:
        watch.start(run.path, Scope({}))
    assert caught.value.code == "NOT_STARTED"
    with pytest.raises(NotFound):
        watch.start(str(tmp_path / "none" / "such"), Scope({}))


def test_status_for_people_has_the_curve(run):
    answer = watch.status_with_curve(run.path, Scope({}))
    assert answer.data["recent"] == {"name": "loss", "values": [2.0]}
    os.unlink(run.metric_rows)
    assert "recent" not in watch.status_with_curve(run.path, Scope({})).data
