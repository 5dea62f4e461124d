"""The guide is whole at 80 columns, in both languages, and shows nothing as markup."""

import pytest

from loopai_trainer.cli import views
from loopai_trainer.cli.output import Output
from loopai_trainer.operations.answer import Answer


def hint(name, **more):
    return {
        "help": f"what {name} is", "flag": "--" + name, "option": name, "environment": [name.upper()],
        "state": f'state["trainer"]["{name}"]', "choices": [], **more,
    }  # fmt: skip


def data(**more):
    return {
        "task_type": "sft", "task_id": "demo", "train_framework": "llamafactory", "train_stage": "sft", "language": "en",
        "ready": False, "missing_fields": ["model"], "user_required_fields": ["model", "data"], "auto_filled_fields": ["seed"],
        "field_hints": {"model": hint("model"), "data": hint("data"), "seed": hint("seed"), "mode": hint("mode", choices=["a", "b"])},
        "defaults": {"seed": 42},
        "settings": {
            "model": {"value": None, "origin": "default"},
            "data": {"value": "/x/[bold]y.jsonl", "origin": "state.trainer.data"},
            "seed": {"value": 42, "origin": "default"},
            "flag": {"value": True, "origin": "--flag"},
        },
        "problems": [{"field": "data", "message": "there is no file /x/y.jsonl", "hint": "give it by --data"}],
        "warnings": [{"message": "there is no setting 'bad_row'", "hint": "did you mean bad_rows?"}],
        "examples": ["trainer prepare --model DIR"], "message": "Still needed: model, data", "next_command": "", **more,
    }  # fmt: skip


@pytest.fixture
def shown(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")

    def show(**more):
        told = data(**more)
        views.show(Answer("guide", told, message=told["message"]), Output())
        return capsys.readouterr().out

    return show


def test_what_is_needed_comes_first_with_reason_and_ways(shown):
    text = shown()
    assert "Task demo: llamafactory/sft" in text
    assert text.index("Needed from you") < text.index("Given") < text.index("Filled in")
    assert "model: what model is" in text
    assert 'give it by --model VALUE or MODEL or state["trainer"]["model"]' in text
    assert "data = /x/[bold]y.jsonl (from state.trainer.data): there is no file /x/y.jsonl" in text
    assert "from --flag" in text
    assert "did you mean bad_rows?" in text
    assert "trainer prepare --model DIR" in text


def test_a_complete_one_asks_for_confirmation(shown):
    text = shown(
        ready=True, missing_fields=[], user_required_fields=[], problems=[], message="Ready to prepare.",
        next_command="trainer prepare --model m",
    )  # fmt: skip
    assert "Needed" not in text
    assert text.endswith("Ready to prepare.\nAre these inputs right? Then:\n  trainer prepare --model m\n")


def test_chinese(shown):
    text = shown(
        language="zh", missing_fields=["mode"], user_required_fields=["mode"], problems=[], message="还需要：mode"
    )
    for said in (
        "任务 demo：llamafactory/sft",
        "需要您提供",
        "已提供",
        "自动填充",
        "来自 --flag",
        "可选值：a, b",
        "示例：",
    ):
        assert said in text
    assert "Given" not in text
