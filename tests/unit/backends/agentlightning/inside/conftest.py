"""Imports modules of Agent Lightning's driver as they stand beside each other in `inputs/`."""

import sys
from pathlib import Path

import pytest

from loopai_trainer.backends import agentlightning
from loopai_trainer.rules import components

INSIDE = Path(agentlightning.__file__).parent / "inside"


@pytest.fixture
def inside(monkeypatch):
    """Gives a module of the driver by its name; nothing of it stays loaded."""
    monkeypatch.syspath_prepend(str(INSIDE))
    monkeypatch.setitem(sys.modules, "components", components)
    before = set(sys.modules)

    def load(name):
        return __import__(name)

    yield load
    for name in set(sys.modules) - before:
        if name.startswith(("agl_", "loopai_")):
            sys.modules.pop(name, None)
