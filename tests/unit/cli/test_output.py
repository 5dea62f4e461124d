"""Closed, full and broken streams: the program still does its work, and says with its exit code what it could not say."""

import json
import subprocess
import sys

import pytest
from fakes.runs import PreparedRun

TRAINER = f"{sys.executable} -m loopai_trainer"


def shell(command, run):
    return subprocess.run(
        ["/bin/bash", "-c", command], capture_output=True, text=True, env=run.env, cwd=run.root, check=False
    )


@pytest.fixture
def run(tmp_path):
    return PreparedRun(tmp_path)


@pytest.mark.parametrize(
    "words", ["status {path} --json", "status {path}", "list", "guide --json", "--version", "events {path}"]
)
def test_a_closed_stderr_and_stdin_change_nothing(run, words):
    words = words.format(path=run.run.path)
    plain = shell(f"{TRAINER} {words}", run)
    closed = shell(f"{TRAINER} {words} 2>&- <&-", run)
    assert (closed.returncode, closed.stdout) == (plain.returncode, plain.stdout)
    assert plain.returncode == 0


@pytest.mark.parametrize("words", ["status {path} --json", "list", "guide"])
def test_a_closed_stdout_is_no_crash(run, words):
    done = shell(f"{TRAINER} {words.format(path=run.run.path)} >&-", run)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["status {path} --json", "list", "guide", "--version"])
def test_a_full_device_is_told_by_the_exit_code(run, words):
    done = shell(f"{TRAINER} {words.format(path=run.run.path)} >/dev/full", run)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["status {path}", "list --json", "guide", "guide --json"])
def test_a_reader_that_has_seen_enough_is_no_failure(run, words):
    done = shell(f"set -o pipefail; {TRAINER} {words.format(path=run.run.path)} | true", run)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_a_run_with_closed_streams_is_a_run(run):
    done = shell(f"{TRAINER} run-prepared {run.run.config} --sha256 {run.sha256} --json 2>&- <&-", run)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "completed")
    assert run.starts == 1
