"""What people see is complete at 80 columns, has no colour where none is wanted, and never breaks on odd text."""

import pytest

from loopai_trainer.cli import views
from loopai_trainer.cli.output import Output
from loopai_trainer.cli.progress import RunProgress, duration_text, state_line
from loopai_trainer.errors import DataError
from loopai_trainer.operations.answer import Answer, failure
from loopai_trainer.records import Problem

YAML = "loopai:\n  path: /a/very/long/path" + "/and" * 60 + "\nlearning_rate: 1.0e-05\nnote: '[red]not markup[/]'\n"
DATA = {
    "trainer_version_id": "v1",
    "config_path": "/run/training_config.yaml",
    "config_yaml": YAML,
    "config_sha256": "a" * 64,
    "warnings": [
        {"severity": "warning", "code": "TRUST", "where": "config", "path": None, "line": None, "row": None, "field": "x",
         "message": "[bold]danger", "hint": "look", "origin": None}
    ],
    "summary": {"model": "/m" * 60, "lora": None, "flags": [True, 0.5], "map": {"a": 1}},
    "counts": {"train": {"input": 10, "usable": 8, "rejected": 2}, "validation": None},
    "next_command": "trainer run-prepared /run/training_config.yaml --sha256 " + "a" * 64,
}  # fmt: skip


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_the_approval_view_shows_every_line_of_the_yaml_flags_first(capsys):
    views.show(Answer("prepare", DATA, message="prepared"), Output())
    text = capsys.readouterr().out
    assert YAML in text.replace("\n>> ", "")  # a mark stands where a line does not fit
    assert text.index("danger") < text.index("loopai:") < text.index("a" * 64)
    assert "\x1b" not in text
    assert "8 rows accepted of 10, 2 left out" in text
    assert DATA["next_command"] in text
    assert "[bold]danger" in text


def test_a_refusal_names_place_reason_and_hint(capsys):
    problems = [
        Problem("error", "EMPTY", "train", f"m{n} [x]", "h", path="/d.jsonl", line=n, field="output")
        for n in range(1, 31)
    ]
    problems.append(Problem("error", "EMPTY", "train", "m", path="/d.parquet", row=0))
    views.show(failure("prepare", DataError("bad [/rows]", hint="do this", problems=problems)), Output())
    text = capsys.readouterr().err
    assert "bad [/rows]" in text
    assert "/d.jsonl:3 [output]: m3 [x]" in text
    assert "and 11 more findings" in text
    assert "hint: do this" in text


@pytest.mark.parametrize(("command", "said"), [("trainer", "trainer: gone"), ("wait", "trainer wait: gone")])
def test_a_refusal_begins_with_what_was_called(command, said, capsys):
    views.show(failure(command, DataError("gone", hint="look")), Output())
    assert capsys.readouterr().err.startswith(said)


def test_any_data_has_a_view(capsys):
    views.show(Answer("setup", {"backend": "x", "versions": {"a": "1"}}, message="ready"), Output())
    assert "ready" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ({"status": "queued"}, "queued"),
        ({"phase": "loading_data"}, "loading data"),
        (
            {
                "phase": "training",
                "current_step": 3,
                "total_steps": 12,
                "loss": 5.1234567,
                "learning_rate": 1e-5,
                "eta_s": 75,
            },
            "training, step 3/12, loss 5.123, lr 1e-05, about 1 min left",
        ),
        ({"phase": "training", "current_step": 3, "total_steps": None}, "training, step 3/?"),
        (
            {"phase": "training", "status": "running", "error": {"code": "C", "detail": "it hangs", "hint": "look"}},
            "training: it hangs; look",
        ),
        ({"phase": "failed", "status": "failed", "error": {"detail": "told by the answer"}}, "failed"),
    ],
)
def test_the_progress_line(state, line):
    assert state_line(state) == line


@pytest.mark.parametrize(("seconds", "text"), [(3, "3 s"), (59.6, "1 min"), (7800, "2 h 10 min"), (-5, "0 s")])
def test_durations(seconds, text):
    assert duration_text(seconds) == text


def test_elsewhere_than_on_a_terminal_a_line_a_phase(capsys):
    progress = RunProgress(Output())
    for step in range(5):
        progress.update({"phase": "training", "current_step": step})
    stopped = {"phase": "training", "status": "running", "error": {"code": "C", "detail": "it hangs"}}
    for _ in range(2):
        progress.update(stopped)
    progress.update({"phase": "finalizing"})
    progress.close()
    assert capsys.readouterr().err.splitlines() == ["training, step 0/?", "training: it hangs", "finalizing"]
    quiet = RunProgress(Output(quiet=True))
    quiet.update({"phase": "training"})
    assert capsys.readouterr().err == ""


def test_a_path_that_is_wider_than_the_page_can_be_copied(capsys):
    model = "/models" + "/and" * 60
    run = {"trainer_version_id": "v1", "status": "completed", "update_model_path": model}
    views.show(Answer("wait", run, message="v1 is completed"), Output())
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "v1 is completed",
        "trainer_version_id  v1",
        "status              completed",
        f"update_model_path   {model}",
    ]


@pytest.mark.parametrize("state", ["failed", "orphaned"])
def test_status_says_what_to_do_and_how_the_log_ended(state, capsys):
    error = {
        "code": "C",
        "detail": "gone",
        "hint": "do [this]",
        "next_command": "trainer x",
        "log_tail": ["one", "[/b] two"],
    }
    run = {"trainer_version_id": "v1", "status": state, "error": error}
    views.show(Answer("status", run, message=f"v1 is {state}: gone"), Output())
    assert capsys.readouterr().out.splitlines()[-5:] == [
        "the last 2 lines of its log:",
        "  one",
        "  [/b] two",
        "hint: do [this]",
        "next:  trainer x",
    ]


def test_status_of_a_run_that_goes_on_gives_no_such_advice(capsys):
    error = {"code": "C", "detail": "stopped", "hint": "do this"}
    run = {"trainer_version_id": "v1", "status": "running", "error": error}
    views.show(Answer("status", run, message="v1 is running: stopped"), Output())
    assert "next:" not in capsys.readouterr().out


def test_the_hint_of_a_single_finding_stands_once(capsys):
    problem = Problem("error", "EMPTY", "train", "m", "do this", path="/d.jsonl", line=1)
    views.show(failure("prepare", DataError("bad", hint="do this", problems=[problem])), Output())
    assert capsys.readouterr().err.count("do this") == 1
