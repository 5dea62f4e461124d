"""stdout is exactly one JSON document with --json, whatever goes wrong; and people get no traceback for their mistakes."""

import json
import os
import subprocess
import sys

import pytest
from fakes.answers import checked

from loopai_trainer.cli import app, fast
from loopai_trainer.operations import guide


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nonsense", "--json"], 2),
        (["prepare", "--bogus", "--json"], 2),
        (["prepare", "--split-seed", "x", "--json"], 2),
        (["run-prepared", "--json"], 2),
        (["wait", "v1", "--timeout", "-1", "--json"], 2),
        (["status", "no-such-run", "--json"], 2),
        (["inspect", "/no/such/file", "--json"], 2),
        (["run-prepared", "/no/such/file", "--sha256", "0", "--json"], 2),
        (["analyze", "/no/such/folder", "--json"], 2),
        (["setup", "nothing", "--json"], 2),
        (["prepare", "--json", "--task-id", "x", "--option", "nope=1"], 3),
        (["prepare", "--json", "--framework", "nope"], 3),
        (["prepare", "--json"], 3),
    ],
)
def test_usage_and_validation_errors_are_one_json_document(words, code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert app.run(words) == code
    out, err = capsys.readouterr()
    document = checked(json.loads(out))
    assert document["ok"] is False
    assert document["error"]["hint"]
    assert "Traceback" not in err


def test_the_same_for_people_stands_on_stderr(capsys):
    assert app.run(["nonsense"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "hint:" in err


def test_what_was_not_foreseen_is_exit_1_with_its_traceback_on_stderr(capsys, monkeypatch):
    def broken(*_):
        raise RuntimeError("surprise")

    monkeypatch.setattr(guide, "guide", broken)
    assert fast.main(["guide", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "UNHANDLED_EXCEPTION"
    assert "surprise" in err


def test_print_gives_one_value_and_a_refusal_no_value(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert app.run(["prepare", "--print", "config_path"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "missing" in err


@pytest.mark.parametrize("words", [["--help"], ["prepare", "--help"], ["run-prepared", "-h"]])
def test_help(words, capsys):
    app.run(words)
    assert "Usage: trainer" in capsys.readouterr().out


def test_templates_and_an_empty_list(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPAI_TRAINER_STATE_DIR", str(tmp_path))
    assert app.run(["templates"]) == 0
    assert "cpu_smoke_full" in capsys.readouterr().out
    assert app.run(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"] == {"count": 0, "runs": []}
    assert app.run(["list"]) == 0
    assert "no runs yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["--language", "zh", "list", "--json"], "list"),
        (["--json", "run-prepared", "/run/training_config.yaml", "--sha256", "0"], "run-prepared"),
        (["--quiet", "approve", "v1", "--json"], "approve"),
        (["--json", "--no-color", "recover", "v1", "--adopt"], "recover"),
        (["--output-dir", "outputs", "status", "--json"], "status"),
        (["--nonsense", "--json"], "trainer"),
        (["--json", "nonsense"], "trainer"),
        (["nonsense", "--json"], "nonsense"),
    ],
)
def test_a_misplaced_flag_is_refused_in_the_name_of_its_command(words, command, capsys):
    assert fast.main(words) == 2
    document = json.loads(capsys.readouterr().out)
    assert (document["command"], document["error"]["code"]) == (command, "USAGE")
    assert document["error"]["hint"]


@pytest.mark.parametrize(
    ("words", "following"),
    [(["prepare", "--json"], "trainer guide"), (["status", "no-such-run", "--json"], "trainer list")],
)
def test_a_refusal_of_the_first_steps_names_the_next_command(words, following, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPAI_TRAINER_STATE_DIR", str(tmp_path))
    assert app.run(words) != 0
    assert json.loads(capsys.readouterr().out)["error"]["next_command"] == following


@pytest.mark.parametrize("words", [["--help"], ["prepare", "--help"]])
def test_a_reader_of_help_that_has_gone_is_no_failure(words):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "loopai_trainer", *words], stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
