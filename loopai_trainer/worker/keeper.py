"""The keeper: stands between worker and training, holds training's lock, its children and its output; never kills.

Run by file path with `-I -S` and importing nothing of ours, so that nothing of ours can end it. It becomes a child
subreaper: every process that training leaves behind, in whatever session, becomes its child, and it stays until the
last one is gone. Descriptor 0 holds the job (see `Job`); LOCK_FD and those after it are locks, which end with it.

Light until training was exec'd: the job comes marshalled and the first records are formatted by hand, since json,
signal and select together cost as much as starting Python does (measured with Python 3.11).
"""

from __future__ import annotations

import ctypes
import marshal
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOCK_FD = 3  # training.lock; the locks of the devices have the numbers after it

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL = 9
_SET_TO_DEFAULT = (1, 2, 3, 13, 15, 25)
"""An ignored signal stays ignored after exec: SIGPIPE and SIGXFSZ, which Python ignores from its start, and SIGHUP,
SIGINT, SIGQUIT and SIGTERM, which `nohup` or a shell's background job may have had ignored in the caller."""

_PIECE = 64 * 1024
_PIPE_BYTES = 1024 * 1024
_F_SETPIPE_SZ = 1031
_SETTLE_S = 0.05
"""Pause after a small read, so that a chatty training costs reads of many lines instead of one wake-up a line."""
_RETRY_S = 1.0
_RETRIES = 30
_RESERVED, _RESERVED_BYTES = ".reserved", 4096


class Job:
    """What to start (`argv`, `cwd`, `env`); paths `log`, `started`, `exit`; the log's bounds; how many `locks` came.

    `helpers`: (argv, cwd, env) of what is started beside it; `helper_ended`: where the first end of one is noted.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self.argv: list[str] = values["argv"]
        self.cwd: str = values["cwd"]
        self.env: dict[str, str] = values["env"]
        self.log: str = values["log"]
        self.started: str = values["started"]
        self.exit: str = values["exit"]
        self.log_limit_bytes: int = values["log_limit_bytes"]
        self.log_files: int = values["log_files"]
        self.locks: int = values.get("locks", 1)
        self.helpers: list[tuple[list[str], str, dict[str, str]]] = values.get("helpers", [])
        self.helper_ended: str = values.get("helper_ended", "")


class Log:
    """Training's output in bounded files: `path`, then `path`.1 (newest) to `path`.N; cut between lines if possible."""

    def __init__(self, path: str, limit_bytes: int, files: int) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self.files = files
        self.dropped_bytes = 0
        self.fd = -1
        self.size = 0
        self._open()

    def write(self, data: bytes) -> None:
        """Append; what cannot be written (disk full) is dropped and counted, so that training is never blocked."""
        room = self.limit_bytes - self.size
        if len(data) > room:
            cut = data.rfind(b"\n", 0, max(room, 0)) + 1
            if cut == 0 and room > 0 and self.size == 0:
                cut = room
            self._append(data[:cut])
            self._rotate()
            data = data[cut:]
            while len(data) > self.limit_bytes:
                self._append(data[: self.limit_bytes])
                data = data[self.limit_bytes :]
                self._rotate()
        self._append(data)

    def _append(self, data: bytes) -> None:
        while data:
            try:
                written = os.write(self.fd, data)
            except OSError:
                self.dropped_bytes += len(data)
                return
            self.size += written
            data = data[written:]

    def _rotate(self) -> None:
        try:
            for number in range(self.files, 0, -1):
                older = f"{self.path}.{number}"
                newer = self.path if number == 1 else f"{self.path}.{number - 1}"
                if os.path.exists(newer):
                    os.replace(newer, older)
            former = self.fd
            self._open()
            os.close(former)
        except OSError:
            self.size = 0  # tried again when as much has been written once more

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.fd = os.open(self.path, flags, 0o600)
        self.size = os.fstat(self.fd).st_size


def main() -> int:
    """Start training and stay until nothing of it is left. Exit status 0, or 1 if nothing was started."""
    with open(0, "rb", closefd=False) as file:
        job = Job(marshal.load(file))
    _close_others(LOCK_FD + job.locks)
    libc = ctypes.CDLL(None, use_errno=True)
    if _prctl(libc, _PR_SET_CHILD_SUBREAPER, 1) != 0:
        _tell("keeper: the kernel refuses PR_SET_CHILD_SUBREAPER; nothing was started")
        return 1
    log = Log(job.log, job.log_limit_bytes, job.log_files)
    reading, writing = os.pipe2(os.O_CLOEXEC)
    write_whole(job.started, _started_text(None))
    begun_s = time.monotonic()
    pid, error = start(job, (job.argv, job.cwd, job.env), libc, writing)
    if error:
        ending = Ending(job.exit)
        ending.note({"returncode": None, "signal": None, "exec_error": error, "duration_s": 0.0})
        ending.insist()
        os.waitpid(pid, 0)
        return 0
    _note_training(job, pid)
    reserve(job.exit)
    helpers = _start_helpers(job, libc, writing) if job.helpers else {}
    os.close(writing)
    keep(job, log, reading, pid, begun_s, helpers)
    return 0


def _close_others(first: int) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= first:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor of the listing itself


def _note_training(job: Job, pid: int) -> None:
    try:
        write_whole(job.started, _started_text(pid))
    except OSError as error:  # a full disk must not end what runs: the worker finds training below the keeper too
        _tell(f"keeper: {job.started}: {error}")


def _start_helpers(job: Job, libc: ctypes.CDLL, output: int) -> dict[int, str]:
    """pid -> name of what was started beside training; one that cannot be started has ended."""
    helpers = {}
    for number, program in enumerate(job.helpers, 1):
        name = f"helper {number} ({' '.join(program[0][-2:])})"
        pid, error = start(job, program, libc, output)
        helpers[pid] = name
        if error:
            _note_helper(job, {"name": name, "returncode": None, "exec_error": error})
    return helpers


def _note_helper(job: Job, record: dict[str, Any]) -> None:
    """The first helper that has ended while training lives: the worker then ends training, which needs it."""
    import json

    if not os.path.exists(job.helper_ended):
        try:
            write_whole(job.helper_ended, json.dumps(record))
        except OSError as error:
            _tell(f"keeper: {job.helper_ended}: {error}")


def start(job: Job, program: tuple[list[str], str, dict[str, str]], libc: ctypes.CDLL, output: int) -> tuple[int, str]:
    """Fork and exec (argv, cwd, env); returns (pid, '') once it was exec'd, or (pid, why it could not be)."""
    telling, told = os.pipe2(os.O_CLOEXEC)
    keeper_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become(job, program, libc, output, keeper_pid)
        except (OSError, ValueError) as error:
            os.write(told, f"{program[0][0]}: {error}".encode("utf-8", "replace")[:4000])
        finally:
            os._exit(127)  # the child of a fork must never run on into its parent's code
    os.close(told)
    with open(telling, "rb") as file:
        return pid, file.read().decode("utf-8", "replace")


def _become(
    job: Job, program: tuple[list[str], str, dict[str, str]], libc: ctypes.CDLL, output: int, keeper_pid: int
) -> None:
    os.setsid()
    # The keeper's death must not leave a training that nobody holds the lock for.
    _prctl(libc, _PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != keeper_pid:
        os._exit(127)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    for number in _SET_TO_DEFAULT:
        libc.signal(number, None)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(LOCK_FD, LOCK_FD + job.locks)  # training must hold no lock: it would keep it for its children
    argv, cwd, env = program
    os.chdir(cwd)
    os.execvpe(argv[0], argv, env)


def _prctl(libc: ctypes.CDLL, option: int, value: int) -> int:
    zero = ctypes.c_ulong(0)
    done: int = libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero)
    return done


def keep(job: Job, log: Log, output: int, main_pid: int, begun_s: float, helpers: dict[int, str]) -> None:
    """Pump the output and reap the children until no descendant is left; write exit.json when `main_pid` ends.

    `helpers`: pid -> name of what runs beside it; the first that ends before it is noted.
    """
    import select

    _grow_pipe(output)
    os.set_blocking(output, False)
    poll = select.poll()
    poll.register(output, select.POLLIN)
    wake = _wake_on_child()
    poll.register(wake, select.POLLIN)
    ending = Ending(job.exit)
    while _reap(job, ending, log, output, main_pid, begun_s, helpers):
        for fd, _ in poll.poll(_RETRY_S * 1000 if ending.waiting else None):
            if fd == wake:
                os.read(wake, 4096)
            elif not _pump(log, output):
                poll.unregister(output)
    # Strangers may hold the pipe's other end for ever; nobody of ours is left, so nobody waits for them.
    _drain(log, output)
    ending.insist()
    if log.dropped_bytes:
        _tell(f"keeper: {log.dropped_bytes} bytes of output could not be written to {job.log}")


def _pump(log: Log, output: int) -> bool:
    """Move one piece of output into the log; False at the end of the pipe."""
    try:
        data = os.read(output, _PIECE)
    except BlockingIOError:
        return True
    log.write(data)
    if 0 < len(data) < _PIECE:
        time.sleep(_SETTLE_S)
    return bool(data)


def _drain(log: Log, output: int) -> None:
    """Move what lies in the pipe now (at most what it can hold)."""
    for _ in range(_PIPE_BYTES // _PIECE):
        try:
            data = os.read(output, _PIECE)
        except BlockingIOError:
            return
        log.write(data)
        if not data:
            return


def _reap(
    job: Job, ending: Ending, log: Log, output: int, main_pid: int, begun_s: float, helpers: dict[int, str]
) -> bool:
    """Collect ended children; False when none is left. The main process's end is written down as soon as it can be."""
    ending.try_again()
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        if pid == main_pid:
            _drain(log, output)  # whoever reads exit.json then finds training's last words in the log
            code = os.waitstatus_to_exitcode(status)
            record = {
                "returncode": code,
                "signal": -code if code < 0 else None,
                "exec_error": None,
                "duration_s": round(time.monotonic() - begun_s, 3),
            }
            ending.note(record)
            helpers.clear()  # what ends from now on is meant to
        elif pid in helpers:
            _note_helper(job, {"name": helpers.pop(pid), "returncode": os.waitstatus_to_exitcode(status)})


def _wake_on_child() -> int:
    """A descriptor that can be read whenever a child has ended; polite signals are only noted (a keeper stays)."""
    import signal

    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    os.write(writing, b"\0")  # a child may have ended before this handler was there
    return reading


def _grow_pipe(fd: int) -> None:
    import fcntl

    try:
        fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        pass  # the user's pipe allowance is used up: the default size works too


class Ending:
    """exit.json; its text is `waiting` while the disk is full: nobody else can know the exit status."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.waiting = ""

    def note(self, record: dict[str, Any]) -> None:
        """Write it now if that can be."""
        import json

        self.waiting = json.dumps({**record, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        self.try_again()

    def try_again(self) -> None:
        """One more try: as every file is written, else into the space that was reserved for it."""
        if not self.waiting:
            return
        try:
            write_whole(self.path, self.waiting)
        except OSError as error:
            _tell(f"keeper: {self.path}: {error}")
            try:
                _write_reserved(self.path, self.waiting)
            except OSError:
                return
        self.waiting = ""
        _unlink(self.path + _RESERVED)

    def insist(self) -> None:
        """Half a minute of tries, when nothing else is left to do."""
        for _ in range(_RETRIES):
            if not self.waiting:
                return
            time.sleep(_RETRY_S)
            self.try_again()


def reserve(path: str) -> None:
    """Take the space that exit.json will need, while there is some."""
    try:
        fd = os.open(path + _RESERVED, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, _RESERVED_BYTES)
        finally:
            os.close(fd)
    except OSError:
        _unlink(path + _RESERVED)  # an empty file is no room


def _write_reserved(path: str, text: str) -> None:
    data = text.encode("ascii") + b"\n"
    fd = os.open(path + _RESERVED, os.O_WRONLY | os.O_CLOEXEC)
    try:
        written = os.pwrite(fd, data, 0)
        os.ftruncate(fd, written)
        os.fsync(fd)
    finally:
        os.close(fd)
    if written != len(data):
        raise OSError(28, "no room for the exit status")
    os.replace(path + _RESERVED, path)


def _tell(text: str) -> None:
    try:
        os.write(2, text.encode("utf-8", "replace") + b"\n")
    except OSError:
        pass  # worker.log is on the full disk too


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # it is gone, or was never there


def write_whole(path: str, text: str) -> None:
    """Replace `path` in one step (temp, fsync, rename)."""
    temp = f"{path}.{os.getpid()}.tmp"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(fd)
        os.replace(temp, path)
    except OSError:
        _unlink(temp)
        raise


def _started_text(training_pid: int | None) -> str:
    training = "null" if training_pid is None else _identity_text(training_pid)
    return f'{{"keeper": {_identity_text(os.getpid())}, "training": {training}}}'


def _identity_text(pid: int) -> str:
    """Identity as JSON: numbers and a boot id of hexadecimal digits, so nothing in it needs escaping."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            start_time = int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return "null"
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as text:
        boot_id = text.read().strip()
    pid_ns = os.stat("/proc/self/ns/pid").st_ino
    return f'{{"pid": {pid}, "start_time": {start_time}, "boot_id": "{boot_id}", "pid_ns": {pid_ns}}}'


if __name__ == "__main__":
    sys.exit(main())
