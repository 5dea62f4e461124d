"""Wheel and editable install both find the templates, and the wheel holds what it has to."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRINT = "from loopai_trainer.files import templates; print(*[t.name for t in templates.list_templates()])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def names(cwd, **env):
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PRINT], cwd=cwd, env={**clean, **env}, check=True, capture_output=True, text=True
    )
    return done.stdout.split()


def test_wheel_and_editable_install_find_the_same_templates(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    editable = names(tmp_path)
    installed = names(tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert editable == installed
    assert {"cpu_smoke_full", "qwen2_5_coder_bird_full_sft", "qwen_lora_sft_zero3"} <= set(editable)


def test_the_wheel_holds_package_data_and_no_tests(wheel):
    held = zipfile.ZipFile(wheel).namelist()
    assert "loopai_trainer/py.typed" in held
    assert "loopai_trainer/templates/sft/ds_z3.json" in held
    assert {"loopai_trainer/results/page.css", "loopai_trainer/results/page.js"} <= set(held)
    assert "loopai_trainer/backends/llamafactory_sft/constraints.txt" in held
    pages = ("approval", "sft", "grpo", "errors", "recovery", "config-keys")
    assert {"loopai_trainer/skill/SKILL.md", *(f"loopai_trainer/skill/references/{name}.md" for name in pages)} <= set(
        held
    )
    assert not [name for name in held if name.startswith(("tests/", "examples/", "docs/"))]


def test_the_pages_are_printed_from_a_wheel(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-P", "-m", "loopai_trainer", "docs"]
    for words in ([], ["approval"], ["exit-codes"]):
        shown = [
            subprocess.run(
                [*command, *words], cwd=tmp_path, env=there, check=True, capture_output=True, text=True
            ).stdout
            for there in (env, {k: v for k, v in os.environ.items() if k != "PYTHONPATH"})
        ]
        assert shown[0] == shown[1] != ""
    (tmp_path / "site" / "loopai_trainer" / "skill" / "references" / "sft.md").write_text("its own copy")
    done = subprocess.run([*command, "sft"], cwd=tmp_path, env=env, check=True, capture_output=True, text=True)
    assert done.stdout == "its own copy"


def test_both_console_scripts_are_the_same_program(wheel):
    text = zipfile.ZipFile(wheel).read(
        next(n for n in zipfile.ZipFile(wheel).namelist() if n.endswith("entry_points.txt"))
    )
    lines = [line for line in text.decode().splitlines() if "=" in line]
    assert lines == ["loopai-trainer = loopai_trainer.cli.fast:main", "trainer = loopai_trainer.cli.fast:main"]


def test_importing_the_package_is_light():
    code = "import sys, loopai_trainer; print([m for m in ('typer', 'pyarrow', 'rich', 'yaml', 'json') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
