"""The harm: kills, stops, a full disk and slow writes, at instants that a seed chooses."""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from loopai_trainer.host import processes
from loopai_trainer.worker.observe import read_started

DISK = "2m"
WHO = ("caller", "worker", "worker", "keeper", "training", "rank")
_STAGES = ("any", "any", "queued", "started", "started", "step", "step", "exited", "finalizing")
SLOW_S = (0.05, 0.6)
_SEEN_S = 240.0
_NOBODY_S = 5.0
"""How long a run that nobody calls any more may take to show that it was started all the same."""


class Harm:
    """What was done to one run: `acts`, and what of it may change how training ends."""

    def __init__(self) -> None:
        self.acts: list[str] = []
        self.training_hit = False
        self.keeper_hit = False
        self.disk_filled = False

    @property
    def may_fail(self) -> bool:
        """Whether training had a reason to end otherwise than well."""
        return self.training_hit or self.keeper_hit or self.disk_filled


def inflict(
    subject: Any, callers: "Sequence[subprocess.Popen[bytes]]", chance: random.Random, disk: Path | None
) -> Harm:
    """One to three acts, each at an instant of its own; of the callers the first one is hit."""
    harm, caller = Harm(), callers[0]
    for _ in range(chance.choice([1, 1, 2, 3])):
        if not _wait_for_moment(subject, callers, chance):
            break
        if disk is not None and chance.random() < 0.6:
            _fill(disk, chance, harm)
            continue
        there = [name for name in getattr(subject, "who", WHO) if _victim(subject, caller, name, chance)]
        if not there:
            continue
        who = chance.choice(there)
        if chance.random() < 0.3:
            _stop_for_a_while(subject, caller, who, chance, harm)
        else:
            _kill(subject, caller, who, chance, harm)
    return harm


def _wait_for_moment(subject: Any, callers: "Sequence[subprocess.Popen[bytes]]", chance: random.Random) -> bool:
    """Wait for a chosen stage of the run, then a moment more; False if the run has ended before, or never began."""
    stages = {
        "any": lambda: True,
        "queued": lambda: os.path.exists(subject.run.run_state),
        "started": lambda: os.path.exists(subject.run.launch_started),
        "step": lambda: bool(subject.state().get("current_step")),
        "exited": lambda: os.path.exists(subject.run.launch_exit),
        "finalizing": lambda: subject.state().get("status") == "finalizing",
    }
    stage = chance.choice(getattr(subject, "stages", _STAGES))
    more_s = chance.uniform(0.0, 0.8 if stage in ("any", "started", "step") else 0.08)
    if stage in ("any", "started"):
        more_s *= subject.pace
    until = time.monotonic() + getattr(subject, "seen_s", _SEEN_S)
    while not stages[stage]():
        status = subject.status
        if time.monotonic() > until or status in ("completed", "failed", "cancelled", "orphaned"):
            return False
        if status in ("prepared", "approved") and all(one.poll() is not None for one in callers):
            until = min(until, time.monotonic() + _NOBODY_S)
        time.sleep(0.003)
    time.sleep(more_s)
    return True


def caller_identity(subject: Any, caller: "subprocess.Popen[bytes]") -> Any:
    """The caller itself, also behind strace; its own starter if it has ended already."""
    until = time.monotonic() + 10.0
    while subject.prefix and time.monotonic() < until:
        for pid in _children(caller.pid):
            if b"loopai_trainer" in _command_line(pid):
                return processes.identify(pid)
        time.sleep(0.002)
    return processes.identify(caller.pid) or {"pid": caller.pid}


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""  # it has ended since it was listed


def _victim(subject: Any, caller: "subprocess.Popen[bytes]", who: str, chance: random.Random) -> Any:
    if who == "caller":
        return caller_identity(subject, caller)
    if who == "worker":
        return subject.state().get("worker")
    started = read_started(subject.run)
    if who in ("keeper", "training"):
        return started.get(who)
    ranks = processes.descendants(started.get("training"))
    return chance.choice(ranks) if ranks else None


def _kill(subject: Any, caller: "subprocess.Popen[bytes]", who: str, chance: random.Random, harm: Harm) -> None:
    one = _victim(subject, caller, who, chance)
    number = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]) if who != "worker" else signal.SIGKILL
    if who == "keeper":
        number = signal.SIGKILL  # it is deaf to the polite ones
    if one and processes.send(one, number):
        harm.acts.append(f"{signal.Signals(number).name} to {who}")
        _note(harm, who)


def _note(harm: Harm, who: str) -> None:
    harm.training_hit |= who in ("training", "rank")
    harm.keeper_hit |= who == "keeper"


def _stop_for_a_while(
    subject: Any, caller: "subprocess.Popen[bytes]", who: str, chance: random.Random, harm: Harm
) -> None:
    one = _victim(subject, caller, who, chance)
    if not one or not processes.send(one, signal.SIGSTOP):
        return
    pause_s = chance.choice([0.1, 1.0, 7.0])
    harm.acts.append(f"SIGSTOP to {who} for {pause_s:g} s")
    time.sleep(pause_s)
    processes.send(one, signal.SIGCONT)


def _fill(disk: Path, chance: random.Random, harm: Harm) -> None:
    harm.disk_filled = True
    pause_s = chance.choice([0.2, 2.0, 9.0])
    harm.acts.append(f"disk full for {pause_s:g} s")
    with contextlib.suppress(OSError), open(disk / "filler", "ab", buffering=0) as file:
        while True:
            file.write(b"x" * 512)
    time.sleep(pause_s)
    free(disk)


def free(disk: Path) -> None:
    """Give the disk its room back."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(disk / "filler")


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path | None]:
    """A file system of 2 MB at `place`, None where none may be mounted."""
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)]
    if subprocess.run(words, capture_output=True, check=False).returncode != 0:
        yield None
        return
    try:
        yield place
    finally:
        until = time.monotonic() + 30.0
        while subprocess.run(["umount", str(place)], capture_output=True, check=False).returncode != 0:
            if time.monotonic() > until:
                subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)
                break
            time.sleep(0.1)


def slow_fsync(chance: random.Random) -> tuple[str, ...]:
    """The words before a command whose fsyncs, and those of all that it starts, take longer; empty without strace."""
    delay_us = int(chance.uniform(*SLOW_S) * 1e6)
    inject = f"inject=fsync:delay_exit={delay_us}"
    words = ("strace", "-f", "--seccomp-bpf", "-qq", "-o", os.devnull, "-e", "trace=fsync", "-e", inject)
    try:
        tried = subprocess.run([*words, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return ()
    return words if tried.returncode == 0 else ()
