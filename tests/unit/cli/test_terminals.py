"""The program in the shells and terminals that people have: completion, 80 columns, no colour, pipes, TERM=dumb."""

import os
import re
import subprocess
import sys

import pytest
import typer

from loopai_trainer.backends.verl_grpo.fields import FIELDS as VERL
from loopai_trainer.cli import app, completion
from loopai_trainer.cli.output import Output
from loopai_trainer.cli.progress import ReplacedLine, RunProgress
from loopai_trainer.rules import settings

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


@pytest.mark.parametrize("shell", TYPED)
def test_completion_offers_what_an_argument_takes(shell):
    typed = {name: value.replace("trainer run", "trainer setup ") for name, value in TYPED[shell].items()}
    done = called(
        _TRAINER_COMPLETE=f"complete_{shell}", **{**typed, **({"COMP_CWORD": "2"} if shell == "bash" else {})}
    )
    assert done.stderr == ""
    assert {"llamafactory", "verl", "agentlightning"} <= set(re.findall(r"[a-z-]+", done.stdout))


def test_what_is_completed_is_what_the_program_takes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPAI_TRAINER_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("OUTPUT_DIR", raising=False)
    assert completion.versions("") == []
    for version in ("0199-a", "0199-b", "other"):
        (tmp_path / "outputs" / "task" / "trainer" / version).mkdir(parents=True)
    assert completion.versions("0199") == ["0199-a", "0199-b"]
    assert completion.templates("cpu_smoke") == ["cpu_smoke_full", "cpu_smoke_lora"]
    assert completion.topics("e") == ["errors", "exit-codes"]
    assert completion.backends("l") == ["llamafactory"]
    assert completion.schemas("watch") == ["watch-line"]
    assert completion.words("rules", "llm")("x") == []


def test_choices_are_completed_as_the_settings_have_them():
    parameters = typer.main.get_command(app.app).commands["prepare"].params
    fields = {field.flag: field.choices for field in (*settings.GENERAL, *VERL) if field.flag and field.choices}
    for parameter in parameters:
        choices = fields.get(parameter.opts[0])
        if choices and "|" in (parameter.metavar or ""):
            assert parameter.metavar == "|".join(choices)
            assert [item.value for item in parameter.shell_complete(None, "")] == list(choices)


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


def test_progress_outlives_its_terminal(monkeypatch):
    """Behind `nohup` or `trap '' HUP` the caller stays, and goes on waiting for its run."""
    master, slave = os.openpty()
    with open(slave, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        bar, line = RunProgress(Output()), ReplacedLine(Output())
        state = {"phase": "training", "current_step": 1, "total_steps": 9, "loss": 1.5}
        bar.update(state)
        line.live("hashing")
        os.close(master)
        with pytest.raises(OSError):
            os.write(slave, b"x")
        for step in (2, 3):
            bar.update({**state, "current_step": step})
            line.live("hashing on")
            line.say("done")
        bar.close()
        monkeypatch.undo()
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), slave)  # for what is left in its buffer
