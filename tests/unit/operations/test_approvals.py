import json
import os
from pathlib import Path

import pytest
from fakes.runs import PreparedRun

from loopai_trainer.errors import ApprovalError, PlanChanged
from loopai_trainer.files import approval_file
from loopai_trainer.operations import approvals, rounds
from loopai_trainer.rules import approval
from loopai_trainer.rules import plan as plans

DAY = 24 * 3600


@pytest.fixture
def prepared(tmp_path):
    return PreparedRun(tmp_path)


@pytest.fixture
def demanding(prepared):
    """The environment of a caller whose user demands approval at a terminal."""
    write_policy(prepared, "terminal")
    return prepared.env


def write_policy(prepared, level):
    folder = prepared.root / "config"
    folder.mkdir(exist_ok=True)
    (folder / "policy.yaml").write_text(f"approval_require: {level}\n")


def plan_of(prepared):
    return plans.read(Path(prepared.run.config).read_bytes(), prepared.run.config)


def check(prepared, environ=None, via="hash"):
    approvals.check(prepared.run, plan_of(prepared), via, prepared.env if environ is None else environ)


def consume(prepared, environ=None, via="hash"):
    approvals.consume(prepared.run, plan_of(prepared), via, prepared.env if environ is None else environ)


def refused(call, code):
    with pytest.raises(ApprovalError) as caught:
        call()
    assert (caught.value.code, caught.value.exit_code) == (code, 4)
    return caught.value


def approve_at_terminal(prepared, clock, **values):
    found = clock.read()
    record = approval.new_record(
        **{
            "task_id": "task",
            "version_id": "v1",
            "run_dir": prepared.run.path,
            "round_number": 1,
            "config_sha256": prepared.sha256,
            "prepared_at": found.now,
            "approved_at": found.now,
            "counted_from": found.now,
            "boot": found.boot(),
            "approver": {},
            "approved_via": "terminal",
            **values,
        }
    )
    approval_file.write(prepared.run, record)
    approval_file.append(prepared.run.task, record)
    return record


def edit_config(prepared):
    """Another YAML, that was found good as it stands."""
    path = Path(prepared.run.config)
    path.write_text(path.read_text() + "more: 1\n")


@pytest.mark.parametrize(
    "garbage",
    ["", "{", "[]", "{}", '{"prepared_at": null}', '{"prepared_at": "today"}', '{"prepared_at": true}',
     '{"prepared_at": NaN}', '{"prepared_at": 1e999}', "[" * 100_000, None],
)  # fmt: skip
def test_a_damaged_plan_json_is_no_way_to_a_longer_life(prepared, garbage):
    check(prepared)
    plan_json = Path(prepared.run.plan)
    plan_json.unlink() if garbage is None else plan_json.write_text(garbage)
    os.utime(prepared.run.config)
    with pytest.raises(ApprovalError, match="is damaged") as caught:
        check(prepared)
    assert caught.value.code == "APPROVAL_INVALID"
    assert caught.value.hint == "prepare again"


def test_the_yamls_own_time_moves_nothing(prepared):
    note(prepared, prepared_at=noted(prepared)["prepared_at"] - 25 * 3600)
    os.utime(prepared.run.config)
    with pytest.raises(ApprovalError) as caught:
        check(prepared)
    assert caught.value.code == "APPROVAL_EXPIRED"


def noted(prepared):
    return json.loads(Path(prepared.run.plan).read_text())


def note(prepared, **values):
    Path(prepared.run.plan).write_text(json.dumps({**noted(prepared), **values}))


def test_what_the_hash_approves_is_recorded_whole(prepared):
    previous = {"version_id": "v0", "round": 1, "config_sha256": "c" * 64, "approved_at": 1.0}
    note(prepared, previous_round=previous, diff_sha256="d" * 64)
    consume(prepared, {**prepared.env, "CLAUDECODE": "1"})
    record = approval_file.read(prepared.run)
    assert record["approved_via"] == "hash"
    assert (record["previous_round"], record["diff_sha256"], record["round"]) == (previous, "d" * 64, 1)
    assert record["approver"]["uid"] == os.getuid()
    assert record["approver"]["agent_variables"] == ["CLAUDECODE"]
    assert record["consumed_by"]["pid"] == os.getpid()
    assert record["run_dir"] == prepared.run.path
    assert approval_file.history(prepared.run.task) == [record]


def test_rounds_are_counted_by_version(tmp_path):
    first, second = PreparedRun(tmp_path, "v1"), PreparedRun(tmp_path, "v2")
    consume(first)
    consume(first)  # after a death before exec
    consume(second)
    assert [record["round"] for record in approval_file.history(first.run.task)] == [1, 1, 2]
    assert [one.version_id for one in rounds.earlier(second.run)] == ["v1"]
    assert rounds.earlier(first.run) == []


def test_an_expired_plan_stays_expired_when_the_clock_is_set_back(prepared, clock):
    note(prepared, prepared_at=clock.now)
    clock.forward(DAY + 60)
    refused(lambda: check(prepared), "APPROVAL_EXPIRED")
    clock.now -= 2 * 3600  # and nothing is known of a boot clock
    assert "whatever the clock" in refused(lambda: check(prepared), "APPROVAL_EXPIRED").message
    note(prepared, **approvals.moment(), inspected_at=clock.now)
    check(prepared)


def test_a_clock_set_back_before_anybody_looked_revives_nothing_either(prepared, clock):
    note(prepared, prepared_at=clock.now, **approvals.moment())
    clock.forward(DAY + 60)
    clock.now -= 2 * 3600
    refused(lambda: check(prepared), "APPROVAL_EXPIRED")
    note(prepared, seen_expired_at=None)
    clock.now -= 23 * 3600
    refused(lambda: check(prepared), "CLOCK_SET_BACK")


def test_an_expired_plan_is_refused_also_where_nothing_can_be_written(prepared, clock, monkeypatch):
    from loopai_trainer.files import atomic

    def full(path, *arguments, **options):
        raise OSError(28, "No space left on device", path)

    note(prepared, prepared_at=clock.now)
    clock.forward(DAY + 60)
    monkeypatch.setattr(atomic, "write_json", full)
    refused(lambda: check(prepared), "APPROVAL_EXPIRED")


class TestATerminalIsDemanded:
    def test_the_hash_alone_is_not_enough(self, prepared, demanding):
        found = refused(lambda: check(prepared, demanding), "APPROVAL_MISSING")
        assert found.next_command == f"trainer approve {prepared.run.path}"
        assert "policy.yaml" in found.message
        refused(lambda: check(prepared, demanding, via="auto"), "APPROVAL_MISSING")
        refused(lambda: consume(prepared, demanding), "APPROVAL_MISSING")
        assert not os.path.exists(prepared.run.approval)

    def test_an_approval_at_a_terminal_is(self, prepared, demanding, clock):
        given = approve_at_terminal(prepared, clock)
        check(prepared, demanding)
        consume(prepared, demanding)
        used = approval_file.read(prepared.run)
        assert (used["approved_via"], used["approved_at"]) == ("terminal", given["approved_at"])
        assert used["consumed_at"]
        check(prepared, demanding)  # the same call may follow a death before exec

    def test_it_ends_after_a_day_and_stays_ended(self, prepared, demanding, clock):
        approve_at_terminal(prepared, clock)
        clock.forward(DAY + 1)
        found = refused(lambda: check(prepared, demanding), "APPROVAL_EXPIRED")
        assert found.next_command == f"trainer approve {prepared.run.path}"
        clock.now -= 3600
        clock.boot_id = "after a restart"
        refused(lambda: check(prepared, demanding), "APPROVAL_EXPIRED")
        note(prepared, inspected_at=clock.now)  # an inspection gives a terminal's approval no new life
        refused(lambda: check(prepared, demanding), "APPROVAL_EXPIRED")

    def test_a_clock_before_it_is_refused(self, prepared, demanding, clock):
        approve_at_terminal(prepared, clock)
        clock.now -= 3600
        refused(lambda: check(prepared, demanding), "CLOCK_SET_BACK")

    def test_an_edit_makes_it_void(self, prepared, demanding, clock):
        approve_at_terminal(prepared, clock)
        edit_config(prepared)
        found = refused(lambda: check(prepared, demanding), "APPROVAL_MISSING")
        assert prepared.sha256 in found.message
        assert plan_of(prepared).sha256 in found.message

    def test_an_edit_after_its_use_is_another_plan(self, prepared, demanding, clock):
        approve_at_terminal(prepared, clock)
        consume(prepared, demanding)
        edit_config(prepared)
        with pytest.raises(PlanChanged):
            check(prepared, demanding)

    def test_a_forged_record_is_refused(self, prepared, demanding, clock):
        record = approve_at_terminal(prepared, clock)
        Path(prepared.run.approval).write_text(json.dumps({**record, "expires_at": record["expires_at"] + DAY}))
        refused(lambda: check(prepared, demanding), "APPROVAL_INVALID")

    def test_that_of_another_version_is_refused(self, prepared, demanding, clock):
        approve_at_terminal(prepared, clock, version_id="v2")
        refused(lambda: check(prepared, demanding), "APPROVAL_INVALID")

    def test_a_record_by_hash_is_not_enough_even_if_it_was_used(self, prepared, clock):
        consume(prepared, {**prepared.env})
        write_policy(prepared, "terminal")
        refused(lambda: check(prepared), "APPROVAL_MISSING")

    @pytest.mark.parametrize("level", ["terminals", "", "[]"])
    def test_a_damaged_policy_stops_everything(self, prepared, clock, level):
        write_policy(prepared, level)
        approve_at_terminal(prepared, clock)
        refused(lambda: check(prepared), "POLICY_INVALID")


class TestTheHashIsEnough:
    def test_an_approval_at_a_terminal_is_used_where_there_is_one(self, prepared, clock):
        approve_at_terminal(prepared, clock)
        consume(prepared)
        assert approval_file.read(prepared.run)["approved_via"] == "terminal"

    def test_one_that_does_not_fit_any_more_is_no_hindrance(self, prepared, clock):
        approve_at_terminal(prepared, clock)
        edit_config(prepared)
        consume(prepared)
        record = approval_file.read(prepared.run)
        assert (record["approved_via"], record["config_sha256"]) == ("hash", plan_of(prepared).sha256)


def test_a_link_in_place_of_a_record_or_of_the_history_is_refused(prepared, tmp_path):
    (tmp_path / "elsewhere").write_text("")
    for path in (prepared.run.approval, prepared.run.task.approvals):
        os.symlink(tmp_path / "elsewhere", path)
        refused(lambda: consume(prepared), "APPROVAL_INVALID")
        os.unlink(path)
    consume(prepared)


def test_the_standing_approval_is_one_that_would_be_used(prepared, clock):
    assert approvals.standing(prepared.run, plan_of(prepared)) is None
    given = approve_at_terminal(prepared, clock)
    assert approvals.standing(prepared.run, plan_of(prepared)) == given
    clock.forward(DAY + 1)
    assert approvals.standing(prepared.run, plan_of(prepared)) is None
    Path(prepared.run.approval).write_text("{")
    assert approvals.standing(prepared.run, plan_of(prepared)) is None
