"""The program in the shells and terminals that people have: completion, 80 columns, no colour, pipes, TERM=dumb."""

import os
import re
import subprocess
import sys

import pytest
import typer

from loopai_trainer.cli import app

COMMANDS = sorted(typer.main.get_command(app.app).commands)
TYPED = {
    "bash": {"COMP_WORDS": "trainer run", "COMP_CWORD": "1"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "trainer run"},
    "fish": {"_TYPER_COMPLETE_ARGS": "trainer run", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


def called(*words, **env):
    command = [sys.executable, "-P", "-m", "loopai_trainer", *words]
    base = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return subprocess.run(command, capture_output=True, text=True, env={**base, **env}, timeout=60, check=False)


@pytest.mark.parametrize("shell", TYPED)
def test_completion_offers_the_commands_that_begin_so(shell):
    done = called(_TRAINER_COMPLETE=f"complete_{shell}", **TYPED[shell])
    assert done.stderr == ""
    words = set(re.findall(r"[a-z-]+", done.stdout))
    assert {"run", "run-prepared"} <= words
    assert not {"doctor", "loopai-trainer"} & words


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns_without_colour(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    assert app.run([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_pipe_gets_no_colour_and_no_progress(tmp_path):
    env = {"LOOPAI_TRAINER_STATE_DIR": str(tmp_path), "TERM": "xterm-256color"}
    for words in ((), ("templates",), ("docs",), ("list",)):
        done = called(*words, **env)
        assert (done.returncode, "\x1b" in done.stdout, done.stderr) == (0, False, "")
