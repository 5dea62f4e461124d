"""Closed, full and broken streams: the program still does its work, and says with its exit code what it could not say."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.answers import checked, checked_line
from fakes.runs import PreparedRun

from loopai_trainer.files.event_log import append
from loopai_trainer.host import locks

TRAINER = f"{sys.executable} -m loopai_trainer"


def shell(command, run):
    return subprocess.run(
        ["/bin/bash", "-c", command], capture_output=True, text=True, env=run.env, cwd=run.root, check=False
    )


@pytest.fixture
def run(tmp_path):
    prepared = PreparedRun(tmp_path)
    Path(prepared.run.train_log).write_text("a line\n" * 3)
    append(prepared.run.events, version_id="v1", task_id="task", attempt=1, node="starting", status="running")
    return prepared


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


@pytest.mark.parametrize(
    "words",
    [
        *("status {path} --json", "list", "guide", "--version", "logs {path} -f", "events {path} -f --json"),
        *("--help", "logs -h", "logs {path}"),
    ],
)
def test_a_full_device_is_told_by_the_exit_code(run, words):
    done = shell(f"{TRAINER} {words.format(path=run.run.path)} >/dev/full", run)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert words == "--version" or done.stderr.endswith("could not be written: No space left on device\n")


@pytest.mark.parametrize("words", ["watch {path}", "watch {path} --json", "status {path}"])
def test_an_ended_run_on_a_full_device(run, words):
    assert run.run_to_end()[0] == 0
    done = shell(f"{TRAINER} {words.format(path=run.run.path)} >/dev/full", run)
    assert done.returncode == 1
    assert done.stderr == "trainer: the answer could not be written: No space left on device\n"


@pytest.mark.parametrize(
    "words", ["status {path}", "list --json", "guide", "guide --json", "logs {path} -f", "events {path} -f --json"]
)
def test_a_reader_that_has_seen_enough_is_no_failure(run, words):
    done = shell(f"set -o pipefail; {TRAINER} {words.format(path=run.run.path)} | true", run)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_a_run_with_closed_streams_is_a_run(run):
    done = shell(f"{TRAINER} run-prepared {run.run.config} --sha256 {run.sha256} --json 2>&- <&-", run)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "completed")
    assert run.starts == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("words", ["logs", "events"])
def test_a_polite_signal_ends_the_following_alone(run, words, number):
    held = locks.try_exclusive(run.run.run_lock)  # as a worker does: the run goes on
    follower = run.call(words, run.run.path, "-f")
    assert follower.stdout.readline()
    os.kill(follower.pid, number)
    _, told = follower.communicate(timeout=60)
    os.close(held)
    assert follower.returncode == 130
    assert b"INTERRUPTED" in told
    assert b"Traceback" not in told


def in_deleted_folder(run, words):
    return shell(f"mkdir gone && cd gone && rmdir ../gone && {TRAINER} {words}", run)


@pytest.mark.parametrize("words", ["status {path} --json", "list", "logs {path}", "wait {path} --timeout 1 --json"])
def test_a_deleted_working_folder_hides_no_run(run, words):
    words = words.format(path=run.run.path)
    plain, deleted = shell(f"{TRAINER} {words}", run), in_deleted_folder(run, words)
    assert "Traceback" not in deleted.stderr
    if words != "list":  # which looks into ./outputs
        assert (deleted.returncode, deleted.stdout) == (plain.returncode, plain.stdout)


def test_a_run_is_started_from_a_deleted_working_folder(run):
    done = in_deleted_folder(run, f"run-prepared {run.run.config} --sha256 {run.sha256} --json")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "completed"), done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_deleted_working_folder_leaves_without_meaning_is_refused(run):
    done = in_deleted_folder(run, "analyze v1 --json")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, "NO_WORKING_FOLDER")
    assert "Traceback" not in done.stderr


def test_a_file_of_the_wrong_kind_is_named_without_a_traceback(run):
    os.unlink(run.run.train_log)
    os.mkdir(run.run.train_log)
    done = shell(f"{TRAINER} logs {run.run.path} --json", run)
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (1, "FILE_UNUSABLE")
    assert run.run.train_log in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("words", ["logs {path}", "logs {path} -f"])
def test_a_terminal_of_another_encoding_is_no_crash(run, words, encoding):
    text = "\u00e4 \u6f22 \U0001f600"
    Path(run.run.train_log).write_text(text + "\n")
    run.extra_env = {"PYTHONIOENCODING": encoding}
    lines = run.call(*words.format(path=run.run.path).split(), "--json").communicate(timeout=60)[0].decode(encoding)
    if words.endswith("-f"):
        assert checked_line("log-line", json.loads(lines.splitlines()[-1]))["line"] == text
    else:
        assert checked(json.loads(lines))["data"]["lines"] == [text]
    shown = run.call(*words.format(path=run.run.path).split()).communicate(timeout=60)[0].decode(encoding)
    assert "\\ud83d\\ude00" in shown or "\U0001f600" in shown
