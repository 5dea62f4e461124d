"""What a file is to a run: an approved input, its own output, the environment, the system, or none of them."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys", "/dev", "/var/cache", "/run")
"""The operating system: its libraries and settings. It is trusted, as the kernel is."""

OWN = ("launch", "checkpoints", "metrics", "rollouts", "validations", "inputs/__pycache__")
"""Folders of the run that training writes: `launch/` and compiled code are taken away before its exec, the others are
empty then."""

CLASSES = ("approved", "own", "environment", "system", "remainder")


class Places(NamedTuple):
    """Where things of one run lie: real paths. `approved` are files that the YAML pins, `model` is its folder."""

    approved: frozenset[str]
    model: str
    own: tuple[str, ...]
    environment: tuple[str, ...]


def places_of(run: Path) -> Places:
    """Read from the run's own records."""
    loopai = yaml.safe_load((run / "training_config.yaml").read_text("utf-8"))["loopai"]
    inputs = loopai["inputs"]
    pinned = [inputs[name]["path"] for name in ("train", "validation") if inputs.get(name)]
    pinned += [entry["path"] for entry in inputs["files"]]
    pinned += [str(path) for path in (run / "configs").glob("*.yaml")]  # the approved bytes themselves
    state = json.loads((run / "run_state.json").read_text("utf-8"))
    own = [str(run / name) for name in OWN] + [state["tmp_dir"]]
    return Places(
        frozenset(map(os.path.realpath, pinned)),
        os.path.realpath(inputs["model"]["path"]),
        tuple(map(os.path.realpath, own)),
        tuple(_environment(loopai["backend"])),
    )


def _environment(backend: dict[str, Any]) -> list[str]:
    """The environment, the Python that it was made with, and folders of editable installs (all in its digest)."""
    root = Path(backend["environment"])
    found = [str(root), *(backend.get("editable") or {}).values()]
    settings = (root / "pyvenv.cfg").read_text("utf-8") if (root / "pyvenv.cfg").exists() else ""
    for line in settings.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home":
            found.append(os.path.dirname(value.strip()))
    # An environment that is made of links leads to the files of another one.
    linked = [*root.glob("lib/python*/site-packages/*"), *root.glob("bin/*")]
    found += [str(path) for path in linked if path.is_symlink()]
    return [os.path.realpath(path) for path in found]


def class_of(path: str, places: Places) -> str:
    """One of CLASSES. The run's own folders go before the system's: a run may lie in /var or /run."""
    real = os.path.realpath(path)
    if real in places.approved or _within(real, [places.model]):
        return "approved"
    if _within(real, places.own):
        return "own"
    if _within(real, places.environment):
        return "environment"
    return "system" if _within(real, SYSTEM) else "remainder"


def sorted_out(paths: Iterable[str], places: Places) -> dict[str, list[str]]:
    """Class -> its paths, sorted, each once."""
    found: dict[str, set[str]] = {name: set() for name in CLASSES}
    for path in paths:
        found[class_of(path, places)].add(path)
    return {name: sorted(members) for name, members in found.items()}


def _within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
