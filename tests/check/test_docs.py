"""Documents and program say the same: commands, flags, exit codes, links."""

import contextlib
import os
import re
import subprocess
from pathlib import Path

import pytest
import typer

from loopai_trainer import errors
from loopai_trainer.cli.app import app

ROOT = Path(__file__).parents[2]
PROGRAM = typer.main.get_command(app)
COMMANDS = PROGRAM.commands
CLI_PAGE = (ROOT / "docs" / "cli.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("skills/**/*.md")])


def flags(command):
    return {name for parameter in command.params for name in parameter.opts if name.startswith("-")}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_flag_stands_in_the_cli_page(name):
    section = re.search(rf"^## trainer {name}$(.*?)(?=^## |\Z)", CLI_PAGE, re.MULTILINE | re.DOTALL)
    assert section, f"docs/cli.md has no section for {name}"
    written = set(re.findall(r"^\| `(-[^`]*)`", section[1], re.MULTILINE))
    documented = {flag for cell in written for flag in re.findall(r"(?<![\w-])--?[a-z][\w-]*", cell)}
    assert documented == flags(COMMANDS[name])


def test_every_flag_of_the_program_itself_stands_there_too():
    section = CLI_PAGE.partition("\n## Without a command\n")[2]
    written = {cell.split()[0] for cell in re.findall(r"^\| `(-[^`]*)`", section, re.MULTILINE)}
    assert written == flags(PROGRAM) - {"--help", "-h"}


def plain(text):
    """Without code marks, links, small print in brackets, capitals and full stop."""
    return re.sub(r" ?\(.*?\)", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text)).replace("`", "").lower().rstrip(".")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_cli_page_says_what_help_says(name):
    section = re.search(rf"^## trainer {name}$(.*?)(?=^## |\Z)", CLI_PAGE, re.MULTILINE | re.DOTALL)[1]
    assert plain(COMMANDS[name].help) in plain(section)
    rows = {flag: text for cell, text in re.findall(r"^\| `(-[^`]*)` \| (.*) \|$", section, re.MULTILINE)
            for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", cell)}  # fmt: skip
    for parameter in COMMANDS[name].params:
        long = [flag for flag in parameter.opts if flag.startswith("--")]
        if long:
            assert plain(rows[long[0]]) == plain(parameter.help), f"{name} {long[0]}"
        else:
            assert plain(parameter.help) in plain(section), f"{name} {parameter.name}"


def test_the_cli_page_knows_no_other_commands():
    assert sorted(re.findall(r"^## trainer (\S+)$", CLI_PAGE, re.MULTILINE)) == sorted(COMMANDS)


CODE = re.compile(r"```.*?\n(.*?)```|`([^`\n]+)`", re.DOTALL)
BUILT_PAGES = [page for page in PAGES if page.name != "interface.md"]
"""The interface lists what is not built yet, and says so."""


@pytest.mark.parametrize("page", BUILT_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_flags_in_pages_exist(page):
    code = "\n".join(block or span for block, span in CODE.findall(page.read_text())).replace("\\\n", " ")
    for name, rest in re.findall(r"\btrainer ([a-z][a-z-]+)([^\n]*)", code):
        assert name in COMMANDS, f"{page.name}: trainer {name}"
        for flag in re.findall(r"(?<=\s)--[a-z][a-z0-9-]*", re.split("[#|)]", rest)[0]):
            assert flag in flags(COMMANDS[name]), f"{page.name}: trainer {name} {flag}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_exit_codes_of_the_error_tree_stand_in_the_skill_and_the_cli_page():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TrainerError)]
    codes = {str(kind.exit_code) for kind in kinds} | {"0", "130"}
    for page in (CLI_PAGE, (ROOT / "skills" / "loopai-trainer" / "SKILL.md").read_text()):
        assert codes <= set(re.findall(r"^\| (\d+) \|", page, re.MULTILINE))
    assert codes <= set(re.findall(r"\d+", PROGRAM.epilog))


def own_files():
    """(path, bytes) of what is committed, or may be; what others make here and take away meanwhile is left out."""
    words = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(words, capture_output=True, check=True).stdout.split(b"\0")
    for path in [ROOT / os.fsdecode(name) for name in names if name]:
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # a repository within this one is a folder
            yield path, path.read_bytes()


def test_nothing_names_a_registry_host_or_a_foreign_path():
    hosts = ("pypi" + ".org", "files.python" + "hosted", "debian" + ".org", "npmjs" + ".org")
    for path, data in own_files():
        for host in hosts:
            assert host.encode() not in data, f"{path}: {host}"
