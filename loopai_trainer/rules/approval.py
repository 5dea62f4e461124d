"""The approval record (interface section 6): its making, its digest, its expiry and its one use. Pure: time comes in.

Light on purpose (json and hashlib alone): `run-prepared` needs it before training starts.
"""

import hashlib
import json

from loopai_trainer.errors import ApprovalError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SCHEMA = 1
VALID_S = 24 * 3600
"""Default life of an approval: 24 hours (interface section 6)."""


def new_record(
    *,
    task_id: str,
    version_id: str,
    round_number: int,
    config_sha256: str,
    prepared_at: float,
    approved_at: float,
    counted_from: float,
    approver: "Mapping[str, Any]",
    approved_via: str,
    note: str = "",
) -> "dict[str, Any]":
    """An approval that has not been used. Times are seconds since the epoch, UTC; `counted_from` + 24 h is its end."""
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "task_id": task_id,
        "version_id": version_id,
        "round": round_number,
        "config_sha256": config_sha256,
        "prepared_at": prepared_at,
        "approved_at": approved_at,
        "expires_at": counted_from + VALID_S,
        "approver": dict(approver),
        "approved_via": approved_via,
        "note": note,
        "previous_round": None,
        "diff_sha256": None,
        "consumed_at": None,
        "consumed_by": None,
    }
    return sealed(record)


def sealed(record: "Mapping[str, Any]") -> "dict[str, Any]":
    """The record with the digest of all its other fields."""
    body = {key: value for key, value in record.items() if key != "digest"}
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return {**body, "digest": hashlib.sha256(text.encode("utf-8")).hexdigest()}


def consumed(record: "Mapping[str, Any]", *, at: float, by: "Mapping[str, Any]") -> "dict[str, Any]":
    """The record after its one use."""
    return sealed({**record, "consumed_at": at, "consumed_by": dict(by)})


def check(record: "Mapping[str, Any]", *, version_id: str, config_sha256: str, now: float) -> None:
    """Refuse a record that does not allow this version to start with this hash now. Raises ApprovalError."""
    if record.get("schema") != SCHEMA or sealed(record) != dict(record):
        raise ApprovalError(
            "the approval record is damaged or was edited: its digest does not match",
            code="APPROVAL_INVALID",
            hint="approve the YAML again",
        )
    if record["version_id"] != version_id or record["config_sha256"] != config_sha256:
        raise ApprovalError(
            "the approval record is for another plan\n"
            f"  expected: {version_id} {config_sha256}\n"
            f"  got:      {record['version_id']} {record['config_sha256']}",
            code="APPROVAL_INVALID",
            hint="approve this YAML's own hash",
        )
    if now > record["expires_at"]:
        raise expired(now - record["expires_at"])


def expired(late_s: float) -> ApprovalError:
    """The refusal of an approval that ended `late_s` seconds ago."""
    return ApprovalError(
        f"the approval expired {int(late_s // 60)} minutes ago",
        code="APPROVAL_EXPIRED",
        hint="inspect the YAML again (trainer inspect), then approve and run it",
    )
