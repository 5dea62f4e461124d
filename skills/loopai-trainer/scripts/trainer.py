#!/usr/bin/env python3
"""Finds the program `trainer` and becomes it; if there is none, says how a person installs it, and installs nothing.

Standard library alone. Looked for in this order: `loopai-trainer` on PATH (the name that no other program has), the
package of this Python, the checkout or plugin folder that holds this skill.
"""

import importlib.util
import os
import shlex
import shutil
import sys

MISSING = 69
"""The exit code for what is not installed, as the program's own."""
NEEDED = (
    "filelock", "orjson", "platformdirs", "plotext", "psutil",
    "pyarrow", "rich", "tokenizers", "typer", "xxhash", "yaml",
)  # fmt: skip
"""Packages that a checkout needs beside it to be run as it stands."""
HELP = """usage: trainer.py COMMAND ...

Runs LoopAI's trainer, wherever it is installed, with the same words, exit code and output:
  python3 trainer.py prepare --help
  python3 trainer.py --version

"""
INSTALL = """the program `trainer` (package loopai-trainer) is not installed for this user.
Looked for: loopai-trainer on PATH; the package loopai_trainer of {python}; {checkout}/loopai_trainer
A person installs it from a checkout of its repository{which}, with Python 3.11 or newer, by one of
  uv tool install {source}
  pipx install {source}
  python3 -m pip install {source}
"""


def main() -> int:
    """Replace this process by the program; 69 if it is nowhere."""
    words = sys.argv[1:]
    checkout = _checkout()
    installed = shutil.which("loopai-trainer")
    if installed:
        os.execv(installed, [installed, *words])
    if importlib.util.find_spec("loopai_trainer"):
        os.execv(sys.executable, [sys.executable, "-P", "-m", "loopai_trainer", *words])
    if _is_startable(checkout):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (checkout, os.environ.get("PYTHONPATH"))))
        os.execv(sys.executable, [sys.executable, "-P", "-m", "loopai_trainer", *words])
    if words in ([], ["-h"], ["--help"]):
        sys.stdout.write(HELP)
    here = os.path.isfile(os.path.join(checkout, "pyproject.toml"))
    source, which = (checkout, "") if here else ("FOLDER", " (FOLDER)")
    sys.stderr.write(INSTALL.format(python=sys.executable, checkout=checkout, source=shlex.quote(source), which=which))
    return MISSING


def _checkout() -> str:
    """The folder that `skills/loopai-trainer/scripts/` lies in, whatever it is."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))


def _is_startable(checkout: str) -> bool:
    """Whether the package lies there and this Python can run it."""
    found = os.path.isfile(os.path.join(checkout, "loopai_trainer", "__main__.py"))
    return found and sys.version_info >= (3, 11) and all(map(importlib.util.find_spec, NEEDED))


if __name__ == "__main__":
    sys.exit(main())
