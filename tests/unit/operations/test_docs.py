"""Every page that agents are sent to can be read where there is no repository, as the installed version has it."""

import json
import re

import pytest
from fakes.answers import checked
from fakes.skill import REFERENCES, SKILL

from loopai_trainer.cli import app
from loopai_trainer.errors import NotFound
from loopai_trainer.files import skill_pages
from loopai_trainer.operations.docs import docs

TOPICS = ["skill", "approval", "config-keys", "errors", "grpo", "recovery", "sft", "exit-codes"]


def test_a_reference_is_printed_as_it_stands(capsys):
    for topic in TOPICS[1:-1]:
        assert app.run(["docs", topic]) == 0
        assert capsys.readouterr().out == (REFERENCES / f"{topic}.md").read_text()


def test_the_skill_is_printed_without_its_header():
    text = (SKILL / "SKILL.md").read_text()
    shown = docs("skill").data["text"]
    assert shown.startswith("# LoopAI Trainer\n")
    assert text.endswith(shown)


def test_exit_codes_are_the_table_alone():
    text = docs("exit-codes").data["text"]
    assert text.startswith("## Exit codes\n| code |")
    assert len(re.findall(r"^\| \d+ \|", text, re.MULTILINE)) == 17
    assert text.count("## ") == 1


def test_without_a_topic_each_has_a_line(capsys):
    assert app.run(["docs", "--json"]) == 0
    data = checked(json.loads(capsys.readouterr().out))["data"]
    assert data["topic"] is None
    assert re.findall(r"^trainer docs (\S+) +\S", data["text"], re.MULTILINE) == TOPICS


def test_the_help_names_every_topic():
    from loopai_trainer.cli import docs as verb

    assert set(TOPICS) <= set(re.findall(r"[a-z-]+", verb.TOPICS))


@pytest.mark.parametrize("topic", ["nothing", "", "../../README", "SKILL"])
def test_no_other_file_is_printed(topic, capsys):
    assert app.run(["docs", topic]) == 2
    assert "choose one of: skill" in capsys.readouterr().err


def test_a_wheel_has_them_inside_the_package(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages" / "loopai_trainer" / "skill" / "references"
    folder.mkdir(parents=True)
    (folder.parent / "SKILL.md").write_text("---\nname: x\n---\n# X\n## Exit codes\nall\n")
    (folder / "sft.md").write_text("# S\n")
    monkeypatch.setattr(skill_pages, "_PACKAGE", str(folder.parents[1]))
    assert (docs("sft").data["text"], docs("exit-codes").data["text"]) == ("# S\n", "## Exit codes\nall\n")


def test_an_installation_without_pages_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(skill_pages, "_PACKAGE", str(tmp_path / "a" / "b"))
    with pytest.raises(NotFound, match="has no pages"):
        docs("skill")
