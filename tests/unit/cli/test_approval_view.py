import io

import pytest

from loopai_trainer.cli import approval_view, views
from loopai_trainer.cli.output import Output
from loopai_trainer.cli.page import Page
from loopai_trainer.operations.answer import Answer

CHANGED = [
    {"key": "lr", "kind": "changed", "from": 1e-05, "to": 2e-05},
    {"key": "bf16", "kind": "added", "from": None, "to": True},
    {"key": "deepspeed", "kind": "removed", "from": "{run_dir}/inputs/ds.json", "to": None},
    {"key": "template", "kind": "changed", "from": "qwen", "to": "qwen [bold]3[/]"},
    {"key": "loopai.inputs.train.sha256", "kind": "changed", "from": "a" * 64, "to": "b" * 64},
    {"key": "note", "kind": "changed", "from": "x\rlr: 1", "to": ""},
]
AGAINST = {"version_id": "v1", "round": 3, "config_sha256": "c" * 64, "approved_at": 1.0}


@pytest.fixture
def screen():
    stream = io.StringIO()
    out = Page(Output(no_color=True), stream)
    out.screen = stream.getvalue
    return out


def test_one_line_a_key_and_three_for_long_values(screen):
    approval_view.changes(screen, CHANGED)
    assert screen.screen().splitlines() == [
        "  ~ lr: 1.0e-05 -> 2.0e-05",
        "  + bf16: true",
        "  - deepspeed: '{run_dir}/inputs/ds.json'",
        "  ~ template: qwen -> 'qwen [bold]3[/]'",
        "  ~ loopai.inputs.train.sha256",
        f"      from: {'a' * 64}",
        f"      to:   {'b' * 64}",
        "  ~ note: 'x\\rlr: 1' -> ''",
    ]


def test_what_changed_since_the_last_approved_round(screen):
    approval_view.changes_since(screen, None)
    assert screen.screen() == ""
    approval_view.changes_since(screen, {"against": AGAINST, "changed": []})
    approval_view.changes_since(screen, {"against": AGAINST, "changed": None})
    text = screen.screen()
    assert "Changed since round 3 (v1), which was approved:\n  nothing\n" in text
    assert "  not known: that round's YAML is gone\n" in text


def test_the_yaml_is_shown_byte_for_byte_unless_a_terminal_would_hide_something(screen):
    approval_view.yaml(screen, "/run/training_config.yaml", "a: '[bold]x[/]'\nb: 问题\n")
    assert screen.screen() == "\n/run/training_config.yaml\na: '[bold]x[/]'\nb: 问题\n"
    approval_view.yaml(screen, "/run/x", "a: 1 \rb: 2\n")
    assert "it holds characters that a terminal does not show" in screen.screen()
    assert "a: 1 \\x0db: 2\n" in screen.screen()


def test_a_diffs_answer(screen):
    data = {"against": AGAINST, "changed": CHANGED[:1], "unified": "--- v1\n+++ v2\n-lr: [1]\n+lr: \x1b[2J\n"}
    approval_view.diff(screen, data, "1 key differs")
    text = screen.screen()
    assert text.startswith("1 key differs\n  ~ lr:")
    assert text.endswith("--- v1\n+++ v2\n-lr: [1]\n+lr: \\x1b[2J\n")
    approval_view.diff(screen, {"against": None, "changed": [], "unified": ""}, "nothing to compare")
    assert screen.screen().endswith("nothing to compare\n")


@pytest.mark.parametrize(("count", "said"), [(0, ""), (1, "1 warning stands above"), (2, "2 warnings stand above")])
def test_warnings_that_scrolled_by_are_called_to_mind(screen, count, said):
    approval_view.remind(screen, [{}] * count)
    assert said in screen.screen()
    assert bool(said) == bool(screen.screen())


def test_an_approvals_answer(screen):
    record = {"config_sha256": "c" * 64, "version_id": "v1", "round": 2, "expires_at": 86400.0}
    approval_view.approved(screen, {"approval": record, "next_command": "trainer run-prepared x"}, "not this")
    assert screen.screen().splitlines() == [
        "approved v1 (round 2); it may be started once, until 1970-01-02 00:00 UTC",
        f"SHA-256  {'c' * 64}",
        "To start exactly this, once:",
        "  trainer run-prepared x",
    ]


def test_the_whole_view_in_chinese(monkeypatch, capsys):
    monkeypatch.setenv("LOOPAI_TRAINER_LANGUAGE", "zh_CN.UTF-8")
    warning = {"severity": "warning", "code": "X", "where": "config", "path": None, "line": None, "row": None,
               "field": None, "message": "look", "hint": "do", "origin": None}  # fmt: skip
    data = {
        "trainer_version_id": "v1", "config_path": "/run/training_config.yaml", "config_yaml": "a: 1\n", "config_sha256": "a" * 64,
        "warnings": [warning, warning], "summary": {"learning_rate": 1e-5},
        "counts": {"train": {"input": 10, "usable": 8, "rejected": 2}, "validation": {"input": 2, "usable": 2, "rejected": 0}},
        "diff": {"against": AGAINST, "changed": CHANGED[:1]}, "next_command": "trainer run-prepared x",
    }  # fmt: skip
    views.show(Answer("prepare", data, message="prepared v1"), Output())
    chinese = capsys.readouterr().out
    said = (
        "警告", "建议：", "已准备 v1", "与已审批的第 3 轮（v1）相比，改动如下：", "train：共 10 行，采用 8 行，剔除 2 行",
        "validation：共 2 行，采用 2 行", "YAML 上方有 2 条警告。", "请通读上面的 YAML。", "别无其他，请执行：",
    )  # fmt: skip
    for words in said:
        assert words in chinese
    assert "a: 1\n" in chinese
    views.show(Answer("prepare", data, message="prepared v1"), Output(language="en"))
    english = capsys.readouterr().out
    assert "Read the YAML above. To run exactly this, and nothing else:" in english
    assert "警告" not in english
