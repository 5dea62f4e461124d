"""Asking a backend's own environment: a short program, in a scratch folder, with a time limit, answering on stdout."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from typing import NamedTuple

from loopai_trainer.errors import BackendMissing, ConfigError
from loopai_trainer.host import processes
from loopai_trainer.rules.visible_text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from loopai_trainer.records import Command, Question

POLL_S = 0.25
ANSWER_BYTES = 256 * 1024 * 1024
"""More than this is no answer of any of our programs."""

_STRAY_ROUNDS = 20
_STRAY_LOOK_S = 1.0
_TAIL_BYTES = 4096
_TAIL_LINES = 8
_AT_WORK = "LOOPAI_TRAINER_AT_WORK"
"""Variable with the path of a file: a program that runs somebody's code says there whose, while it runs."""
_PR_SET_PDEATHSIG = 1
_HOME_VARIABLES = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME", "MPLCONFIGDIR")


class Stopped(Exception):
    """The caller's own `stopped` said so before the answer was there."""


def ask(question: Question, stopped: Callable[[], bool] = lambda: False) -> bytes:
    """The answer's exact bytes. `stopped` is asked a few times a second.

    Raises BackendMissing: BACKEND_BROKEN with the program's last words, BACKEND_TIMEOUT after `limit_s`; and Stopped.
    ConfigError, if a signal killed it while it ran code of the user's, which it has left word of.
    """
    scratch = tempfile.mkdtemp(prefix="loopai-ask-")
    try:
        return _answer(question, scratch, stopped)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run_program(
    what: str, command: Command, limit_s: float, log_path: str, stopped: Callable[[], bool] = lambda: False
) -> int:
    """Run a command to its end with its output appended to a log; gives its exit status (negative: a signal).

    Its home and caches are a scratch folder. Raises BackendMissing (not startable, BACKEND_TIMEOUT) and Stopped.
    """
    scratch = tempfile.mkdtemp(prefix="loopai-run-")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    log = os.open(log_path, flags, 0o600)
    try:
        with open(os.devnull, "rb") as nothing:
            env = {**command.env, **dict.fromkeys(_HOME_VARIABLES, scratch)}
            program = _Program(what, command.argv, command.cwd or scratch, env, limit_s)
            return _run(program, (nothing.fileno(), log, log), stopped)
    finally:
        os.close(log)
        shutil.rmtree(scratch, ignore_errors=True)


class _Program(NamedTuple):
    what: str
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    limit_s: float


def _answer(question: Question, scratch: str, stopped: Callable[[], bool]) -> bytes:
    folder = os.path.join(scratch, "home")
    os.mkdir(folder, 0o700)
    told, talk, at_work = (os.path.join(scratch, name) for name in ("answer", "talk", "at_work"))
    env = {**question.command.env, **dict.fromkeys(_HOME_VARIABLES, folder), _AT_WORK: at_work}
    with open(os.path.join(scratch, "question"), "w+b") as asked, open(told, "wb") as out, open(talk, "wb") as err:
        asked.write(question.stdin)
        asked.flush()
        asked.seek(0)
        program = _Program(question.what, question.command.argv, folder, env, question.limit_s)
        code = _run(program, (asked.fileno(), out.fileno(), err.fileno()), stopped)
    if code < 0:
        _blame_who_ran(question, at_work, -code)
    if code != 0:
        raise _broken(question, f"ended with exit status {code}", talk)
    if os.path.getsize(told) > ANSWER_BYTES:
        raise _broken(question, "answered far too much", talk)
    with open(told, "rb") as file:
        answer = file.read()
    if not answer.strip():
        raise _broken(question, "gave no answer", talk)
    return answer


def _run(program: _Program, streams: tuple[int, int, int], stopped: Callable[[], bool]) -> int:
    """The exit status; the program and all of its session are gone afterwards, whatever happens."""
    try:
        process = subprocess.Popen(
            program.argv,
            cwd=program.cwd,
            env=program.env,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
            preexec_fn=_die_with_parent(),
        )
    except OSError as error:
        raise BackendMissing(
            f"{program.what}: {program.argv[0]} cannot be started: {error.strerror}",
            code="BACKEND_BROKEN",
            hint="make the environment anew with trainer setup",
        ) from None
    try:
        return _waited(process, program, stopped)
    finally:
        _end(process)
        _end_strays(program.env["HOME"])


def _waited(process: subprocess.Popen[bytes], program: _Program, stopped: Callable[[], bool]) -> int:
    left_s = program.limit_s
    while True:
        try:
            return process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            left_s -= POLL_S
        if stopped():
            raise Stopped(program.what)
        if left_s <= 0:
            raise BackendMissing(
                f"{program.what}: not done within {program.limit_s:.0f} seconds",
                code="BACKEND_TIMEOUT",
                hint="try again when the machine is less busy; if it stays so, look at the environment",
            )


def _end(process: subprocess.Popen[bytes]) -> None:
    # The leader is not reaped before its group was killed: until then nobody else can have its number.
    if process.returncode is None or process.poll() is None:
        _kill_group(process.pid)
        process.wait()
    else:
        _kill_group(process.pid)


def _end_strays(home: str) -> None:
    """Kill what left the program's session (a reward that forks and calls setsid): its home is nobody else's."""
    mark = b"\0HOME=" + os.fsencode(home) + b"\0"
    for _ in range(_STRAY_ROUNDS):  # they may fork meanwhile
        until = time.monotonic() + _STRAY_LOOK_S
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        found = [pid for pid in pids if mark in processes.environment_of(pid, until)]
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _die_with_parent() -> Callable[[], None]:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _blame_who_ran(question: Question, at_work: str, number: int) -> None:
    """Raises ConfigError if the program has left word of somebody's code that was running when a signal killed it."""
    try:
        with open(at_work, encoding="utf-8") as file:
            word = json.loads(file.read(_TAIL_BYTES))
        code, who, hint = (visible(str(word[name])) for name in ("code", "who", "hint"))
    except (OSError, ValueError, KeyError, TypeError):
        return
    from loopai_trainer.records import Problem

    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    message = f"{question.what}: the program was killed by {name} while {who} ran in a child of it"
    raise ConfigError(message, code=code, hint=hint, problems=[Problem("error", code, "config", message, hint)])


def _broken(question: Question, how: str, talk: str) -> BackendMissing:
    with open(talk, "rb") as file:
        file.seek(max(0, os.path.getsize(talk) - _TAIL_BYTES))
        lines = [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    said = "\n  ".join(lines[-_TAIL_LINES:])
    return BackendMissing(
        f"{question.what}: the program {how}" + (f"; its last words:\n  {said}" if said else ""),
        code="BACKEND_BROKEN",
        hint="see whether the environment is whole; trainer setup makes one that was tried",
    )
