import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.errors import ApprovalError
from loopai_trainer.rules import approval

HASH = "a" * 64
DAY = 24 * 3600
BOOT = {"boot_id": "b1", "boot_s": 50.0}


def clock(now=1000.0, boot_id="other", boot_s=0.0):
    return approval.Clock(now, boot_id, boot_s)


def record(counted_from=1000.0, **values):
    return approval.new_record(
        **{
            "task_id": "demo",
            "version_id": "v1",
            "run_dir": "/out/demo/trainer/v1",
            "round_number": 1,
            "config_sha256": HASH,
            "prepared_at": counted_from,
            "approved_at": counted_from,
            "counted_from": counted_from,
            "boot": BOOT,
            "approver": {"user": "me"},
            "approved_via": "hash",
            **values,
        }
    )


def refusal(found, **call):
    with pytest.raises(ApprovalError) as caught:
        approval.check(found, **{"version_id": "v1", "config_sha256": HASH, "clock": clock(), **call})
    assert caught.value.exit_code == 4
    return caught.value


def test_a_fresh_record_allows_its_version_and_hash():
    fresh = record()
    approval.check(fresh, version_id="v1", config_sha256=HASH, clock=clock(1000.0 + DAY))
    assert fresh["expires_at"] == 1000.0 + DAY
    assert fresh["consumed_at"] is None
    assert approval.stands(fresh, version_id="v1", config_sha256=HASH, clock=clock())


def test_it_keeps_what_the_approver_was_shown():
    previous = {"version_id": "v0", "round": 1, "config_sha256": "c" * 64}
    found = record(round_number=2, previous_round=previous, diff_sha256="d" * 64, note="lower rate")
    assert found["previous_round"] == previous
    assert (found["round"], found["diff_sha256"], found["note"]) == (2, "d" * 64, "lower rate")
    assert record(boot=None)["boot"] is None


@pytest.mark.parametrize(
    ("changes", "arguments", "code"),
    [
        ({}, {"clock": clock(1000.0 + DAY + 1)}, "APPROVAL_EXPIRED"),
        ({}, {"version_id": "v2"}, "APPROVAL_INVALID"),
        ({}, {"config_sha256": "b" * 64}, "APPROVAL_INVALID"),
        ({"expires_at": 1e12}, {}, "APPROVAL_INVALID"),
        ({"approved_via": "terminal"}, {}, "APPROVAL_INVALID"),
        ({"digest": "0" * 64}, {}, "APPROVAL_INVALID"),
        ({"schema": 2}, {}, "APPROVAL_INVALID"),
        ({"extra": 1}, {}, "APPROVAL_INVALID"),
        ({"extra": float("nan")}, {}, "APPROVAL_INVALID"),
    ],
)
def test_every_other_record_is_refused(changes, arguments, code):
    changed = {**record(), **changes}
    assert refusal(changed, **arguments).code == code
    call = {"version_id": "v1", "config_sha256": HASH, "clock": clock(), **arguments}
    assert not approval.stands(changed, **call)


@pytest.mark.parametrize(
    ("name", "value"),
    [("approved_at", True), ("counted_from", "1"), ("expires_at", 0), ("version_id", None), ("approved_via", 3)],
)
def test_a_record_that_was_sealed_anew_over_nonsense_is_refused(name, value):
    assert refusal(approval.sealed({**record(), name: value})).code == "APPROVAL_INVALID"


def test_a_used_record_says_when_and_by_whom_under_a_new_digest():
    used = approval.consumed(record(), at=2000.0, by={"pid": 7})
    assert (used["consumed_at"], used["consumed_by"]) == (2000.0, {"pid": 7})
    assert used == approval.sealed(used)
    assert used["digest"] != record()["digest"]


@given(behind_s=st.floats(min_value=approval.CLOCK_ALLOWANCE_S + 1, max_value=900.0))
def test_a_clock_before_the_approval_is_refused(behind_s):
    found = refusal(record(), clock=clock(1000.0 - behind_s))
    assert found.code == "CLOCK_SET_BACK"


def test_a_clock_that_lies_a_little_behind_is_none_that_was_set_back():
    late = 1000.0 - approval.CLOCK_ALLOWANCE_S
    approval.check(record(), version_id="v1", config_sha256=HASH, clock=clock(late))


def test_a_clock_set_back_revives_nothing_while_the_host_is_up():
    later = clock(1000.0 + 60, boot_id="b1", boot_s=50.0 + DAY + 1)
    assert refusal(record(), clock=later).code == "APPROVAL_EXPIRED"
    approval.check(record(), version_id="v1", config_sha256=HASH, clock=clock(1060.0, "b1", 50.0 + DAY))
    damaged = record(boot={"boot_id": "b1", "boot_s": None})
    approval.check(damaged, version_id="v1", config_sha256=HASH, clock=later)


def test_what_was_seen_expired_stays_so_whatever_the_clock_says():
    seen = approval.seen_expired(record(), at=1000.0 + DAY + 5)
    assert seen == approval.sealed(seen)
    found = refusal(seen, clock=clock(1001.0))
    assert found.code == "APPROVAL_EXPIRED"
    assert "whatever the clock says" in found.message


def test_a_void_record_allows_nothing():
    assert refusal(approval.voided(record(), at=1500.0)).code == "APPROVAL_MISSING"


@pytest.mark.parametrize(("late_s", "said"), [(90 * 60, "90 minutes ago"), (5 * 3600, "5 hours ago")])
def test_the_refusal_says_how_late_it_is(late_s, said):
    assert said in refusal(record(), clock=clock(1000.0 + DAY + late_s)).message


def test_what_a_clock_leaves_in_a_record():
    assert approval.Clock(1.0, "b1", 2.00049).boot() == {"boot_id": "b1", "boot_s": 2.0}


def test_a_mark_of_a_training_uses_up_its_approval_and_no_later_one():
    mark = approval.training_mark(record(1000.0), at=1001.0)
    assert approval.uses_up(mark, record(1000.0))
    assert approval.uses_up(mark, record(900.0))  # an older copy of the record
    assert not approval.uses_up(mark, record(1000.5))
    assert not approval.uses_up(mark, record(1000.0, version_id="v2"))


@pytest.mark.parametrize(
    "change",
    [
        {"trained_at": None},
        {"counted_from": "1"},
        {"version_id": {1}},
        {"trained_at": float("nan")},
    ],
)
def test_what_is_no_mark_uses_nothing_up(change):
    mark = {**approval.training_mark(record(), at=1001.0), **change}
    assert not approval.uses_up(mark, record())
    assert not approval.uses_up(record(), record())


def test_an_edited_mark_is_none():
    mark = approval.training_mark(record(), at=1001.0)
    assert not approval.uses_up({**mark, "counted_from": 2000.0}, record())
    assert not approval.uses_up(approval.sealed({**mark, "counted_from": True}), record())
