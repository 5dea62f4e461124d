"""doctor: whether this host can run trainings, a line a check, each with the one thing that mends it. Changes nothing.

Files that a check has to write are made in the folders in question and removed again at once.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import NamedTuple

from loopai_trainer import backends
from loopai_trainer.errors import ApprovalError, BackendMissing, HostUnfit
from loopai_trainer.files import policy_files, user_dirs
from loopai_trainer.host import device_locks, devices, environments, limits, locks, ports, sandbox
from loopai_trainer.operations import commands
from loopai_trainer.operations.answer import Answer
from loopai_trainer.records import Host
from loopai_trainer.rules import policy

DISTRIBUTION = "loopai-trainer"
OLDEST_PYTHON = (3, 11)
FREE_BYTES = 20 * 10**9
"""Less does not hold the checkpoints of the smallest model that anybody trains for use (0.5 B, full, two of them)."""

SHARED_BYTES = 1 << 30
"""Loaders and Ray pass batches through it; 64 MB, what containers get, is a bus error after minutes."""
OPEN_FILES = 4096
"""Ray and loaders hold some hundreds each; 1024 is reached with eight GPUs."""
_GB = 10**9
_USER_FOLDERS = ("state", "cache", "data", "config")


class Check(NamedTuple):
    """One check. `detail` says what was found; `hint` is the one thing to do, empty where all is well."""

    name: str
    ok: bool
    detail: str
    hint: str = ""


class Place(NamedTuple):
    """What is looked at: the environment of the caller, where runs would lie, NVIDIA's library."""

    environ: Mapping[str, str]
    output_dir: str
    nvml: str = devices.NVML_LIBRARY
    shared_memory: str = limits.SHARED_MEMORY
    environment: str | None = None


def doctor(environ: Mapping[str, str], *, output_dir: str | None = None, environment: str | None = None) -> Answer:
    """All checks; exit 9 if one of them would keep a training from running here.

    `environment`: a backend environment to look at besides those that `trainer setup` made.
    """
    place = Place(
        environ, os.path.abspath(output_dir or environ.get("OUTPUT_DIR") or "./outputs"), environment=environment
    )
    checks = run(place)
    bad = [check for check in checks if not check.ok]
    data = {"checks": [check._asdict() for check in checks]}
    if not bad:
        return Answer("doctor", data, status="completed", message=f"all {len(checks)} checks are well")
    message = f"{len(bad)} of {len(checks)} checks found something: {', '.join(check.name for check in bad)}"
    hint = (
        bad[0].hint if len(bad) == 1 else "each of them says what mends it; which of them a plan needs, the plan says"
    )
    error = HostUnfit(message, hint=hint)
    return Answer("doctor", data, status="failed", message=message, error=error)


def run(place: Place) -> list[Check]:
    """Every check, in the order in which a person would mend things."""
    return [
        program(),
        user_folders(place),
        policy_file(place),
        output(place),
        free_space(place),
        file_locks(place),
        *backend_environments(place),
        gpus(place),
        gpu_locks(place),
        ports_open(),
        shared_memory(place),
        open_files(),
        sandboxed(place),
        ray(),
    ]


def program(python: tuple[int, ...] = sys.version_info[:3], distribution: str = DISTRIBUTION) -> Check:
    """The interpreter, and whether all that the program needs is installed beside it."""
    name = "program"
    shown = ".".join(map(str, python))
    if python < OLDEST_PYTHON:
        return Check(name, False, f"Python {shown} at {sys.executable}", "install it under Python 3.11 or newer")
    missing = sorted(_missing(distribution))
    if missing:
        hint = f"{sys.executable} -m pip install {' '.join(missing)}"
        return Check(name, False, f"packages are missing: {', '.join(missing)}", hint)
    version = metadata.version(distribution)
    return Check(name, True, f"{distribution} {version}, Python {shown} at {sys.executable}")


def _missing(distribution: str) -> Iterator[str]:
    try:
        needed = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        yield distribution
        return
    for line in needed:
        requirement, _, marker = line.partition(";")
        name = requirement.split("[")[0].strip()
        plain = name[: next((n for n, letter in enumerate(name) if letter in "<>=!~ "), len(name))]
        if "extra" not in marker and not _is_installed(plain):
            yield plain


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def user_folders(place: Place) -> Check:
    """The program's own folders: the index of runs, hashes, environments."""
    paths = {kind: user_dirs.user_dir(kind, place.environ) for kind in _USER_FOLDERS}
    for kind, path in paths.items():
        why = _not_writable(path)
        if why:
            hint = f"see to its permissions, or name another folder in LOOPAI_TRAINER_{kind.upper()}_DIR"
            return Check("user folders", False, f"{kind}: {why}", hint)
    return Check("user folders", True, ", ".join(f"{kind} {path}" for kind, path in paths.items()))


def policy_file(place: Place) -> Check:
    """How approvals have to be given here; a policy that cannot be read stops every start."""
    try:
        found = [policy.read(text, path) for path, text in policy_files.texts(place.environ)]
    except policy_files.Unreadable as error:
        return Check("policy", False, error.why, "mend the file, or have its owner remove it")
    except ApprovalError as error:
        return Check("policy", False, error.message, error.hint)
    strictest = policy.strictest(found)
    where = strictest.origin if found else "no policy file"
    return Check("policy", True, f"approval_require: {strictest.level} ({where})")


def output(place: Place) -> Check:
    """Whether run directories can be made."""
    why = _not_writable(place.output_dir)
    if why:
        return Check("output folder", False, why, "see to its permissions, or name another --output-dir")
    return Check("output folder", True, place.output_dir)


def free_space(place: Place, least_bytes: int = FREE_BYTES) -> Check:
    """The disk that checkpoints would lie on."""
    free = shutil.disk_usage(_nearest(place.output_dir)).free
    detail = f"{free / _GB:.1f} GB free at {place.output_dir}"
    if free < least_bytes:
        hint = f"make room there, or name another --output-dir: checkpoints need {least_bytes / _GB:.0f} GB and more"
        return Check("disk", False, detail, hint)
    return Check("disk", True, detail)


def file_locks(place: Place, take: Callable[[str], int | None] = locks.try_exclusive) -> Check:
    """Whether a second process would be refused a lock that is held: else two trainings of one version could start."""
    folder = _nearest(place.output_dir)
    try:
        with tempfile.TemporaryDirectory(prefix=".loopai-doctor-", dir=folder) as made:
            path = os.path.join(made, "lock")
            first = take(path)
            second = take(path)
            for fd in (first, second):
                if fd is not None:
                    os.close(fd)
    except HostUnfit as error:
        return Check("locks", False, error.message, error.hint)
    except OSError as error:
        return Check(
            "locks", False, f"{folder}: {error.strerror}", "see to its permissions, or name another --output-dir"
        )
    if first is None or second is not None:
        refusal = locks.unreliable(folder, "a second process got a lock that is held")
        return Check("locks", False, refusal.message, refusal.hint)
    return Check("locks", True, f"flock holds in {folder}")


def backend_environments(place: Place) -> list[Check]:
    """One check for each framework that there is an environment of; one that fails if there is none at all."""
    found = [check for check in (_environment(place, *pair) for pair in _frameworks()) if check is not None]
    if not any(check.ok for check in found):
        hint = f"make one: {commands.setup('llamafactory')}, or {commands.setup('verl')}; or name yours with --env"
        found.append(Check("environments", False, "there is no backend environment that works", hint))
    return found


def _frameworks() -> list[tuple[str, str]]:
    """(framework, one of its stages), each framework once."""
    first: dict[str, str] = {}
    for framework, stage in backends.names():
        first.setdefault(framework, stage)
    return list(first.items())


def _environment(place: Place, framework: str, stage: str) -> Check | None:
    """None: there is none, and none was named."""
    name = f"{framework} environment"
    backend = backends.get(framework, stage)
    spec = backend.environment_spec()
    try:
        if place.environment is not None:
            environment = environments.resolve(place.environment, framework, place.environ)
        elif spec is not None:
            environment = environments.default(spec, place.environ)
        else:
            return None
    except BackendMissing:
        return None
    try:
        versions = backend.probe(environment)
    except BackendMissing as error:
        other = place.environment is not None and error.code == BackendMissing.code
        return None if other else Check(name, False, error.message, error.hint)
    held = versions.distributions
    shown = [
        f"{package} {held[package]}"
        for package in ("torch", "transformers", "vllm", "sglang", "ray")
        if package in held
    ]
    detail = (
        f"{versions.package} {versions.version}, Python {versions.python}, {', '.join(shown)} at {environment.root}"
    )
    return Check(name, True, detail)


def gpus(place: Place) -> Check:
    """The GPUs that the driver shows to this process."""
    present = devices.list_devices(place.nvml)
    if not present:
        hint = "see to NVIDIA's driver (in a container: its runtime); without a GPU only the CPU smoke templates run"
        return Check("GPUs", False, "the driver shows no GPU", hint)
    version = limits.driver_version(place.nvml) or "unknown"
    shown = ", ".join(f"{device.index} {device.name} {device.memory_bytes / _GB:.0f} GB" for device in present)
    visible = place.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        problems = devices.device_problems(visible, Host(present, 1, 0))
        if problems:
            return Check("GPUs", False, problems[0].message, problems[0].hint)
    return Check("GPUs", True, f"driver {version}: {shown}")


def gpu_locks(place: Place) -> Check:
    """The folder in which runs of all users keep each other off a GPU."""
    try:
        folder = device_locks.folder(place.environ)
        device_locks.release(device_locks.take(["doctor"], folder))
    except HostUnfit as error:
        return Check("GPU locks", False, error.message, error.hint)
    except device_locks.Held:
        pass  # another doctor, at this very moment: it can be locked
    return Check("GPU locks", True, folder)


def ports_open(find: Callable[[], int] = ports.free) -> Check:
    """Whether ranks could meet: a free port on the loopback address."""
    try:
        return Check("ports", True, f"a port of 127.0.0.1 can be had (now {find()})")
    except OSError as error:
        hint = "call this outside of the sandbox, or see to the loopback interface"
        return Check("ports", False, f"no port of 127.0.0.1 can be had: {error.strerror}", hint)


def shared_memory(place: Place, least_bytes: int = SHARED_BYTES) -> Check:
    """/dev/shm."""
    size = limits.shared_memory_bytes(place.shared_memory)
    if size is None or size < least_bytes:
        detail = f"{place.shared_memory}: " + ("there is none" if size is None else f"{size / 1e6:.0f} MB")
        return Check("shared memory", False, detail, "give the container more: --shm-size=16g, or --ipc=host")
    return Check("shared memory", True, f"{place.shared_memory}: {size / _GB:.1f} GB")


def open_files(least: int = OPEN_FILES) -> Check:
    """How many files training may hold open."""
    soft, hard = limits.open_files()
    detail = f"{'no limit' if soft < 0 else soft} (hard limit: {'none' if hard < 0 else hard})"
    if 0 <= soft < least:
        wanted = least if hard < 0 else min(least, hard)
        raised = f"ulimit -n {wanted}"
        hint = raised if wanted == least else f"{raised}, and have the hard limit raised to {least} (limits.conf)"
        return Check("open files", False, detail, hint)
    return Check("open files", True, detail)


def sandboxed(place: Place) -> Check:
    """Whether a worker that is started here would be ended with its caller."""
    why = sandbox.reason(place.environ)
    if why:
        return Check("sandbox", False, why, "run trainings outside of it; read-only commands work here")
    return Check("sandbox", True, "this is none")


def ray(look: Callable[[], list[tuple[int, str]]] = limits.ray_processes) -> Check:
    """Ray nodes that run already: their workers may hold GPUs that nobody has locked."""
    found = look()
    if found:
        shown = ", ".join(f"pid {pid} of {user}" for pid, user in found[:4])
        hint = "see with `ray status` whether its jobs use GPUs: nothing keeps them off a training's"
        return Check("Ray", False, f"Ray runs on this host, and not for a run of this program: {shown}", hint)
    return Check("Ray", True, "no Ray node but those of this program's own runs")


def _not_writable(path: str) -> str:
    """Why nothing can be made in a folder, or the folder itself; empty if it can. Nothing is left behind."""
    folder = _nearest(path)
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"{folder} cannot be written: {error.strerror}"


def _nearest(path: str) -> str:
    """The folder itself, or the nearest one above it that is there."""
    path = os.path.abspath(path)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path
