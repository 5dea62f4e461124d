"""An environment with a verl that trains nothing and leaves what a training leaves; its Python is the tests' own."""

import shlex
import sys
from pathlib import Path

from fakes.llamafactory_env import add_distribution
from fakes.verl_trees import PACKAGES, make_verl

PLAYED = Path(__file__).with_name("verl_played.py")


def make_startable_verl(root: Path, hold: Path, starts: Path) -> Path:
    """The environment at `root`. A training in it adds a line to `starts`, and goes on as long as `hold` is there."""
    site = root / "lib" / "python3.11" / "site-packages"
    make_verl(site)
    (site / "verl" / "__init__.py").touch()
    for name, version in (("verl", "0.9.1"), *((name, "1.0") for name in PACKAGES)):
        add_distribution(site, name, version)
    (root / "bin").mkdir()
    words = shlex.join((sys.executable, str(PLAYED), str(hold), str(starts)))
    (root / "bin" / "python").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    (root / "bin" / "python").chmod(0o755)
    (root / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    return root
