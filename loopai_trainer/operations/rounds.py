"""The approved rounds of a task, and what a plan changes since the last one. Light until it compares texts."""

from __future__ import annotations

import hashlib
import os

from loopai_trainer.files import approval_file
from loopai_trainer.files.run_dir import RunDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Round:
    """A version of the task that was approved. `number` counts from 1, in the order in which they were approved."""

    __slots__ = ("approved_at", "config_sha256", "number", "run_dir", "version_id")

    def __init__(self, record: Mapping[str, Any], number: int, task_run_dir: str) -> None:
        self.version_id: str = record["version_id"]
        self.config_sha256: str = record["config_sha256"]
        self.approved_at: float = record["approved_at"]
        self.run_dir: str = record.get("run_dir") or task_run_dir
        self.number = number

    def as_json(self) -> dict[str, Any]:
        """What records and answers say of it."""
        return {
            "version_id": self.version_id,
            "round": self.number,
            "config_sha256": self.config_sha256,
            "approved_at": self.approved_at,
        }


def rounds(run: RunDir) -> list[Round]:
    """The approved rounds of the run's task, each version once, with its last approval. Raises ApprovalError."""
    last: dict[str, Mapping[str, Any]] = {}
    for record in approval_file.history(run.task):
        if record.get("voided_at"):
            last.pop(record["version_id"], None)
        else:
            last[record["version_id"]] = record  # a dict keeps the place of a version's first approval
    return [
        Round(record, number, run.task.run(version_id).path)
        for number, (version_id, record) in enumerate(last.items(), 1)
    ]


def number_of(run: RunDir) -> int:
    """The run's own round number: as approved already, else the next."""
    found = rounds(run)
    return next((one.number for one in found if one.version_id == run.version_id), len(found) + 1)


def earlier(run: RunDir) -> list[Round]:
    """The rounds that were approved before this version, the last one first."""
    found = rounds(run)
    own = next((index for index, one in enumerate(found) if one.version_id == run.version_id), len(found))
    return found[:own][::-1]


def approved_text(one: Round) -> str | None:
    """The YAML that the round approved, known by its hash; None if it is not there any more."""
    return text_of(RunDir(one.run_dir, one.version_id), one.config_sha256)


def text_of(run: RunDir, sha256: str | None = None) -> str | None:
    """The run's YAML with that hash (None: as it was approved and started, else as it is now)."""
    for path in (run.approved_config, run.config):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        with open(fd, "rb") as file:
            data = file.read()
        if sha256 is None or hashlib.sha256(data).hexdigest() == sha256:
            return data.decode("utf-8", "replace")
    return None


def since_approved(run: RunDir, text: str) -> dict[str, Any] | None:
    """`{"against", "changed", "unified"}` from the last approved round to `text`; None if there was no such round.

    A round whose YAML is gone is passed over; `changed` and `unified` are None if all are. Raises ApprovalError,
    ConfigError.
    """
    before = earlier(run)
    for one in before:
        old = approved_text(one)
        if old is not None:
            return {"against": one.as_json(), **compare(old, RunDir(one.run_dir, one.version_id), text, run)}
    return {"against": before[0].as_json(), "changed": None, "unified": None} if before else None


def compare(before: str, before_run: RunDir, after: str, after_run: RunDir) -> dict[str, Any]:
    """`{"changed", "unified"}` between two YAML texts. Raises ConfigError for one that is no YAML."""
    from loopai_trainer.rules import plan_diff, yaml_text

    changed = plan_diff.changes(
        yaml_text.load(before, before_run.config, "config").values,
        yaml_text.load(after, after_run.config, "config").values,
        before_dir=before_run.path,
        after_dir=after_run.path,
    )
    unified = plan_diff.unified(before, after, f"{before_run.version_id} (before)", f"{after_run.version_id} (after)")
    return {"changed": [change.as_json() for change in changed], "unified": unified}


def noted(since: Mapping[str, Any] | None) -> dict[str, Any]:
    """What plan.json keeps of a difference that was shown: an approval by hash takes it over."""
    if since is None:
        return {"previous_round": None, "diff": None, "diff_sha256": None}
    from loopai_trainer.rules import plan_diff

    sha256 = None if since["unified"] is None else plan_diff.digest(since["unified"])
    return {"previous_round": since["against"], "diff": dict(since), "diff_sha256": sha256}
