"""The skill's launcher: it becomes the program wherever that is, and says how to install it where it is not."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from fakes.skill import ROOT, SKILL

from loopai_trainer.version import __version__

LAUNCHER = SKILL / "scripts" / "trainer.py"


def call(*words, launcher=LAUNCHER, python=(sys.executable,), path="/nowhere", **environ):
    return subprocess.run(
        [*python, str(launcher), *words],
        env={"PATH": path, "LANG": "C.UTF-8", **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def program(folder, name):
    folder.mkdir()
    file = folder / name
    file.write_text('#!/bin/sh\necho "$0" "$@"\nexit 7\n')
    file.chmod(0o755)
    return str(folder)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Python without any package."""
    root = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "env")], check=True)
    return (str(root / "env" / "bin" / "python"),)


def test_it_needs_the_standard_library_alone():
    tree = ast.parse(LAUNCHER.read_text())
    imported = {
        name.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    assert imported <= sys.stdlib_module_names
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not {"subprocess", "urllib", "http", "socket"} & imported  # it could not install anything if it wanted to


def needed():
    names = {"__name__": "launcher"}
    exec(compile(LAUNCHER.read_text(), "launcher", "exec"), names)
    return names["NEEDED"]


def test_it_looks_for_all_that_the_program_depends_on():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.match(r"[\w-]+", name)[0] for name in project["dependencies"]}
    assert {{"yaml": "pyyaml"}.get(name, name) for name in needed()} == wanted


def test_the_program_on_the_path_comes_first_with_its_words_and_exit_code(tmp_path):
    done = call("status", "a b", "--json", path=program(tmp_path / "bin", "loopai-trainer"))
    assert (done.returncode, done.stdout) == (7, f"{tmp_path}/bin/loopai-trainer status a b --json\n")


def test_another_program_that_is_called_trainer_is_not_taken_for_it(tmp_path):
    done = call("--version", path=program(tmp_path / "bin", "trainer"))
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n")


def test_the_package_of_this_python(tmp_path):
    alone = tmp_path / "trainer.py"
    shutil.copy(LAUNCHER, alone)
    done = call("--version", launcher=alone)
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n")
    refused = call("status", "none", "--json", launcher=alone, HOME=str(tmp_path))
    assert refused.returncode == 2


def test_the_folder_of_a_plugin(bare, tmp_path):
    """A plugin is a copy of the repository that nobody installed; the packages that it needs are elsewhere."""
    for name in ("loopai_trainer", "skills"):
        shutil.copytree(ROOT / name, tmp_path / "plugin" / name, ignore=shutil.ignore_patterns("__pycache__"))
    launcher = tmp_path / "plugin" / "skills" / "loopai-trainer" / "scripts" / "trainer.py"
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in needed():
        (packages / f"{name}.py").touch()
    done = call("--version", launcher=launcher, python=bare, PYTHONPATH=str(packages))
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n"), done.stderr


@pytest.mark.parametrize("words", [("status", "v1", "--json"), ("--help",), ()])
def test_without_the_program_it_says_how_to_install_it_and_installs_nothing(bare, tmp_path, words):
    skill = tmp_path / "project" / ".agents" / "skills" / "loopai-trainer"
    shutil.copytree(SKILL, skill, ignore=shutil.ignore_patterns("__pycache__"))
    before = sorted(tmp_path.rglob("*"))
    done = call(*words, launcher=skill / "scripts" / "trainer.py", python=bare)
    assert done.returncode == 69
    assert "is not installed" in done.stderr
    assert "python3 -m pip install FOLDER" in done.stderr
    assert ("usage: trainer.py" in done.stdout) == (words != ("status", "v1", "--json"))
    assert sorted(tmp_path.rglob("*")) == before


def test_in_a_checkout_that_nobody_installed_it_names_the_checkout(bare):
    done = call("--version", python=bare)
    assert done.returncode == 69
    assert f"python3 -m pip install {ROOT}\n" in done.stderr
