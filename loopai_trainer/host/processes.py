"""Process identity (pid + start time + boot id + pid namespace), the tree below a process, and its ending.

A pid alone is never trusted and never signalled: pids are used again, and other namespaces have their own.
Light on purpose: `status --json` and the worker import it before training starts.
"""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypedDict

    class Identity(TypedDict):
        """One process, for ever: `start_time` in clock ticks since boot, `pid_ns` the inode of its pid namespace."""

        pid: int
        start_time: int
        boot_id: str
        pid_ns: int


MARK = "LOOPAI_TRAINER_RUN"
"""Environment variable that every process of a training inherits: `version:attempt:run key`."""

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_COMMAND_SHOWN = 400
_EXEC_S, _EXEC_PAUSE_S = 1.0, 0.001
"""How long one look waits for processes that are in the middle of exec, which takes them microseconds."""
_ENV_PLACE = slice(47, 49)
"""env_start and env_end among the fields of /proc/PID/stat after the command's name; fields 50 and 51 of proc(5)."""


_here: "dict[str, Any]" = {}  # constant for the life of a process, and wanted for each of hundreds of descendants


def boot_id() -> str:
    """The id of this boot of this host."""
    if "boot_id" not in _here:
        with open(_BOOT_ID, encoding="ascii") as file:
            _here["boot_id"] = file.read().strip()
    return str(_here["boot_id"])


def pid_namespace() -> int:
    """The inode of this process's pid namespace."""
    if "pid_ns" not in _here:
        _here["pid_ns"] = os.stat("/proc/self/ns/pid").st_ino
    return int(_here["pid_ns"])


def identify(pid: int) -> "Identity | None":
    """The identity of a living process; None if there is none of that pid, or only a zombie."""
    stat = _stat(pid)
    if stat is None or stat.zombie:
        return None
    return _identity(pid, stat.start_time)


def own_identity() -> "Identity":
    """The identity of this process."""
    found = identify(os.getpid())
    if found is None:
        raise OSError("/proc does not show this process")
    return found


def visible(identity: "Mapping[str, Any] | None") -> bool:
    """Whether this process can tell if `identity` lives: same pid namespace, and the same boot or an earlier one."""
    return isinstance(identity, dict) and identity.get("pid_ns") in (None, pid_namespace())


def alive(identity: "Mapping[str, Any] | None") -> bool:
    """Whether exactly that process lives and is not a zombie; false for a record that lacks a part."""
    if not isinstance(identity, dict):
        return False
    pid = identity.get("pid")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        return False
    return identify(pid) == {key: identity.get(key) for key in ("pid", "start_time", "boot_id", "pid_ns")}


def stopped(identity: "Mapping[str, Any] | None", *, traced: bool = True) -> bool:
    """Whether exactly that process lives and is stopped (SIGSTOP), or, with `traced`, held by a debugger."""
    if identity is None or not alive(identity):
        return False
    state = _read(f"/proc/{identity['pid']}/stat").rpartition(b")")[2][1:2]
    return state == b"T" or (traced and state == b"t")


def descendants(root: "Mapping[str, Any] | None") -> "list[Identity]":
    """All living processes below `root` (not `root` itself), whatever their sessions; empty if it does not live."""
    if root is None or not alive(root):
        return []
    stats = dict(_all_stats())
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    found: list[int] = []
    queue = list(children.get(root["pid"], ()))
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, ())
    return [_identity(pid, stats[pid].start_time) for pid in sorted(found) if not stats[pid].zombie]


def run_key(run_path: str) -> str:
    """A name for one run directory on this host: version ids alone are chosen by users and may occur twice."""
    stat = os.stat(run_path)
    return f"{stat.st_dev:x}-{stat.st_ino:x}"


def mark(version_id: str, attempt: int, run_path: str) -> str:
    """The value of the variable MARK for the processes of a training attempt."""
    return f"{version_id}:{attempt}:{run_key(run_path)}"


def marked(version_id: str, run_path: str) -> "list[Identity]":
    """Living processes that carry the mark of this run, whatever the attempt; none if its directory is gone."""
    first = f"\0{MARK}={version_id}:".encode()
    try:
        last = f":{run_key(run_path)}".encode()
    except FileNotFoundError:
        return []
    found = []
    until = time.monotonic() + _EXEC_S
    for pid in _pids():
        environment = environment_of(pid, until)
        at = environment.find(first)
        if at >= 0 and environment[at + 1 :].split(b"\0", 1)[0].endswith(last):
            identity = identify(pid)
            if identity is not None and pid != os.getpid():
                found.append(identity)
    return found


def environment_of(pid: int, until: float) -> bytes:
    r"""The variables of a process, each after a NUL; `\0` alone where there are none, or none that may be seen.

    A process that is just being exec'd shows none for an instant: whoever looks for a mark then would miss it, so that
    is waited for, at the most to `until` (monotonic seconds).
    """
    found = _read(f"/proc/{pid}/environ")
    while not found and _may_have_variables(pid) and time.monotonic() < until:
        time.sleep(_EXEC_PAUSE_S)
        found = _read(f"/proc/{pid}/environ")
    return b"\0" + found


def _may_have_variables(pid: int) -> bool:
    """Whether the process has a program, and no empty place for its variables: it has some, or none yet (both ends 0).

    A kernel thread and a zombie have no program; another user's is not shown. Source: Linux fs/exec.c, fs/proc/base.c.
    """
    try:
        os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
    start, end = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[_ENV_PLACE] or (b"", b"")
    return start != end or end == b"0"


def describe(identity: "Mapping[str, Any]") -> "dict[str, Any]":
    """pid, age in seconds (by the boot clock, which never steps) and command of a living process, for people."""
    pid = identity["pid"]
    words = _read(f"/proc/{pid}/cmdline").rstrip(b"\0").split(b"\0")
    text = b" ".join(words).decode("utf-8", "replace")[:_COMMAND_SHOWN]
    # One line, and nothing that a terminal obeys: a process may call itself what it likes.
    command = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    since_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    age_s = since_boot_s - identity["start_time"] / os.sysconf("SC_CLK_TCK")
    return {"pid": pid, "age_s": round(max(age_s, 0.0), 1), "command": command}


def send(identity: "Mapping[str, Any]", number: int) -> bool:
    """Send a signal to exactly that process; False if it does not live. Raises PermissionError."""
    import signal

    try:
        fd = os.pidfd_open(identity["pid"])
    except ProcessLookupError:
        return False
    try:
        # Looked at after the pidfd was opened: the pidfd then names this very process, even if the pid is used again.
        if not alive(identity):
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def terminate(
    find: "Callable[[], Iterable[Identity]]", *, grace_s: float, kill_s: float = 10.0, pause_s: float = 0.05
) -> "list[Identity]":
    """End all that `find` gives: SIGTERM once each, `grace_s` to leave, then SIGKILL; returns who still lives.

    `find` is asked again each time, so processes that appear meanwhile are ended too.
    """
    asked: set[tuple[int, int]] = set()
    until = time.monotonic() + grace_s
    living = _found(find)
    while living and time.monotonic() < until:
        for identity in living:
            key = (identity["pid"], identity["start_time"])
            if key not in asked:
                asked.add(key)
                _try_send(identity, 15)
        time.sleep(pause_s)
        living = _found(find)
    until = time.monotonic() + kill_s
    while living and time.monotonic() < until:
        for identity in living:
            _try_send(identity, 9)
        time.sleep(pause_s)
        living = _found(find)
    return living


def _found(find: "Callable[[], Iterable[Identity]]") -> "list[Identity]":
    """Looked for twice where nothing is found: who forks and leaves during a look is missed by it, child and all."""
    return list(find()) or list(find())


def _try_send(identity: "Identity", number: int) -> None:
    try:
        send(identity, number)
    except PermissionError:
        pass  # it changed its user id: it is left as a survivor, and is reported as one


class _Stat:
    __slots__ = ("parent", "start_time", "zombie")

    def __init__(self, parent: int, start_time: int, zombie: bool) -> None:
        self.parent = parent
        self.start_time = start_time
        self.zombie = zombie


def _stat(pid: int) -> _Stat | None:
    # proc(5): the command name may hold spaces and brackets, so fields are counted from the last bracket.
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return None
    return _Stat(int(fields[1]), int(fields[19]), fields[0] in (b"Z", b"X"))


def _all_stats() -> "Iterator[tuple[int, _Stat]]":
    for pid in _pids():
        stat = _stat(pid)
        if stat is not None:
            yield pid, stat


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _identity(pid: int, start_time: int) -> "Identity":
    return {"pid": pid, "start_time": start_time, "boot_id": boot_id(), "pid_ns": pid_namespace()}


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:
        return b""
