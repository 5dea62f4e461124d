"""One round: a run, some harm, the next calls of an operator, and what has to be true then."""

import collections
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from fakes.runs import answer

from chaos import harm as harms
from chaos.subjects import RealRun, RealShop, StandInRun
from chaos.verl_subjects import VerlRun, VerlShop
from loopai_trainer.host import processes
from loopai_trainer.worker.observe import read_exit, read_started

FAULTS = ("duplicate trainings", "wrong terminal states", "lost results", "processes left")
_SETTLE_S = 300.0
_LEAVE_S = 30.0


class Round:
    """What came of a round: its `seed`, what was done, how it ended, and its faults as (kind, details)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.acts: list[str] = []
        self.end = ""
        self.orphaned = 0
        self.faults: list[tuple[str, str]] = []


def stand_in_round(seed: int, *, keep: bool = False) -> Round:
    """A round with the stand-in backend. Folders of rounds with faults are kept if `keep`."""
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-"))
    kind = chance.choice(["plain", "plain", "plain", "disk", "slow"])
    done = Round(seed)
    try:
        with harms.small_disk(folder / "disk") if kind == "disk" else contextlib.nullcontext() as disk:
            prefix = harms.slow_fsync(chance) if kind == "slow" else ()
            _round(done, StandInRun(disk or folder, chance, prefix), chance, disk)
            if prefix:
                done.acts.append("slow fsync")
            if done.faults and keep and disk is not None:
                shutil.copytree(disk, folder / "kept", ignore=shutil.ignore_patterns("filler"))
    finally:
        if not keep or not done.faults:
            shutil.rmtree(folder, ignore_errors=True)
    return done


def real_round(seed: int, shop: RealShop) -> Round:
    """A round with the real LLaMA-Factory."""
    chance = random.Random(seed)
    done = Round(seed)
    _round(done, RealRun(shop, chance, seed), chance, None)
    return done


def _round(done: Round, subject: Any, chance: random.Random, disk: Path | None) -> None:
    callers = [subject.first_call() for _ in range(chance.choice([1, 1, 2]))]
    waiting = [harms.caller_identity(subject, caller) for caller in callers]
    harm = harms.inflict(subject, callers, waiting[0], chance, disk)
    done.acts = harm.acts
    for caller, identity in zip(callers, waiting, strict=True):
        _collect(caller, identity, done)
    wish = chance.choice(["wait", "--adopt", "--terminate"])
    code, document = _settle(subject, wish, disk, done)
    done.end = f"{document.get('status')} {(document.get('error') or {}).get('code') or ''}".strip()
    _check_end(subject, harm, wish, code, document, done)
    _check_results(subject, harm, code, document, done)
    _check_processes(subject, callers, done)


def _collect(caller: "subprocess.Popen[bytes]", identity: Any, done: Round) -> None:
    """Wait for a caller itself: strace before it stays as long as anything that it traces."""
    if identity and identity["pid"] == caller.pid:
        with contextlib.suppress(subprocess.TimeoutExpired):
            caller.communicate(timeout=_SETTLE_S)
    until = time.monotonic() + _SETTLE_S
    while processes.alive(identity):
        if time.monotonic() > until:
            processes.send(identity, signal.SIGKILL)
            done.faults.append(("wrong terminal states", "a caller never came back"))
        time.sleep(0.02)


def _settle(subject: Any, wish: str, disk: Path | None, done: Round) -> tuple[int, dict[str, Any]]:
    """What an operator does next: the same call, and `recover` for an orphan."""
    until = time.monotonic() + _SETTLE_S
    document: dict[str, Any] = {}
    while time.monotonic() < until:
        if disk is not None:
            harms.free(disk)
        code, document = subject.run_to_end()
        if code == 8:
            done.orphaned += 1
            if wish != "wait" or _has_no_end(subject):
                flag = "--terminate" if wish == "wait" or done.orphaned > 1 else wish
                answer(subject.call("recover", subject.run.path, flag, "--json"), _SETTLE_S)
            else:
                time.sleep(0.2)
        elif code in (0, 11, 13):
            return code, document
        else:
            time.sleep(0.2)
    done.faults.append(("wrong terminal states", f"it never ended: {json.dumps(document)[:300]}"))
    return -1, document


def _has_no_end(subject: Any) -> bool:
    """Whether what lives would live on for long: a rank without its launcher."""
    return not processes.alive(read_started(subject.run).get("training"))


def _check_end(subject: Any, harm: harms.Harm, wish: str, code: int, document: dict[str, Any], done: Round) -> None:
    if subject.starts > 1:
        done.faults.append(("duplicate trainings", f"{subject.starts} starts"))
    ended_well = (read_exit(subject.run) or {}).get("returncode") == 0
    status = document.get("status")
    terminated = wish == "--terminate" or done.orphaned > 1
    expected = {"completed"} if ended_well else {"failed"} | ({"cancelled"} if terminated and done.orphaned else set())
    if not ended_well and not harm.may_fail and "cancelled" not in expected:
        expected = {"completed"}  # nobody touched training
    if status not in expected:
        done.faults.append(("wrong terminal states", f"{status}, expected {sorted(expected)}: {_brief(document)}"))
    if status == "failed" and (document.get("error") or {}).get("code") in (None, "WORKER_FAILED", "UNEXPECTED"):
        done.faults.append(("wrong terminal states", f"a failure without a cause: {_brief(document)}"))
    if {0: "completed", 11: "failed", 13: "cancelled"}.get(code) != status:
        done.faults.append(("wrong terminal states", f"exit {code} for {status}"))


def _check_results(subject: Any, harm: harms.Harm, code: int, document: dict[str, Any], done: Round) -> None:
    result = subject.result()
    if result.get("status") != document.get("status") or subject.state().get("status") != document.get("status"):
        done.faults.append(("lost results", f"result {result.get('status')}, state {subject.state().get('status')}"))
    again = subject.run_to_end()
    if again[0] != code or again[1].get("data") != document.get("data"):
        done.faults.append(("lost results", f"the same call again answers otherwise: {_brief(again[1])}"))
    if document.get("status") != "completed":
        return
    rows = [json.loads(line) for line in Path(subject.run.metric_rows).read_text().splitlines()]
    noted = [row["step"] for row in rows if row["kind"] == "train"]
    logged = subject.metric_steps()
    if noted != logged or (not harm.disk_filled and logged != list(range(1, subject.steps + 1))):
        done.faults.append(("lost results", f"metrics of steps {noted}, training logged {logged}"))
    if not document["data"]["best_checkpoint"] or not document["data"]["update_model_path"]:
        done.faults.append(("lost results", "no checkpoint was chosen"))


def _check_processes(subject: Any, callers: list[Any], done: Round) -> None:
    until = time.monotonic() + _LEAVE_S
    while left := _left(subject):
        if time.monotonic() > until:
            done.faults.append(("processes left", json.dumps([processes.describe(one) for one in left])[:400]))
            processes.terminate(lambda: [one for one in left if processes.alive(one)], grace_s=0.0)
            return
        time.sleep(0.05)
    if subject.locked() != (False, False):
        done.faults.append(("processes left", f"locks {subject.locked()}"))
    for caller in callers:  # strace, once nothing that it traces is left
        caller.communicate(timeout=_LEAVE_S)


def _left(subject: Any) -> list[Any]:
    own = [subject.state().get("worker"), read_started(subject.run).get("keeper")]
    return [one for one in own if processes.alive(one)] + subject.living()


def _brief(document: dict[str, Any]) -> str:
    error = document.get("error") or {}
    return f"{document.get('status')} {error.get('code')} {str(error.get('detail'))[:200]}"


def report(rounds: list[Round]) -> str:
    """The counts, for people."""
    acts = collections.Counter(act.partition(" for ")[0] for one in rounds for act in one.acts)
    ends = collections.Counter(one.end for one in rounds)
    faults = collections.Counter(kind for one in rounds for kind, _ in one.faults)
    lines = [f"{len(rounds)} rounds, {sum(bool(one.orphaned) for one in rounds)} with an orphaned training"]
    lines += ["harm done:", *(f"  {number:5} {name}" for name, number in sorted(acts.items()))]
    lines += ["ended as:", *(f"  {number:5} {name}" for name, number in sorted(ends.items()))]
    lines += ["faults:", *(f"  {faults[name]:5} {name}" for name in FAULTS)]
    for one in rounds:
        lines += [f"  seed {one.seed} ({', '.join(one.acts)}): {kind}: {why}" for kind, why in one.faults]
    return "\n".join(lines)


def real_shop(root: Path) -> RealShop:
    """What real rounds need; the environment is named by LOOPAI_TRAINER_LF_ENV."""
    return RealShop(root, os.environ["LOOPAI_TRAINER_LF_ENV"])


def verl_round(seed: int, shop: VerlShop) -> Round:
    """A round with real GRPO: by `seed` verl's leader, one of its Ray processes or the worker is harmed."""
    chance = random.Random(seed)
    done = Round(seed)
    _round(done, VerlRun(shop, chance, seed), chance, None)
    return done


def verl_shop(root: Path) -> VerlShop:
    """What rounds with verl need; the environment is named by LOOPAI_TRAINER_VERL_ENV."""
    return VerlShop(root, os.environ["LOOPAI_TRAINER_VERL_ENV"])
