"""What people see of a dev run: every check, at 80 columns, whatever stands in the texts."""

import pytest

from loopai_trainer.cli import views
from loopai_trainer.cli.output import Output
from loopai_trainer.errors import DevFailed
from loopai_trainer.operations.answer import Answer

DATA = {
    "verdict": "failed",
    "dev_dir": "/out/task/dev/v1/dev-1",
    "red_flags": ["the agent is code of [your] own"],
    "checks": [
        {"name": "configuration", "outcome": "passed", "detail": "all [of it] " + "word " * 40, "hint": "", "code": ""},
        {"name": "training", "outcome": "failed", "detail": "RuntimeError: [red]no[/]\nsecond line", "hint": "mend it", "code": "EXIT_STATUS"},
        {"name": "evaluation", "outcome": "not_shown", "detail": "", "hint": "", "code": ""},
    ],
    "not_shown": {"resuming": "it begins anew"},
    "next_command": "trainer run-prepared /x --sha256 y",
}  # fmt: skip


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_every_check_is_told(capsys):
    views.show(
        Answer("dev", DATA, message="dev run of v1: failed", error=DevFailed("training: no", hint="mend it")), Output()
    )
    seen = capsys.readouterr()
    lines = seen.out.splitlines()
    assert lines[0] == "dev run of v1: failed"
    assert lines[1] == "    red flag, approved by nobody: the agent is code of [your] own"
    assert "  passed    configuration" in lines
    assert "  failed    training" in lines
    assert "  not shown evaluation" in lines
    assert "    RuntimeError: [red]no[/]" in lines
    assert "    second line" in lines
    assert "    hint: mend it" in lines
    assert "    resuming: it begins anew" in lines
    assert max(map(len, lines)) <= 80
    assert "recorded in /out/task/dev/v1/dev-1" in lines
    assert lines[-1] == "next: trainer run-prepared /x --sha256 y"
    assert "(DEV_FAILED)" in seen.err


def test_what_is_not_there_is_not_told(capsys):
    bare = {**DATA, "red_flags": [], "checks": [], "not_shown": {}, "dev_dir": None, "next_command": ""}
    views.show(Answer("dev", bare, message="dev run of v1: passed"), Output())
    assert capsys.readouterr().out == "dev run of v1: passed\n"
