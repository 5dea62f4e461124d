"""The executor `local`: the worker runs on this host, in a session of its own, so that nobody's terminal reaches it."""

from __future__ import annotations

import os

from loopai_trainer.host import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RESET_SIGNALS = (1, 2, 3, 13, 15, 17, 20, 25)
"""HUP, INT, QUIT, PIPE, TERM, CHLD, TSTP, XFSZ: what a caller (nohup, an agent) ignores must not stay ignored below."""


class Local:
    """Starts the worker with posix_spawn, detached by setsid. Handle: the worker's identity as text."""

    name = "local"

    def start(self, argv: Sequence[str], run_dir: str, log_path: str, inherit_fds: Sequence[int]) -> str:
        """Start the worker; its output is appended to `log_path`, its stdin is empty. Raises OSError."""
        pid = os.posix_spawn(
            argv[0],
            list(argv),
            dict(os.environ),
            file_actions=[*_standard_streams(log_path), *_kept(inherit_fds)],
            setsid=True,
            setsigmask=(),
            setsigdef=_RESET_SIGNALS,
        )
        return handle_of(pid)

    def alive(self, handle: str) -> bool:
        """Whether exactly that worker lives, as far as this pid namespace shows."""
        return processes.alive(_identity(handle))

    def stop(self, handle: str, grace_s: float) -> None:
        """SIGTERM, which the worker takes as a request to cancel; SIGKILL after `grace_s` seconds."""
        identity = _identity(handle)
        processes.terminate(lambda: [identity] if processes.alive(identity) else [], grace_s=grace_s)

    def where(self, handle: str) -> str:
        """For people: the pid on this host."""
        return f"process {handle.split('/')[0]} on this host"


def handle_of(pid: int) -> str:
    """The handle of a process of this host: pid/start time/boot id/pid namespace; '' parts if it has ended already."""
    found = processes.identify(pid)
    if found is None:
        return f"{pid}///"
    return f"{found['pid']}/{found['start_time']}/{found['boot_id']}/{found['pid_ns']}"


def pid_of(handle: str) -> int:
    """The pid in a handle, for its parent to reap."""
    return int(handle.split("/")[0])


EXECUTOR = Local()


def _identity(handle: str) -> processes.Identity:
    pid, start_time, boot_id, pid_ns = handle.split("/")
    return {
        "pid": int(pid),
        "start_time": int(start_time or -1),
        "boot_id": boot_id,
        "pid_ns": int(pid_ns or -1),
    }


def _standard_streams(log_path: str) -> list[tuple[int | str, ...]]:
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log_path, append, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]


def _kept(fds: Sequence[int]) -> Iterator[tuple[int | str, ...]]:
    # By way of a second number: dup2 of a descriptor onto itself keeps close-on-exec with a libc before glibc 2.29.
    # Never by making the caller's own descriptor inheritable: another thread's child would then keep the lock.
    spare = max(fds, default=2) + 1
    for fd in fds:
        yield (os.POSIX_SPAWN_DUP2, fd, spare)
        yield (os.POSIX_SPAWN_DUP2, spare, fd)
    if fds:
        yield (os.POSIX_SPAWN_CLOSE, spare)
