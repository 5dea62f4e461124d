"""Every argument of the Python API that has a kind: what it may be, and the refusal that names it."""

from pathlib import Path

import pytest

from loopai_trainer.errors import UsageError
from loopai_trainer.rules import call_arguments
from loopai_trainer.rules.call_arguments import refuse_unfit


def callback(*_):
    """An observer of progress."""


@pytest.mark.parametrize(
    "given",
    [
        {"prepared_config_path": "a.yaml", "expected_config_sha256": "0" * 64},
        {"prepared_config_path": Path("a.yaml"), "config_path": Path("b.yaml"), "output_dir": None},
        {"overrides": ["a=1"], "resume": "v1", "progress": callback, "watch": None},
        {"overrides": ()},
        {"limit_s": 0, "wait_timeout_s": 1.5},
        {"wait_timeout_s": float("inf"), "refresh": False, "verify_all": True},
        {"version_id": None, "task_id": "task", "task_type": "sft", "field_name": None},
    ],
)
def test_what_can_be_meant_is_taken(given):
    refuse_unfit(given)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("prepared_config_path", None, "a path, as text or as a path object"),
        ("prepared_config_path", b"a.yaml", "a path, as text or as a path object"),
        ("config_path", ["a.yaml"], "a path, as text or as a path object"),
        ("expected_config_sha256", 5, "text"),
        ("version_id", 5, "text"),
        ("overrides", "a=1", "a list of texts"),
        ("overrides", b"a=1", "a list of texts"),
        ("overrides", {"a": 1}, "a list of texts"),
        ("overrides", ["a=1", 2], "a list of texts"),
        ("overrides", None, "a list of texts"),
        ("wait_timeout_s", "5", "a number of seconds, 0 or more"),
        ("wait_timeout_s", True, "a number of seconds, 0 or more"),
        ("wait_timeout_s", -1, "a number of seconds, 0 or more"),
        ("limit_s", float("nan"), "a number of seconds, 0 or more"),
        ("refresh", "no", "True or False"),
        ("verify_all", 1, "True or False"),
        ("watch", "print", "a function"),
    ],
)
def test_what_cannot_be_meant_is_named(name, value, words):
    with pytest.raises(UsageError) as caught:
        refuse_unfit({name: value})
    error = caught.value
    assert (error.code, error.exit_code) == ("ARGUMENT_INVALID", 2)
    assert error.message == f"{name} is {value!r} ({type(value).__name__}); it has to be {words}"
    assert [problem.field for problem in error.problems] == [name]


def test_all_of_them_are_told_at_once_and_a_long_value_by_its_beginning():
    with pytest.raises(UsageError) as caught:
        refuse_unfit({"config_path": list(range(1000)), "resume": 7, "version_id": "v1"})
    error = caught.value
    assert error.message.startswith("config_path is [0, 1, 2, ")
    assert error.message.endswith("... (list); it has to be a path, as text or as a path object (and 1 more)")
    assert len(error.message) < 200
    assert [problem.field for problem in error.problems] == ["config_path", "resume"]
    assert error.hint == "give config_path as a path, as text or as a path object, or leave it out"


def test_every_argument_has_one_kind():
    assert not call_arguments._NEEDED.keys() & call_arguments._OPTIONAL.keys()
