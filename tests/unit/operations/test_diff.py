from pathlib import Path

import pytest
from fakes.runs import PreparedRun

from loopai_trainer.errors import NotFound
from loopai_trainer.operations import approvals
from loopai_trainer.operations.diff import diff
from loopai_trainer.operations.targets import Scope
from loopai_trainer.rules import plan as plans


@pytest.fixture
def two(tmp_path):
    return PreparedRun(tmp_path, "v1", lr=1), PreparedRun(tmp_path, "v2", lr=2)


def use(prepared):
    plan = plans.read(Path(prepared.run.config).read_bytes(), prepared.run.config)
    approvals.consume(prepared.run, plan, "hash", prepared.env)


def scope(prepared):
    return Scope(prepared.env, str(prepared.root / "outputs"))


def test_without_an_approved_round_there_is_nothing_to_compare(two):
    answer = diff("v2", scope(two[0]))
    assert (answer.ok, answer.exit_code) == (True, 0)
    assert answer.data == {"against": None, "changed": [], "unified": ""}
    assert "no round of task task was approved before v2" in answer.message
    assert diff("v2", scope(two[0]), exit_code=True).exit_code == 10  # a script asks a person then


def test_against_the_last_approved_round(two):
    use(two[0])
    answer = diff("v2", scope(two[0]))
    assert answer.exit_code == 0
    assert answer.data["changed"] == [{"key": "lr", "kind": "changed", "from": 1, "to": 2}]
    assert answer.data["against"]["round"] == 1
    assert answer.message == "1 key differs between v1 and v2"
    assert (diff("v2", scope(two[0]), exit_code=True).ok, diff("v2", scope(two[0]), exit_code=True).exit_code) == (
        True,
        10,
    )


def test_against_another_version_whatever_its_place(two, tmp_path):
    answer = diff("v1", scope(two[0]), against=two[1].run.path)
    assert answer.data["changed"] == [{"key": "lr", "kind": "changed", "from": 2, "to": 1}]
    assert answer.data["against"] == {"version_id": "v2", "round": None}
    use(two[1])
    assert diff("v1", scope(two[0]), against="v2").data["against"]["round"] == 1


def test_the_same_keys_differ_in_nothing(two, tmp_path):
    same = PreparedRun(tmp_path, "v3", lr=1)
    answer = diff("v3", scope(same), against="v1", exit_code=True)
    # The stand-in's data lies in each run's own folder: what follows from the version alone is no difference.
    assert (answer.exit_code, answer.data["changed"]) == (0, [])
    assert answer.message == "no key differs between v1 and v3"


def test_what_is_not_there_is_not_found(two):
    with pytest.raises(NotFound):
        diff("v9", scope(two[0]))
    with pytest.raises(NotFound):
        diff("v1", scope(two[0]), against="v9")
    use(two[0])
    Path(two[0].run.config).write_text("edited: since\n")
    with pytest.raises(NotFound, match="is gone"):
        diff("v2", scope(two[0]))
    (Path(two[1].run.config)).unlink()
    with pytest.raises(NotFound):
        diff(two[1].run.path, scope(two[0]))
