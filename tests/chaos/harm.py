"""The harm: kills, stops, a full disk and slow writes, at instants that a seed chooses."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from loopai_trainer.host import processes
from loopai_trainer.worker.observe import read_started

DISK = "2m"
WHO = ("caller", "worker", "worker", "keeper", "training", "rank")
_STAGES = ("any", "any", "queued", "started", "started", "step", "step", "exited", "finalizing")
SLOW_S = (0.05, 0.6)
_SEEN_S = 240.0
_FOUND_S = 60.0
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


class _Act(NamedTuple):
    """What is to be done, drawn before the run is looked at: a seed chooses the same acts however the host is busy."""

    stage: str
    more_s: float
    fills_disk: bool
    full_s: float
    order: tuple[str, ...]
    stops: bool
    stopped_s: float
    number: signal.Signals
    which_rank: float


def inflict(
    subject: Any,
    callers: "Sequence[subprocess.Popen[bytes]]",
    caller: Any,
    chance: random.Random,
    disk: Path | None,
) -> Harm:
    """One to three acts, each at an instant of its own; of the callers the one with the identity `caller` is hit."""
    harm = Harm()
    acts = [_drawn(subject, chance) for _ in range(chance.choice([1, 1, 2, 3]))]
    for act in acts:
        if not _wait_for_moment(subject, callers, act):
            break
        if disk is not None and act.fills_disk:
            _fill(disk, act.full_s, harm)
        else:
            _hit(subject, caller, act, harm)
    return harm


def _drawn(subject: Any, chance: random.Random) -> _Act:
    stage = chance.choice(getattr(subject, "stages", _STAGES))
    more_s = chance.uniform(0.0, 0.8 if stage in ("any", "started", "step") else 0.08)
    who = getattr(subject, "who", WHO)
    return _Act(
        stage=stage,
        more_s=more_s * subject.pace if stage in ("any", "started") else more_s,
        fills_disk=chance.random() < 0.6,
        full_s=chance.choice([0.2, 2.0, 9.0]),
        order=tuple(chance.sample(who, len(who))),
        stops=chance.random() < 0.3,
        stopped_s=chance.choice([0.1, 1.0, 7.0]),
        number=chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]),
        which_rank=chance.random(),
    )


def _wait_for_moment(subject: Any, callers: "Sequence[subprocess.Popen[bytes]]", act: _Act) -> bool:
    """Wait for the act's stage of the run, then a moment more; False if the run has ended before, or never began."""
    stages = {
        "any": lambda: True,
        "queued": lambda: os.path.exists(subject.run.run_state),
        "started": lambda: os.path.exists(subject.run.launch_started),
        "step": lambda: bool(subject.state().get("current_step")),
        "exited": lambda: os.path.exists(subject.run.launch_exit),
        "finalizing": lambda: subject.state().get("status") == "finalizing",
    }
    until = time.monotonic() + getattr(subject, "seen_s", _SEEN_S)
    while not stages[act.stage]():
        status = subject.status
        if time.monotonic() > until or status in ("completed", "failed", "cancelled", "orphaned"):
            return False
        if status in ("prepared", "approved") and all(one.poll() is not None for one in callers):
            until = min(until, time.monotonic() + _NOBODY_S)
        time.sleep(0.003)
    time.sleep(act.more_s)
    return True


def caller_identity(subject: Any, caller: "subprocess.Popen[bytes]") -> Any:
    """The caller that was just started; behind strace strace's child, None if that has ended already."""
    if not subject.prefix:
        return processes.identify(caller.pid) or {"pid": caller.pid}
    until = time.monotonic() + _FOUND_S
    while caller.poll() is None and time.monotonic() < until:
        for pid in _children(caller.pid):
            if _command_line(pid).startswith(os.fsencode(sys.executable)):  # before its exec it goes by strace's
                return processes.identify(pid)
        time.sleep(0.002)
    return None


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""  # it has ended since it was listed


def _victim(subject: Any, caller: Any, who: str, which_rank: float) -> Any:
    if who == "caller":
        return caller
    if who == "worker":
        return subject.state().get("worker")
    started = read_started(subject.run)
    if who in ("keeper", "training"):
        return started.get(who)
    ranks = processes.descendants(started.get("training"))
    return ranks[int(which_rank * len(ranks))] if ranks else None


def _hit(subject: Any, caller: Any, act: _Act, harm: Harm) -> None:
    """Kill or stop the first of the act's order that lives; one that has ended is no victim."""
    for who in act.order:
        one = _victim(subject, caller, who, act.which_rank)
        # A worker takes SIGTERM for a request to cancel, and the keeper is deaf to it.
        deadly = signal.SIGKILL if who in ("worker", "keeper") else act.number
        number = signal.SIGSTOP if act.stops else deadly
        if one and processes.send(one, number):
            break
    else:
        return
    if act.stops:
        harm.acts.append(f"SIGSTOP to {who} for {act.stopped_s:g} s")
        time.sleep(act.stopped_s)
        processes.send(one, signal.SIGCONT)
    else:
        harm.acts.append(f"{number.name} to {who}")
        harm.training_hit |= who in ("training", "rank")
        harm.keeper_hit |= who == "keeper"


def _fill(disk: Path, full_s: float, harm: Harm) -> None:
    harm.disk_filled = True
    harm.acts.append(f"disk full for {full_s:g} s")
    with contextlib.suppress(OSError), open(disk / "filler", "ab", buffering=0) as file:
        while True:
            file.write(b"x" * 512)
    time.sleep(full_s)
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
