"""Every refusal that the program can make says what to do about it; nothing is refused in silence."""

import ast
from pathlib import Path

import pytest

import loopai_trainer
from loopai_trainer import errors

PACKAGE = Path(loopai_trainer.__file__).parent
KINDS = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.TrainerError)
}
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "errors.py")


def without_a_hint(text):
    """Lines of the calls that make an error without `hint`; `**` may hold one."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in KINDS]
    return [call.lineno for call in made if not {"hint", None} & {keyword.arg for keyword in call.keywords}]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_each_says_what_to_do(path):
    assert without_a_hint(path.read_text()) == []


def test_one_that_does_not_is_found():
    text = (
        'raise UsageError("no")\nraise NotFound("no", hint="yes")\nraise Busy("no", **more)\nraise ValueError("no")\n'
    )
    assert without_a_hint(text) == [1]
