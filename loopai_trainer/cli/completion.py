"""What a shell completes a word with, beside commands and flags: versions, templates, topics and fixed choices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

Complete = Callable[[str], list[str]]
"""The words that begin with what was typed; typer finds its parameter by the name `incomplete`."""


def words(*choices: str) -> Complete:
    """One of these."""
    return lambda incomplete: _beginning(incomplete, choices)


def versions(incomplete: str) -> list[str]:
    """Ids of the runs that are known here; their states are not looked into."""
    from loopai_trainer.operations import targets

    return _beginning(incomplete, sorted({place[1] for place in targets.all_places(targets.Scope(os.environ))}))


def templates(incomplete: str) -> list[str]:
    """Names of the bundled templates and the user's."""
    from loopai_trainer.operations.templates import templates as operation

    data = operation("list", None, None, os.environ).data or {}
    return _beginning(incomplete, [item["name"] for item in data["templates"]])


def topics(incomplete: str) -> list[str]:
    """What `trainer docs` has a page on."""
    from loopai_trainer.operations.docs import docs

    return _beginning(incomplete, docs().message.split(", "))


def backends(incomplete: str) -> list[str]:
    """What `trainer setup` makes an environment of."""
    from loopai_trainer import backends as known

    return _beginning(incomplete, sorted({framework for framework, _ in known.names()}))


def schemas(incomplete: str) -> list[str]:
    """What has a JSON schema."""
    from loopai_trainer.rules import answer_schemas

    return _beginning(incomplete, answer_schemas.names())


def _beginning(incomplete: str, choices: Iterable[str]) -> list[str]:
    return [choice for choice in choices if choice.startswith(incomplete)]
