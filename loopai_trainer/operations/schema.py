"""schema: the JSON schemas of the `--json` answers."""

from __future__ import annotations

from loopai_trainer.errors import NotFound
from loopai_trainer.operations.answer import Answer
from loopai_trainer.rules import answer_schemas


def schema(name: str | None = None) -> Answer:
    """The schema of that command's answer (or line); without a name one for all. Raises NotFound."""
    if name is None:
        found = answer_schemas.whole()
    elif name in answer_schemas.names():
        found = answer_schemas.schema_of(name)
    else:
        raise NotFound(f"there is no answer '{name}'", hint=f"choose one of: {', '.join(answer_schemas.names())}")
    return Answer("schema", {"name": name, "schema": found}, message=", ".join(answer_schemas.names()))
