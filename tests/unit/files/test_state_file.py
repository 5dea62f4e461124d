import json
import os
from pathlib import Path

import pytest

from loopai_trainer.files import state_file
from loopai_trainer.files.run_dir import RunDir


@pytest.fixture
def run(tmp_path):
    return RunDir(str(tmp_path / "v1"))


@pytest.fixture(autouse=True)
def folder(run):
    os.mkdir(run.path)


@pytest.mark.parametrize("sync", [True, False])
def test_what_was_written_is_read(run, sync):
    state_file.write(run, {"status": "running", "version_id": "v1"}, sync=sync)
    read = state_file.read(run)
    assert read.damaged == ""
    assert read.state == {"schema_version": 1, "status": "running", "version_id": "v1"}
    assert os.stat(run.run_state).st_mode & 0o777 == 0o600


def test_an_absent_file_is_no_damage(run):
    read = state_file.read(run)
    assert (read.state, read.damaged) == (None, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "torn"),
        ('{"status": "runn', "torn"),
        ("[1]", "torn"),
        ("\x00\xff", "torn"),
        ("{}", "status"),
        ('{"status": "dancing"}', "status 'dancing'"),
        ('{"status": "orphaned"}', "status"),
        ('{"status": "running", "version_id": "v2"}', "version 'v2'"),
        ('{"status": "running", "schema_version": 2}', "schema_version 2"),
        ('{"status": "running", "schema_version": "x"}', "schema_version x"),
        ("[" * 100_000, "torn"),
    ],
)
def test_a_torn_or_foreign_file_is_reported(run, text, why):
    Path(run.run_state).write_bytes(text.encode("latin-1"))
    read = state_file.read(run)
    assert read.state is None
    assert why in read.damaged
    assert run.run_state in read.damaged


def test_a_file_of_an_earlier_version_is_read(run):
    old = {"status": "running", "worker": {"pid": 4190001}, "child": {"pid": 4190002}}
    Path(run.run_state).write_text(json.dumps(old))
    assert state_file.read(run).state == old


def test_a_damaged_file_is_kept_aside(run):
    for number in (1, 2):
        Path(run.run_state).write_text(f"torn {number}")
        kept = state_file.set_aside(run)
        assert kept.endswith(f"run_state.json.damaged-{number}")
        assert Path(kept).read_text() == f"torn {number}"
        assert not os.path.exists(run.run_state)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink(path, path)])
def test_what_is_no_file_is_damage_and_keeps_nobody_waiting(run, make):
    make(run.run_state)
    read = state_file.read(run)
    assert read.state is None
    assert "torn" in read.damaged
