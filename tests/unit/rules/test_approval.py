import pytest

from loopai_trainer.errors import ApprovalError
from loopai_trainer.rules import approval

HASH = "a" * 64
DAY = 24 * 3600


def record(counted_from=1000.0):
    return approval.new_record(
        task_id="demo",
        version_id="v1",
        round_number=1,
        config_sha256=HASH,
        prepared_at=counted_from,
        approved_at=counted_from,
        counted_from=counted_from,
        approver={"user": "me"},
        approved_via="hash",
    )


def test_a_fresh_record_allows_its_version_and_hash():
    fresh = record()
    approval.check(fresh, version_id="v1", config_sha256=HASH, now=1000.0 + DAY)
    assert fresh["expires_at"] == 1000.0 + DAY
    assert fresh["consumed_at"] is None


@pytest.mark.parametrize(
    ("changes", "arguments", "code"),
    [
        ({}, {"now": 1000.0 + DAY + 1}, "APPROVAL_EXPIRED"),
        ({}, {"version_id": "v2"}, "APPROVAL_INVALID"),
        ({}, {"config_sha256": "b" * 64}, "APPROVAL_INVALID"),
        ({"expires_at": 1e12}, {}, "APPROVAL_INVALID"),
        ({"approved_via": "terminal"}, {}, "APPROVAL_INVALID"),
        ({"digest": "0" * 64}, {}, "APPROVAL_INVALID"),
        ({"schema": 2}, {}, "APPROVAL_INVALID"),
        ({"extra": 1}, {}, "APPROVAL_INVALID"),
    ],
)
def test_every_other_record_is_refused(changes, arguments, code):
    call = {"version_id": "v1", "config_sha256": HASH, "now": 1000.0, **arguments}
    with pytest.raises(ApprovalError) as caught:
        approval.check({**record(), **changes}, **call)
    assert caught.value.code == code
    assert caught.value.exit_code == 4


def test_a_used_record_says_when_and_by_whom_under_a_new_digest():
    used = approval.consumed(record(), at=2000.0, by={"pid": 7})
    assert (used["consumed_at"], used["consumed_by"]) == (2000.0, {"pid": 7})
    assert used == approval.sealed(used)
    assert used["digest"] != record()["digest"]
