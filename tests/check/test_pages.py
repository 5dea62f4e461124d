"""The pages for people: codes, settings, templates and files that they name exist, and they say no exit code wrongly."""

import re

import pytest
from fakes.skill import REFERENCES, ROOT, codes, settings, spans

from loopai_trainer import errors
from loopai_trainer.files import templates

SOURCES = "\n".join(path.read_text() for path in sorted((ROOT / "loopai_trainer").rglob("*.py")))
PAGES = [
    ROOT / "docs" / f"{name}.md"
    for name in ("approval", "sft", "grpo", "operations", "troubleshooting", "tutorial", "scripts", "loopai")
    if (ROOT / "docs" / f"{name}.md").exists()
]
PAGES += [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md"]
KNOWN_EXITS = {kind.exit_code for kind in vars(errors).values() if hasattr(kind, "exit_code")} | {0, 10}


def by_name(page):
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_codes_and_variables_exist(page):
    tests = (ROOT / "tests" / "conftest.py").read_text() if page.name == "CONTRIBUTING.md" else ""
    program = set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", SOURCES + tests))
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
    own = {name for name in found if not re.search(r"[*N ]", name)} - REPOSITORY
    missing = {name for name in own if name not in SOURCES and name not in MADE_UP}
    assert missing == set()


REPOSITORY = {path.name for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *REFERENCES.glob("*.md"))}
MADE_UP = {"compare.html", "second.txt"}
"""Names that a reader chooses."""


def test_the_readme_leads_to_every_page():
    text = (ROOT / "README.md").read_text()
    pages = [page.name for page in sorted((ROOT / "docs").glob("*.md"))]
    assert [name for name in pages if f"](docs/{name})" not in text] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md"], ids=by_name)
def test_places_of_the_repository_exist(page):
    """`cli/VERB.py` stands for any of its kind; places without a root of their own lie in the package."""
    code = [
        *spans(page.read_text()),
        *re.findall(r"^(?:pytest -q )?((?:scripts|tests)/\S+)", page.read_text(), re.MULTILINE),
    ]
    for place in code:
        if re.fullmatch(
            r"(?:scripts|tests|docs|examples|skills|templates|cli|operations|worker|results|backends|executors|files|host|rules|records)/\S*",
            place,
        ):
            pattern = re.sub(r"\b(?:VERB|NAME|STAGE)\b", "*", place.rstrip("/"))
            assert any([*ROOT.glob(pattern), *(ROOT / "loopai_trainer").glob(pattern)]), f"{page.name}: {place}"


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=by_name)
def test_links_to_a_heading_find_it(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text()):
        text = (page.parent / target).read_text() if target else page.read_text()
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        assert anchor in {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}
