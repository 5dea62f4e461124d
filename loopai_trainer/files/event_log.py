"""events.jsonl: append-only StreamEvents, numbered by `seq` across writers and attempts; `seq` alone orders them."""

import fcntl
import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SCHEMA_VERSION = 1
CURRENT = "trainer"
"""The agent that events belong to, in LoopAI's terms (StreamEvent.current)."""

_TAIL_BYTES = 64 * 1024


def append(
    path: str,
    *,
    version_id: str,
    task_id: str,
    attempt: int,
    node: str,
    status: str,
    message: str = "",
    progress: float | None = None,
    data: "Mapping[str, Any] | None" = None,
    error: "Mapping[str, Any] | None" = None,
    elapsed_s: float = 0.0,
) -> int:
    """Append one event and return its seq. `progress` is 0 to 1; `elapsed_s` is monotonic, from the attempt's start.

    The number and the line are made under the file's own lock: a worker and a canceller may write at once.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        last, whole = _last_seq(fd)
        event = {
            "schema_version": SCHEMA_VERSION,
            "seq": last + 1,
            "attempt": attempt,
            "current": CURRENT,
            "node": node,
            "status": status,
            "progress": progress,
            "message": message,
            "data": None if data is None else dict(data),
            "context_id": task_id,
            "error": None if error is None else dict(error),
            "version_id": version_id,
            "time": utc_text(time.time()),
            "elapsed_s": round(elapsed_s, 3),
        }
        line = json.dumps(event, ensure_ascii=False, allow_nan=False).encode("utf-8")
        # A writer that was killed (or a full disk) may have left half a line: it must not swallow this one.
        os.write(fd, (b"" if whole else b"\n") + line + b"\n")
    finally:
        os.close(fd)
    return last + 1


def read(path: str, since_seq: int = 0) -> "list[dict[str, Any]]":
    """All whole events with a seq above `since_seq`, by seq; a missing file has none."""
    events, _ = read_from(path, 0)
    return sorted((event for event in events if event["seq"] > since_seq), key=_seq)


def read_from(path: str, offset: int) -> "tuple[list[dict[str, Any]], int]":
    """The whole events after byte `offset`, in file order, and the offset to go on from (for following)."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], offset
    end = data.rfind(b"\n") + 1
    parsed = (_parsed(line) for line in data[:end].split(b"\n"))
    return [event for event in parsed if event is not None], offset + end


def utc_text(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 UTC with milliseconds and Z."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"


def _seq(event: "dict[str, Any]") -> int:
    return int(event["seq"])


def _parsed(line: bytes) -> "dict[str, Any] | None":
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("seq"), int) else None


def _last_seq(fd: int) -> tuple[int, bool]:
    """(highest seq near the end, whether the file ends with a whole line); reads more until it finds one."""
    size = os.fstat(fd).st_size
    if size == 0:
        return 0, True
    length = min(size, _TAIL_BYTES)
    while True:
        tail = os.pread(fd, length, size - length)
        found = [event["seq"] for line in tail.split(b"\n") if (event := _parsed(line)) is not None]
        if found or length == size:
            return max(found, default=0), tail.endswith(b"\n")
        length = min(size, length * 8)
