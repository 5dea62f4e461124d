"""The two files that LoopAI's own reader loads: its shapes, no class in them, for the user alone."""

import itertools
import os
import pickletools
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fakes.loopai import read_events, read_result

from loopai_trainer.files import event_log, legacy_pickle
from loopai_trainer.files.legacy_pickle import EventPickle, stream_event, write_result
from loopai_trainer.files.run_dir import RunDir, TaskDir

HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def task(tmp_path):
    return TaskDir(str(tmp_path / "out"), "demo")


@pytest.fixture
def make(task):
    def made(version: str, folder: Path | None = None) -> RunDir:
        run = RunDir(str(folder), version, task) if folder else task.run(version)
        os.makedirs(run.path)
        return run

    return made


@pytest.fixture(autouse=True)
def seconds(monkeypatch):
    """Each event has a second of its own."""
    clock = itertools.count(1_700_000_000.0)
    monkeypatch.setattr("time.time", lambda: next(clock))


def add(run, node, status="running", **more):
    event_log.append(run.events, version_id=run.version_id, task_id="demo", attempt=1, node=node, status=status, **more)


def globals_of(path):
    """Names that unpickling would look up and call."""
    with open(path, "rb") as file:
        return [
            name.name for name, _, _ in pickletools.genops(file) if name.name in ("GLOBAL", "STACK_GLOBAL", "REDUCE")
        ]


def test_loopais_reader_finds_every_version_in_order(make):
    first, second = make("v1"), make("v2")
    add(first, "training", progress=0.25, data={"current_step": 3, "total_steps": 12, "loss": 1.5})
    add(second, "starting", message="training is being started")
    add(first, "completed", "completed", error=None)
    assert EventPickle(first).write(1.0) is True
    path = Path(first.event_pickle)
    assert path == Path(first.task.path, "trainer.pkl")
    events = read_events(path)
    assert [(event.version_id, event.node, event.status) for event in events] == [
        ("v1", "training", "running"), ("v2", "starting", "running"), ("v1", "completed", "completed"),
    ]  # fmt: skip
    assert {(event.current, event.context_id) for event in events} == {("trainer", "demo")}
    step = events[0]
    assert (step.progress, step.progress_num, step.total) == (0.25, 3, 12)
    assert step.message == "training: step 3 of 12"
    assert step.time.endswith("Z")
    assert globals_of(path) == []
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_run_directory_elsewhere_counts_while_it_is_our_own(make, tmp_path):
    inside, outside = make("v1"), make("v2", tmp_path / "elsewhere")
    add(inside, "training")
    add(outside, "training")
    EventPickle(outside).write(1.0)
    assert [event.version_id for event in read_events(Path(outside.event_pickle))] == ["v1", "v2"]


def test_only_what_has_changed_is_read_again(make, monkeypatch):
    first, second = make("v1"), make("v2")
    add(first, "training")
    add(second, "training")
    read = []
    real = event_log.read_from
    monkeypatch.setattr(event_log, "read_from", lambda path, offset: read.append((path, offset)) or real(path, offset))
    pickle_file = EventPickle(second)
    pickle_file.write(1.0)
    size = os.path.getsize(second.events)
    add(second, "finalizing", "finalizing")
    pickle_file.write(1.0)
    assert read == [(first.events, 0), (second.events, 0), (second.events, size)]
    assert [event.node for event in read_events(Path(second.event_pickle))] == ["training", "training", "finalizing"]
    os.truncate(second.events, 0)  # somebody began anew
    add(second, "starting")
    pickle_file.write(1.0)
    assert [event.node for event in read_events(Path(second.event_pickle))] == ["training", "starting"]


def test_no_more_events_than_loopai_can_be_asked_to_read(make, monkeypatch):
    run = make("v1")
    monkeypatch.setattr(legacy_pickle, "MAX_EVENTS", 3)
    for number in range(5):
        add(run, f"phase{number}")
    EventPickle(run).write(1.0)
    assert [event.node for event in read_events(Path(run.event_pickle))] == ["phase2", "phase3", "phase4"]


def test_somebody_who_holds_the_lock_is_not_waited_for_longer_than_asked(make):
    run = make("v1")
    add(run, "training")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, run.event_pickle + ".lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"held\n"
    assert EventPickle(run).write(0.1) is False
    assert not os.path.exists(run.event_pickle)
    holder.communicate(b"\n", timeout=30.0)
    assert EventPickle(run).write(0.1) is True


def test_a_removed_task_folder_is_not_made_again(task):
    run = task.run("v1")
    with pytest.raises(FileNotFoundError):
        EventPickle(run).write(0.1)
    assert not os.path.exists(task.path)


def test_an_event_has_the_fields_that_the_reader_knows_and_no_other():
    made = stream_event({"seq": 1, "schema_version": 1, "attempt": 1, "node": "training", "data": ["no mapping"]})
    assert set(made) == set(legacy_pickle._FIELDS)
    assert (made["message"], made["progress_num"]) == ("training", None)


def test_the_result_is_the_state_after_the_run(make):
    run = make("v1")
    write_result(run, "demo", {"update_model_path": "/best", "trainer_training_success": True})
    path = Path(run.path, "worker_result.pkl")
    state = read_result(path)
    assert state == {
        "task_id": "demo",
        "output_dir": os.path.dirname(run.task.path),
        "trainer": {"update_model_path": "/best", "trainer_training_success": True},
    }
    assert globals_of(path) == []
    assert path.stat().st_mode & 0o777 == 0o600


def test_two_workers_of_a_task_never_leave_half_a_file(make):
    runs = [make("v1"), make("v2")]
    add(runs[0], "starting")
    EventPickle(runs[0]).write(5.0)

    def work(run):
        pickle_file = EventPickle(run)
        for number in range(20):
            add(run, f"phase{number}")
            assert pickle_file.write(30.0)

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert read_events(Path(runs[0].event_pickle))
    for thread in threads:
        thread.join()
    nodes = [(event.version_id, event.node) for event in read_events(Path(runs[0].event_pickle))]
    assert {("v1", "phase19"), ("v2", "phase19")} <= set(nodes)
    assert len(nodes) == 41
