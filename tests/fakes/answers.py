"""The one way in which tests take an answer of the program: held against its schema (decisions/0043)."""

from functools import cache
from typing import Any

import jsonschema

from loopai_trainer.rules import answer_schemas


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    schema = answer_schemas.schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def checked(document: Any) -> Any:
    """The document, if it is as `trainer schema` says; what names no known command (a usage error) passes."""
    command = document.get("command") if isinstance(document, dict) else None
    if command in answer_schemas.DATA:
        _hold(command, document)
    return document


def checked_line(name: str, document: Any) -> Any:
    """The same for a line of JSON lines."""
    _hold(name, document)
    return document


def _hold(name: str, document: Any) -> None:
    fault = jsonschema.exceptions.best_match(_validator(name).iter_errors(document))
    assert fault is None, f"{name} is not as its schema says: {fault.json_path}: {fault.message}"
