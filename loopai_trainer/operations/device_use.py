"""The GPUs of a plan, locked against every other run of this host before its approval is used up.

Light: `run-prepared` imports it before training starts, and only for a plan that names devices.
"""

from __future__ import annotations

import os
import time

from loopai_trainer.errors import Busy, HostUnfit
from loopai_trainer.files.event_log import utc_text
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import device_locks, devices
from loopai_trainer.operations import commands
from loopai_trainer.rules import cluster
from loopai_trainer.rules.run_state import ORPHAN
from loopai_trainer.worker.observe import observe

_DEVICES = "CUDA_VISIBLE_DEVICES"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from loopai_trainer.records import Device, Plan, Problem, Settings


def of_plan(plan: Plan) -> str:
    """The devices that training will see, as in CUDA_VISIBLE_DEVICES; empty for a plan that runs on the CPU."""
    return "" if plan.native.get("use_cpu") is True else str(plan.loopai["launch"].get("devices") or "")


def unused(settings: Settings, plan: Plan) -> list[Problem]:
    """Warnings for what a caller says of the place and the plan does not take.

    Devices of the shell are how this host is set up, and no such wish.
    """
    from loopai_trainer.records import Problem

    found, launch = [], plan.loopai["launch"]
    devices, origin = settings.text(_DEVICES), settings.origin(_DEVICES)
    if devices and origin.startswith("--") and not launch.get("devices"):
        message = f"{origin} names devices ({devices}), and this plan takes none"
        hint = "choose a template that trains on GPUs, or leave the flag out"
        found.append(Problem("warning", "DEVICES_NOT_USED", "settings", message, hint, field=_DEVICES, origin=origin))
    meeting = () if cluster.by_hand(launch) else ("master_addr", "master_port")
    for name in filter(settings.text, meeting):
        origin = settings.origin(name)
        said = f"{name} {settings.text(name)} (from {origin})"
        message = f"{said} is for several hosts without a cluster, and this plan is none"
        hint = "leave it out: ranks on one host meet at a free port"
        found.append(Problem("warning", "SETTING_NOT_USED", "settings", message, hint, field=name, origin=origin))
    return found


def take(run: RunDir, text: str, present: Sequence[Device], environ: Mapping[str, str]) -> tuple[int, ...]:
    """Descriptors of the locks of all devices in `text`, for the worker and the keeper to hold.

    Raises Busy DEVICE_IN_USE with who holds one, also if that is a training that outlived its worker and keeper;
    HostUnfit LOCKS_UNRELIABLE. Nothing is held then.
    """
    place = device_locks.folder(environ)
    try:
        taken = device_locks.take(devices.lock_names(text, present), place)
    except device_locks.Held as held:
        raise _in_use(held.name, held.holder, "is used by") from None
    try:
        for lock in taken:
            if _outlived(lock.former):
                raise _in_use(lock.name, lock.former, "is used by what is left of")
        for lock in taken:
            device_locks.name_holder(lock, _holder(run))
    except BaseException:
        device_locks.release(taken)
        raise
    return tuple(lock.fd for lock in taken)


def _holder(run: RunDir) -> dict[str, Any]:
    return {"version_id": run.version_id, "run_dir": run.path, "uid": os.getuid(), "since": utc_text(time.time())}


def _outlived(former: Mapping[str, Any]) -> bool:
    """Whether the run that the lock's file names lives on without worker and keeper: then no kernel lock tells it."""
    path, version_id = former.get("run_dir"), former.get("version_id")
    if not isinstance(path, str) or not isinstance(version_id, str) or not os.path.isdir(path):
        return False
    try:
        return observe(RunDir(path, version_id)).verdict.action == ORPHAN
    except (OSError, HostUnfit):
        return False  # another user's run, which nothing of can be read


def _in_use(name: str, holder: Mapping[str, Any], how: str) -> Busy:
    path = holder.get("run_dir")
    who = f"run {holder.get('version_id')} ({path}, uid {holder.get('uid')}, since {holder.get('since')})"
    return Busy(
        f"device {name} {how} {who if isinstance(path, str) else 'another run'}",
        code="DEVICE_IN_USE",
        hint="wait for that run, or prepare this one for another device with --devices",
        next_command=commands.status(path) if isinstance(path, str) else "",
        details={"device": name, "holder": dict(holder)},
    )
