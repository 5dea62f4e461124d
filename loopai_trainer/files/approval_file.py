"""approval.json of a run and approvals.jsonl of its task: the only place that reads and writes them.

Neither is ever followed through a symbolic link, nor opened if it is anything but a plain file. Light: `status --json`
and `run-prepared` import it.
"""

import json
import os
import stat

from loopai_trainer.errors import ApprovalError
from loopai_trainer.files import atomic
from loopai_trainer.rules import approval

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir, TaskDir

_MAX_BYTES = 64 << 20


def read(run: "RunDir") -> "dict[str, Any] | None":
    """The run's record as it was sealed; None if there is none. Raises ApprovalError APPROVAL_INVALID."""
    data = _bytes(run.approval)
    if data is None:
        return None
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        raise _unusable(run.approval, "is not readable") from None
    if not isinstance(record, dict) or not approval.is_whole(record):
        raise approval.damaged(run.approval)
    return record


def write(run: "RunDir", record: "dict[str, Any]") -> None:
    """Replace the run's record."""
    atomic.write_json(run.approval, record)


def append(task: "TaskDir", record: "dict[str, Any]") -> None:
    """Add a line to the task's history. Raises ApprovalError if that file is a symbolic link."""
    refuse_link(task.approvals)
    line = json.dumps(record, ensure_ascii=False, sort_keys=True).encode("utf-8", "backslashreplace")
    atomic.make_private_dir(task.path)  # a run directory elsewhere may be the task's first
    atomic.append_line(task.approvals, line, sync=True)


def history(task: "TaskDir") -> "list[dict[str, Any]]":
    """All whole records of the task, oldest first; torn or edited lines are passed over. Raises ApprovalError."""
    return [record for record in _lines(task) if approval.is_whole(record)]


def is_used_up(task: "TaskDir", record: "dict[str, Any]") -> bool:
    """Whether training was exec'd under this approval, whatever is left of the run itself. Raises ApprovalError."""
    return any(approval.uses_up(mark, record) for mark in _lines(task))


def note_training(run: "RunDir", at: float) -> None:
    """Add to the task's history that training was exec'd under the run's approval. Raises ApprovalError, OSError."""
    record = read(run)
    if record is not None:
        append(run.task, approval.training_mark(record, at=at))


def _lines(task: "TaskDir") -> "list[dict[str, Any]]":
    found = []
    for line in (_bytes(task.approvals) or b"").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            found.append(record)
    return found


def refuse_link(path: str) -> None:
    """Raises ApprovalError APPROVAL_INVALID for a symbolic link."""
    if os.path.islink(path):
        raise _unusable(path, "is a symbolic link")


def _bytes(path: str) -> bytes | None:
    refuse_link(path)
    try:
        # NOFOLLOW: it may have become a link meanwhile. NONBLOCK: a pipe of that name must keep nobody waiting.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _unusable(path, "is not a plain file")
        with open(fd, "rb", closefd=False) as file:
            return file.read(_MAX_BYTES)
    finally:
        os.close(fd)


def _unusable(path: str, why: str) -> ApprovalError:
    return ApprovalError(f"{path} {why}", code="APPROVAL_INVALID", hint="remove it, and approve again")
