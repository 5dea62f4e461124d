"""Finds templates by name: bundled ones (inside the package in a wheel, beside it in a checkout) and the user's own."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from loopai_trainer.errors import NotFound, UsageError
from loopai_trainer.files import atomic, user_dirs

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LOOPAI_FOLDERS = ("loopai/agents/Trainer/templates", "loopai/skills/Trainer/templates", "templates")
"""Where its specifications say that templates lie."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Template(NamedTuple):
    """A template. `name` is its file name without `.yaml`, `title` its first comment line, `origin` bundled or user."""

    name: str
    stage: str
    path: str
    title: str
    origin: str = "bundled"


def templates_dir() -> str:
    """The folder of the bundled templates. Raises NotFound if the installation lacks it."""
    places = (os.path.join(_PACKAGE, "templates"), os.path.join(os.path.dirname(_PACKAGE), "templates"))
    for place in places:
        if os.path.isdir(os.path.join(place, "sft")):
            return place
    raise NotFound("this installation has no templates", hint="install loopai-trainer again", details={"tried": places})


def user_templates_dir(environ: Mapping[str, str]) -> str:
    """The folder of the user's own templates: one for each stage in it, as the bundled ones have. It need not exist."""
    return os.path.join(user_dirs.user_dir("config", environ), "templates")


def list_templates(stage: str | None = None) -> list[Template]:
    """All bundled templates, by stage and name."""
    return list(_below(templates_dir(), stage, "bundled"))


def list_user_templates(environ: Mapping[str, str], stage: str | None = None) -> list[Template]:
    """The user's own templates, by stage and name."""
    return list(_below(user_templates_dir(environ), stage, "user"))


def _below(root: str, stage: str | None, origin: str) -> Iterator[Template]:
    stages = (sorted(os.listdir(root)) if os.path.isdir(root) else []) if stage is None else [stage]
    for folder in stages:
        path = os.path.join(root, folder)
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else []:
            if name.endswith(".yaml"):
                file_path = os.path.join(path, name)
                yield Template(name.removesuffix(".yaml"), folder, file_path, _title(file_path), origin)


def find_template(name: str, stage: str, environ: Mapping[str, str] | None = None) -> str:
    """The path of a template: a file that exists, or the name of a bundled one or the user's, with or without `.yaml`.

    LoopAI's own path of a template, where there is no such file, is the bundled one of that name. `environ` says where
    the user's own are; without it none are looked for. Raises NotFound, which names what there is, and UsageError for a
    name that both have: which one is meant is not guessed (decisions/0069).
    """
    expanded = os.path.expanduser(name)
    if os.path.isfile(expanded):
        return os.path.abspath(expanded)
    bundled = {template.name: template.path for template in list_templates(stage)}
    folder, _, file_name = name.rpartition("/")
    key = (file_name if folder in _LOOPAI_FOLDERS else name).removesuffix(".yaml")
    own = {} if environ is None else {one.name: one.path for one in list_user_templates(environ, stage)}
    own_key = name.removesuffix(".yaml")
    if key in bundled and own_key in own:
        raise UsageError(
            f"template {name!r} is a bundled one and one of yours\n"
            f"  bundled: {bundled[key]}\n  yours:   {own[own_key]}",
            hint="name the file that you mean, or give yours another name",
        )
    if key in bundled or own_key in own:
        return bundled.get(key) or own[own_key]
    yours = f" nor one of yours ({', '.join(own)})" if own else ""
    raise NotFound(
        f"no template {name!r}: neither a file nor one of the bundled ones ({', '.join(bundled)}){yours}",
        hint="list them with: trainer templates",
    )


def copy_template(template: Template, new_name: str, environ: Mapping[str, str]) -> Template:
    """A copy in the user's folder under a name of its own, with the files beside it that it names.

    Raises UsageError for a name that is none, is taken, or is a bundled one's; nothing is ever written over.
    """
    if not _NAME.fullmatch(new_name):
        raise UsageError(f"{new_name!r} is no name for a template", hint="letters, digits, '.', '_' and '-'")
    folder = os.path.join(user_templates_dir(environ), template.stage)
    path = os.path.join(folder, f"{new_name}.yaml")
    if os.path.lexists(path) or new_name in {one.name for one in list_templates(template.stage)}:
        raise UsageError(f"there is a template {new_name!r} already", hint="choose another name")
    atomic.make_private_dir(folder)
    with open(template.path, encoding="utf-8") as file:
        text = file.read()
    for beside in _named_beside(template, text):
        if not os.path.lexists(os.path.join(folder, beside)):
            with open(os.path.join(os.path.dirname(template.path), beside), "rb") as source:
                atomic.write_bytes(os.path.join(folder, beside), source.read())
    atomic.write_text(path, text)
    return Template(new_name, template.stage, path, _title(path), "user")


def _named_beside(template: Template, text: str) -> list[str]:
    """Files of the template's folder that stand in it as a whole word (`deepspeed: ds_z3.json`)."""
    names = os.listdir(os.path.dirname(template.path))
    words = set(re.split(r"[\s'\"]+", text))
    return sorted(name for name in names if not name.endswith(".yaml") and name in words)


def _title(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        first = file.readline()
    return first.lstrip("# ").strip() if first.startswith("#") else ""
