"""docs/tutorial.md as its tests type it: every block in one shell, and what the page shows held against what is seen."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from fakes.skill import ROOT

PAGE = ROOT / "docs" / "tutorial.md"
INSTALLS = ("pip install .", "trainer setup llamafactory")
MAKES_MODEL = '"$ENV"/bin/python examples/make_tiny_model.py outputs/tutorial-inputs/model'
_BLOCK = re.compile(r"^```(bash|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_DONE = "== block {} ended with "


class Step(NamedTuple):
    """A block of commands, and the lines that the page shows after it."""

    commands: str
    shown: list[str]


def steps() -> list[Step]:
    found: list[Step] = []
    for language, text in _BLOCK.findall(PAGE.read_text()):
        if language == "bash":
            found.append(Step(text, []))
        else:
            found[-1].shown.extend(text.splitlines())
    return found


def typed(root: Path, env_dir: Path, *, model: Path | None = None) -> list[str]:
    """Type all blocks in that folder; what was seen after each of them.

    Nothing is installed: `env_dir` is LLaMA-Factory's environment. `model` is taken where that environment makes none.
    """
    shutil.copytree(ROOT / "examples", root / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "bin").mkdir()
    (root / "bin" / "trainer").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m loopai_trainer "$@"\n')
    (root / "bin" / "trainer").chmod(0o755)
    env = {
        "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
        "HOME": str(root),
        "LLAMAFACTORY_ENV_PATH": str(env_dir),
        **{f"LOOPAI_TRAINER_{kind}_DIR": str(root / kind.lower()) for kind in ("STATE", "CACHE", "DATA", "CONFIG")},
    }
    script = "".join(
        f"{_here(step.commands, env_dir, model)}echo '{_DONE.format(number)}'$?\n"
        for number, step in enumerate(steps())
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=root,
        env=env,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )
    return re.split(r"^== block \d+ ended with ", done.stdout, flags=re.MULTILINE)


def _here(commands: str, env_dir: Path, model: Path | None) -> str:
    lines = [line for line in commands.splitlines() if line not in INSTALLS]
    lines = [f"ENV='{env_dir}'" if line.startswith("ENV=$(trainer setup ") else line for line in lines]
    if model is not None:
        lines = [f"cp -r '{model}' {MAKES_MODEL.split()[-1]}" if line == MAKES_MODEL else line for line in lines]
    return "\n".join([*lines, ""]) if lines else ":\n"


def missing(shown: list[str], seen: str) -> list[str]:
    """The lines of the page that were not seen, in its order; `...` stands for anything."""
    lost, lines = [], iter(seen.splitlines())
    for line in shown:
        pattern = re.compile(".*".join(re.escape(part.strip()) for part in line.split("...")))
        if not any(pattern.fullmatch(there.strip()) for there in lines):
            lost.append(line)
            lines = iter(())
    return lost
