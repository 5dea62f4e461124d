"""The pages for people: codes, settings, templates and files that they name exist, and they say no exit code wrongly."""

import re

import pytest
from fakes.skill import ROOT, codes, settings, spans

from loopai_trainer import errors
from loopai_trainer.files import templates

SOURCES = "\n".join(path.read_text() for path in sorted((ROOT / "loopai_trainer").rglob("*.py")))
PAGES = [
    ROOT / "docs" / f"{name}.md"
    for name in ("approval", "sft", "grpo", "operations", "troubleshooting", "tutorial", "scripts", "loopai")
    if (ROOT / "docs" / f"{name}.md").exists()
]
KNOWN_EXITS = {kind.exit_code for kind in vars(errors).values() if hasattr(kind, "exit_code")} | {0, 10}


def by_name(page):
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_codes_and_variables_exist(page):
    program = set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", SOURCES))
    assert set(codes(page.read_text())) - program == set()


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_exit_codes_exist(page):
    said = re.findall(r"\b[Ee]xit (?:code )?(\d+)((?:, \d+)*(?: (?:or|and) \d+)?)", page.read_text())
    numbers = {int(number) for first, more in said for number in (first, *re.findall(r"\d+", more))}
    assert numbers <= KNOWN_EXITS


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_settings_and_templates_exist(page):
    text = page.read_text()
    names = {field.name for fields in settings().values() for field in fields}
    assert set(re.findall(r"--option ([a-z_]+)=", text)) <= names
    bundled = {template.name for template in templates.list_templates()}
    assert set(re.findall(r"--template ([a-z]\w+)(?![\w.])", text)) <= bundled


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_files_of_a_run_are_those_that_the_program_writes(page):
    found = {
        span.rpartition("/")[2]
        for span in spans(page.read_text())
        if re.search(r"\.(?:json|jsonl|html|txt|md|pkl|log|png)$", span)
    }
    own = {name for name in found if not re.search(r"[*N ]", name)}
    missing = {name for name in own if name not in SOURCES and name not in MADE_UP}
    assert missing == set()


MADE_UP = {"compare.html", "second.txt"}
"""Names that a reader chooses."""
