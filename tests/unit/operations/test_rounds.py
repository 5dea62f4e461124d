import os
from pathlib import Path

import pytest
from fakes.runs import PreparedRun

from loopai_trainer.errors import ConfigError
from loopai_trainer.files import approval_file, atomic
from loopai_trainer.operations import approvals, rounds
from loopai_trainer.rules import approval, plan_diff
from loopai_trainer.rules import plan as plans


def text_of(prepared):
    return Path(prepared.run.config).read_text()


def use(prepared):
    """Approve and use the plan, as run-prepared does."""
    plan = plans.read(Path(prepared.run.config).read_bytes(), prepared.run.config)
    approvals.consume(prepared.run, plan, "hash", prepared.env)


@pytest.fixture
def two(tmp_path):
    first, second = PreparedRun(tmp_path, "v1", lr=1), PreparedRun(tmp_path, "v2", lr=2)
    use(first)
    return first, second


def test_the_first_round_of_a_task_changes_nothing(tmp_path):
    first = PreparedRun(tmp_path, "v1")
    assert rounds.since_approved(first.run, text_of(first)) is None
    assert rounds.noted(None) == {"previous_round": None, "diff": None, "diff_sha256": None}
    assert rounds.number_of(first.run) == 1


def test_the_second_is_held_against_the_first(two):
    first, second = two
    found = rounds.since_approved(second.run, text_of(second))
    assert found["changed"] == [{"key": "lr", "kind": "changed", "from": 1, "to": 2}]
    assert {key: found["against"][key] for key in ("version_id", "round", "config_sha256")} == {
        "version_id": "v1",
        "round": 1,
        "config_sha256": first.sha256,
    }
    assert "-lr: 1\n+lr: 2\n" in found["unified"]
    assert rounds.noted(found)["diff_sha256"] == plan_diff.digest(found["unified"])
    assert rounds.number_of(second.run) == 2


def test_an_approved_round_is_held_against_the_one_before_it(two):
    first, second = two
    use(second)
    assert rounds.since_approved(second.run, text_of(second))["against"]["version_id"] == "v1"
    assert rounds.since_approved(first.run, text_of(first)) is None


def test_what_ran_counts_not_what_stands_in_the_folder_now(two):
    first, second = two
    os.makedirs(os.path.dirname(first.run.approved_config))
    Path(first.run.approved_config).write_text(text_of(first))
    Path(first.run.config).write_text("edited: since\n")
    assert rounds.since_approved(second.run, text_of(second))["changed"][0]["from"] == 1


def test_a_round_whose_yaml_is_gone_is_passed_over(two, tmp_path):
    first, second = two
    use(second)
    third = PreparedRun(tmp_path, "v3", lr=3)
    Path(second.run.config).write_text("edited: since\n")
    assert rounds.since_approved(third.run, text_of(third))["against"]["version_id"] == "v1"
    os.unlink(first.run.config)
    os.symlink(second.run.config, first.run.config)
    found = rounds.since_approved(third.run, text_of(third))
    assert (found["against"]["version_id"], found["changed"], found["unified"]) == ("v2", None, None)
    assert rounds.noted(found)["diff_sha256"] is None


def test_a_void_approval_is_no_round(two, tmp_path):
    first, second = two
    record = approval_file.read(first.run)
    approval_file.append(first.run.task, approval.voided(record, at=2.0))
    assert rounds.since_approved(second.run, text_of(second)) is None


def test_a_yaml_that_is_none_is_refused(two):
    _, second = two
    with pytest.raises(ConfigError):
        rounds.since_approved(second.run, "a: 1\na: 2\n")


def test_a_record_of_an_older_kind_is_looked_for_in_its_tasks_folder(two):
    first, second = two
    record = approval_file.read(first.run)
    os.unlink(first.run.task.approvals)
    bare = approval.sealed({key: value for key, value in record.items() if key not in ("run_dir", "digest")})
    approval_file.append(first.run.task, bare)
    assert rounds.since_approved(second.run, text_of(second))["changed"]
    assert atomic.read_json(second.run.plan)
