"""templates: what is bundled, what is the user's own, and a copy of one to begin with."""

from __future__ import annotations

from collections.abc import Mapping

from loopai_trainer.errors import NotFound, UsageError
from loopai_trainer.files import templates as files
from loopai_trainer.operations.answer import Answer

ACTIONS = ("list", "show", "copy")


def templates(action: str, name: str | None, new_name: str | None, environ: Mapping[str, str]) -> Answer:
    """`list` all, `show` the text of one, or `copy` one to the user's folder. Raises UsageError and NotFound."""
    given = [word for word in (name, new_name) if word is not None]
    needed = {"list": 0, "show": 1, "copy": 2}
    if action not in needed or len(given) != needed[action]:
        raise UsageError(
            f"'trainer templates {' '.join([action, *given])}' is none of its forms",
            hint="trainer templates [list], trainer templates show NAME, trainer templates copy NAME NEW_NAME",
        )
    known = [*files.list_templates(), *files.list_user_templates(environ)]
    if action == "list" or name is None:
        return _answer(known, f"yours are kept in {files.user_templates_dir(environ)}")
    chosen = _named(name, known)
    if new_name is None:
        with open(chosen.path, encoding="utf-8") as file:
            return _answer([chosen], chosen.path, file.read())
    made = files.copy_template(chosen, new_name, environ)
    return _answer([made], f"copied to {made.path}; edit it, then: trainer prepare --template {made.name} ...")


def _named(name: str, known: list[files.Template]) -> files.Template:
    found = [template for template in known if template.name == name.removesuffix(".yaml")]
    if not found:
        raise NotFound(f"no template {name!r}", hint="list them with: trainer templates")
    if len(found) > 1:
        raise UsageError(
            f"template {name!r} is there more than once: {', '.join(one.path for one in found)}",
            hint="give yours another name",
        )
    return found[0]


def _answer(shown: list[files.Template], message: str, text: str | None = None) -> Answer:
    return Answer("templates", {"templates": [dict(one._asdict()) for one in shown], "text": text}, message=message)
