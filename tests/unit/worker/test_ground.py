"""A run directory that is being deleted, file by file, is told from one that lost a file."""

import os
import shutil

import pytest

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.worker import ground
from loopai_trainer.worker.ground import Ground


@pytest.fixture
def place(tmp_path):
    run = RunDir(str(tmp_path / "v1"))
    os.makedirs(run.path)
    found = Ground(run)
    yield found
    os.close(found.fd)


def at_look(monkeypatch, act):
    """Does `act` when it is waited for the first time."""
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 1:
            act()

    monkeypatch.setattr(ground.time, "sleep", sleep)
    return waits


def test_a_deletion_that_has_come_to_that_file_is_seen_to_its_end(place, monkeypatch):
    waits = at_look(monkeypatch, lambda: (shutil.rmtree(place.run.path), os.mkdir(place.run.path)))
    with pytest.raises(FileNotFoundError):
        place.outlast(place.run.training_lock)
    assert waits


def test_a_file_that_is_there_is_not_waited_for(place, monkeypatch):
    waits = at_look(monkeypatch, lambda: None)
    open(place.run.training_lock, "w").close()
    place.outlast(place.run.training_lock)
    assert not waits
    shutil.rmtree(place.run.path)
    with pytest.raises(FileNotFoundError):
        place.outlast(place.run.training_lock)


def test_a_file_that_is_gone_alone_is_given_a_moment(place, monkeypatch):
    monkeypatch.setattr(ground, "_GOING_S", 0.01)
    place.outlast(place.run.training_lock)
    waits = at_look(monkeypatch, lambda: open(place.run.training_lock, "w").close())
    monkeypatch.setattr(ground, "_GOING_S", 60.0)
    place.outlast(place.run.training_lock)
    assert len(waits) == 1
