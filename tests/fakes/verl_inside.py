"""The programs that run inside verl's environment, imported here: they lie in no package."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import loopai_trainer.backends.verl_grpo

FOLDER = Path(loopai_trainer.backends.verl_grpo.__file__).parent / "inside"


def load(name: str) -> ModuleType:
    """The program's module, found as its neighbours find it."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)
