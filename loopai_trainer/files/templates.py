"""Finds the bundled templates: inside the package in a wheel, beside it in a checkout."""

import os
from typing import NamedTuple

from loopai_trainer.errors import NotFound

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LOOPAI_FOLDERS = ("loopai/agents/Trainer/templates", "loopai/skills/Trainer/templates", "templates")
"""Where its specifications say that templates lie."""


class Template(NamedTuple):
    """A bundled template. `name` is its file name without `.yaml`, `title` its first comment line."""

    name: str
    stage: str
    path: str
    title: str


def templates_dir() -> str:
    """The folder of the bundled templates. Raises NotFound if the installation lacks it."""
    places = (os.path.join(_PACKAGE, "templates"), os.path.join(os.path.dirname(_PACKAGE), "templates"))
    for place in places:
        if os.path.isdir(os.path.join(place, "sft")):
            return place
    raise NotFound("this installation has no templates", hint="install loopai-trainer again", details={"tried": places})


def list_templates(stage: str | None = None) -> list[Template]:
    """All bundled templates, by stage and name."""
    root = templates_dir()
    stages = sorted(os.listdir(root)) if stage is None else [stage]
    found = []
    for folder in stages:
        path = os.path.join(root, folder)
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else []:
            if name.endswith(".yaml"):
                file_path = os.path.join(path, name)
                found.append(Template(name.removesuffix(".yaml"), folder, file_path, _title(file_path)))
    return found


def find_template(name: str, stage: str) -> str:
    """The path of a template: a file that exists, or the name of a bundled one, with or without `.yaml`.

    LoopAI's own path of a template, where there is no such file, is the bundled one of that name. Raises NotFound,
    which names the bundled ones.
    """
    expanded = os.path.expanduser(name)
    if os.path.isfile(expanded):
        return os.path.abspath(expanded)
    bundled = {template.name: template.path for template in list_templates(stage)}
    folder, _, file_name = name.rpartition("/")
    key = (file_name if folder in _LOOPAI_FOLDERS else name).removesuffix(".yaml")
    if key in bundled:
        return bundled[key]
    raise NotFound(
        f"no template {name!r}: neither a file nor one of the bundled ones ({', '.join(bundled)})",
        hint="list them with: trainer templates",
    )


def _title(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        first = file.readline()
    return first.lstrip("# ").strip() if first.startswith("#") else ""
