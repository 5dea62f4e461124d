"""The approval record (interface section 6): its making, its digest, its expiry and its one use. Pure: time comes in.

Light on purpose (json alone): `run-prepared` needs it before training starts.
"""

import json
import math

from loopai_trainer.errors import ApprovalError
from loopai_trainer.rules import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SCHEMA = 1
VALID_S = 24 * 3600
"""Default life of an approval: 24 hours (interface section 6)."""
CLOCK_ALLOWANCE_S = 120.0
"""How far the wall clock may lie behind the time from which a life is counted: hosts of one file system differ."""


class Clock:
    """One look at the clocks. `now`: seconds since the epoch, which anybody with the right can set back.

    `boot_s`: seconds since boot `boot_id`, asleep or awake, which nobody can set (CLOCK_BOOTTIME).
    """

    __slots__ = ("boot_id", "boot_s", "now")

    def __init__(self, now: float, boot_id: str, boot_s: float) -> None:
        self.now = now
        self.boot_id = boot_id
        self.boot_s = boot_s

    def boot(self) -> "dict[str, Any]":
        """What a record keeps of it."""
        return {"boot_id": self.boot_id, "boot_s": round(self.boot_s, 3)}


def new_record(
    *,
    task_id: str,
    version_id: str,
    run_dir: str,
    round_number: int,
    config_sha256: str,
    prepared_at: float,
    approved_at: float,
    counted_from: float,
    boot: "Mapping[str, Any] | None",
    approver: "Mapping[str, Any]",
    approved_via: str,
    note: str = "",
    previous_round: "Mapping[str, Any] | None" = None,
    diff_sha256: str | None = None,
) -> "dict[str, Any]":
    """An approval that has not been used. Times are seconds since the epoch, UTC; `counted_from` + 24 h is its end.

    `boot`: `Clock.boot` of the moment `counted_from`, None if it is not known. `previous_round`: what the approver was
    shown the difference to, and `diff_sha256` the SHA-256 of that difference's text.
    """
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "task_id": task_id,
        "version_id": version_id,
        "run_dir": run_dir,
        "round": round_number,
        "config_sha256": config_sha256,
        "prepared_at": prepared_at,
        "approved_at": approved_at,
        "counted_from": counted_from,
        "expires_at": counted_from + VALID_S,
        "boot": dict(boot) if boot else None,
        "approver": dict(approver),
        "approved_via": approved_via,
        "note": note,
        "previous_round": dict(previous_round) if previous_round else None,
        "diff_sha256": diff_sha256,
        "consumed_at": None,
        "consumed_by": None,
    }
    return sealed(record)


def sealed(record: "Mapping[str, Any]") -> "dict[str, Any]":
    """The record with the digest of all its other fields."""
    body = {key: value for key, value in record.items() if key != "digest"}
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return {**body, "digest": digest.sha256(text.encode("utf-8", "backslashreplace"))}


def consumed(record: "Mapping[str, Any]", *, at: float, by: "Mapping[str, Any]") -> "dict[str, Any]":
    """The record after its one use."""
    return sealed({**record, "consumed_at": at, "consumed_by": dict(by)})


def seen_expired(record: "Mapping[str, Any]", *, at: float) -> "dict[str, Any]":
    """The record once it was found expired: no clock can revive it."""
    return sealed({**record, "seen_expired_at": at})


def voided(record: "Mapping[str, Any]", *, at: float) -> "dict[str, Any]":
    """The record after the plan that it allowed was rewritten."""
    return sealed({**record, "voided_at": at})


def training_mark(record: "Mapping[str, Any]", *, at: float) -> "dict[str, Any]":
    """What the task's history keeps once training was exec'd under `record`: it is used up, whatever the run says."""
    names = ("version_id", "config_sha256", "counted_from")
    return sealed({"schema": SCHEMA, **{name: record[name] for name in names}, "trained_at": at})


def uses_up(mark: "Mapping[str, Any]", record: "Mapping[str, Any]") -> bool:
    """Whether `mark` is a whole training_mark of this approval, or of a later one of the same version."""
    try:
        whole = sealed(mark) == dict(mark) and is_time(mark.get("trained_at")) and is_time(mark.get("counted_from"))
    except (TypeError, ValueError, RecursionError):
        return False
    return whole and mark.get("version_id") == record["version_id"] and mark["counted_from"] >= record["counted_from"]


def is_whole(record: "Mapping[str, Any]") -> bool:
    """Whether the record is as it was sealed, and has the fields that are relied on."""
    try:
        if record.get("schema") != SCHEMA or sealed(record) != dict(record):
            return False
    except (TypeError, ValueError, RecursionError):
        return False
    times = (record.get("approved_at"), record.get("counted_from"), record.get("expires_at"))
    words = (record.get("version_id"), record.get("config_sha256"), record.get("approved_via"))
    return all(is_time(time) for time in times) and all(isinstance(word, str) for word in words)


def is_time(value: object) -> bool:
    """Whether `value` can be a time in seconds since the epoch."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def check(record: "Mapping[str, Any]", *, version_id: str, config_sha256: str, clock: Clock) -> None:
    """Refuse a record that does not allow this version to start with this hash now. Raises ApprovalError."""
    if not is_whole(record):
        raise damaged("the approval record")
    if record["version_id"] != version_id or record["config_sha256"] != config_sha256:
        raise ApprovalError(
            "the approval record is for another plan\n"
            f"  expected: {version_id} {config_sha256}\n"
            f"  got:      {record['version_id']} {record['config_sha256']}",
            code="APPROVAL_INVALID",
            hint="approve this YAML's own hash",
        )
    if record.get("voided_at"):
        raise ApprovalError(
            "the approval is void: the YAML was rewritten after it", code="APPROVAL_MISSING", hint="approve it again"
        )
    behind_s = record["counted_from"] - clock.now
    if behind_s > CLOCK_ALLOWANCE_S:
        raise ApprovalError(
            f"this host's clock lies {_duration(behind_s)} before the time from which the approval counts",
            code="CLOCK_SET_BACK",
            hint="set the clock right; if it is right now, inspect the YAML again and approve it anew",
        )
    late_s = _age_s(record, clock) - VALID_S
    if late_s > 0 or record.get("seen_expired_at"):
        raise expired(late_s)


def stands(record: "Mapping[str, Any]", *, version_id: str, config_sha256: str, clock: Clock) -> bool:
    """Whether `check` would let it pass."""
    try:
        check(record, version_id=version_id, config_sha256=config_sha256, clock=clock)
    except ApprovalError:
        return False
    return True


def expired(late_s: float) -> ApprovalError:
    """The refusal of an approval that ended `late_s` seconds ago; not above 0: it ended once, by another clock."""
    when = f" {_duration(late_s)} ago" if late_s > 0 else ", whatever the clock says now"
    return ApprovalError(
        f"the approval expired{when}",
        code="APPROVAL_EXPIRED",
        hint="inspect the YAML again (trainer inspect), then approve and run it",
    )


def damaged(what: str) -> ApprovalError:
    """The refusal of a record that nobody can rely on."""
    return ApprovalError(
        f"{what} is damaged or was edited: its digest does not match",
        code="APPROVAL_INVALID",
        hint="approve the YAML again",
    )


def _age_s(record: "Mapping[str, Any]", clock: Clock) -> float:
    """Seconds since the life began: by the wall clock, or since boot where that says more (a clock set back)."""
    by_wall = clock.now - record["counted_from"]
    began = record.get("boot") or {}
    if began.get("boot_id") == clock.boot_id and isinstance(began.get("boot_s"), int | float):
        return float(max(by_wall, clock.boot_s - began["boot_s"]))
    return float(by_wall)


def _duration(seconds: float) -> str:
    minutes = int(seconds // 60)
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours"
