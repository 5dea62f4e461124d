"""The schemas are schemas, cover every command, and refuse what is not written down."""

import json

import jsonschema
import pytest
import typer
from fakes.answers import checked, checked_line

from loopai_trainer.cli import fast
from loopai_trainer.cli.app import app
from loopai_trainer.errors import DataError, PlanChanged
from loopai_trainer.operations.answer import Answer, failure
from loopai_trainer.operations.schema import schema
from loopai_trainer.records import Problem
from loopai_trainer.rules import answer_schemas

COMMANDS = set(typer.main.get_command(app).commands)


def test_every_command_with_an_answer_has_one():
    assert set(answer_schemas.DATA) == COMMANDS - {"watch"} | {"trainer"}


@pytest.mark.parametrize("name", answer_schemas.names())
def test_each_is_a_schema_of_the_draft_that_it_names(name):
    found = answer_schemas.schema_of(name)
    assert found["$schema"] == answer_schemas.DRAFT
    jsonschema.Draft202012Validator.check_schema(found)


def test_the_whole_one_takes_any_answer():
    whole = jsonschema.Draft202012Validator(answer_schemas.whole())
    whole.validate(Answer("list", {"count": 0, "runs": []}).envelope())
    assert not whole.is_valid({"command": "list"})


def test_refusals_with_problems_and_details():
    problems = [Problem("error", "OUTPUT_EMPTY", "train", "m", "h", path="/d", line=3, field="output")]
    checked(failure("prepare", DataError("bad", problems=problems, details={"counts": {"E": 1}})).envelope())
    changed = {"config_path": "/c", "config_yaml": "a: 1\n", "config_sha256": "a" * 64, "diff": ""}
    details = {"expected": "a" * 64, "got": "b" * 64, "changed": changed}
    checked(failure("run-prepared", PlanChanged("other", details=details)).envelope())


@pytest.mark.parametrize(
    ("command", "data", "said"),
    [
        ("list", {"count": 0, "runs": [], "more": 1}, "more"),
        ("list", {"count": 0}, "runs"),
        ("list", {"count": -1, "runs": []}, "minimum"),
        ("logs", {"path": "/x", "lines": [1], "truncated": False, "source": "/x"}, "string"),
        ("status", {"status": "odd"}, "odd"),
        ("approve", {"approval": {}, "config_path": None, "next_command": ""}, "None"),
    ],
)
def test_what_is_not_written_down_is_refused(command, data, said):
    with pytest.raises(AssertionError, match=said):
        checked(Answer(command, data).envelope())


def test_the_envelope_is_closed_too():
    good = Answer("list", {"count": 0, "runs": []}).envelope()
    assert checked(good) == good
    for bad in (
        {**good, "extra": 1},
        {**good, "schema": "loopai-trainer/2"},
        {k: v for k, v in good.items() if k != "error"},
    ):
        with pytest.raises(AssertionError):
            checked(bad)
    assert checked({"command": "nothing"}) == {"command": "nothing"}


def test_lines():
    checked_line("version-line", {"type": "version", "schema": "loopai-trainer/1"})
    with pytest.raises(AssertionError):
        checked_line("log-line", {"line": 1})


def test_the_verb_gives_one_or_all():
    assert schema("list").data == {"name": "list", "schema": answer_schemas.answer("list")}
    assert schema().data["schema"]["oneOf"]
    checked(schema("list").envelope())
    checked(schema().envelope())
    from loopai_trainer.errors import NotFound

    with pytest.raises(NotFound) as caught:
        schema("nothing")
    assert "list" in caught.value.hint


def test_without_json_the_schema_alone_is_printed(capsys):
    assert fast.main(["schema", "list"]) == 0
    assert json.loads(capsys.readouterr().out) == answer_schemas.answer("list")
