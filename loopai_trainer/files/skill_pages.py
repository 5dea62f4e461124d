"""Finds the skill's pages of the installed version: inside the package in a wheel, beside it in a checkout."""

import os

from loopai_trainer.errors import NotFound

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SKILL = "SKILL.md"


def skill_dir() -> str:
    """The skill's folder. Raises NotFound if the installation lacks it."""
    places = (
        os.path.join(_PACKAGE, "skill"),
        os.path.join(os.path.dirname(_PACKAGE), "skills", "loopai-trainer"),
    )
    for place in places:
        if os.path.isfile(os.path.join(place, _SKILL)):
            return place
    raise NotFound("this installation has no pages", hint="install loopai-trainer again", details={"tried": places})


def pages() -> dict[str, str]:
    """Name -> path of every page: `skill`, then each reference by its file name without `.md`."""
    root = skill_dir()
    references = os.path.join(root, "references")
    names = sorted(name for name in os.listdir(references) if name.endswith(".md"))
    found = {"skill": os.path.join(root, _SKILL)}
    return found | {name.removesuffix(".md"): os.path.join(references, name) for name in names}


def read_page(path: str) -> str:
    """The page's text without the header that only an agent's host reads."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return text.split("---\n", 2)[2] if text.startswith("---\n") else text
