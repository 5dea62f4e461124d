"""From the approved plan to a started keeper: folders, launch files, environment, training.lock handed over."""

from __future__ import annotations

import json
import marshal
import os
import stat
import sys

from loopai_trainer import executors
from loopai_trainer.errors import Busy
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import locks, processes
from loopai_trainer.records import LaunchPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from loopai_trainer.contract import Backend
    from loopai_trainer.records import Command, Launch, Plan

LOG_LIMIT_BYTES = 64 * 1024 * 1024
LOG_FILES = 3
"""train.log and three rotated ones: 256 MiB at the most."""

_SOCKET_PATH_LIMIT = 38
"""AF_UNIX socket paths end at 107 bytes (unix(7)); Ray 2.60 appends up to 68 to TMPDIR (session name with time and
pid, sockets/plasma_store), multiprocessing some 45."""

_TMP_PREFIX = "loopai-"

_LOCK_TRIES = 300
"""Some seconds: whoever looks whether it is held has it himself meanwhile, and may be put off the CPU just then."""

_KEEPER = "import sys; sys.path.append(sys.argv[1]); import keeper; sys.exit(keeper.main())"
"""Imported by name, last on the path, and not run by file path: only so is its compiled form used (8 ms of CPU)."""

_KEEPER_LOCK_FD = 3
"""keeper.LOCK_FD, not imported from there: ctypes would be loaded for nothing (a test holds the two together)."""

_RESET_SIGNALS = (1, 2, 3, 13, 15, 17, 20, 25)

_CLUSTER_SECRETS = ("RAY_AUTH_TOKEN", "RAY_JOB_CONFIG_JSON_ENV_VAR")
"""The token of a cluster, and what its workers get, which holds the values of `pass_env`, too."""


def paths_of(run: RunDir, tmp: str) -> LaunchPaths:
    """The folders that a launch may name."""
    return LaunchPaths(
        run=run.path,
        launch=run.launch,
        checkpoints=run.checkpoints,
        metrics=run.metrics,
        cache=run.cache,
        tmp=tmp,
        inputs=run.inputs,
    )


def make_folders(run: RunDir) -> str:
    """Make what training and worker write into; returns TMPDIR, outside the run if its own would be too long."""
    empty(run.launch)
    _remove(os.path.join(run.inputs, "__pycache__"))
    for path in (run.launch, run.cache, run.metrics):
        atomic.make_private_dir(path)
    if len(os.fsencode(run.tmp)) <= _SOCKET_PATH_LIMIT:
        atomic.make_private_dir(run.tmp)
        return run.tmp
    base = os.environ.get("TMPDIR") or "/tmp"
    # Named after the run: what a worker that died before it noted the name has made is found again.
    name = _TMP_PREFIX + processes.run_key(run.path)
    if len(os.fsencode(os.path.join(base, name))) > _SOCKET_PATH_LIMIT or not os.path.isdir(base):
        base = "/tmp"
    path = os.path.join(os.path.abspath(base), name)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if own_tmp(path):
            empty(path)
        else:  # somebody else sits on that name
            path += "-" + os.urandom(5).hex()
            os.mkdir(path, 0o700)
    os.chmod(path, 0o700)
    return path


def empty(folder: str) -> None:
    """Take away all that lies in `launch/`: a planted cache, module or library would be read as training's own.

    Nothing behind a symbolic link is touched; a link in the folder's own place is removed.
    """
    if os.path.islink(folder):
        os.unlink(folder)
    if not os.path.isdir(folder):
        return
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            empty(entry.path)
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)


def _remove(folder: str) -> None:
    """A folder with all that is in it, if it is there: Python would run compiled code without a look at its source."""
    empty(folder)
    if os.path.isdir(folder):
        os.rmdir(folder)


def own_tmp(path: str) -> bool:
    """Whether `path` is a folder that make_folders made outside a run: its name, its owner and its kind have to fit."""
    if not os.path.basename(path).startswith(_TMP_PREFIX):
        return False
    try:
        there = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(there.st_mode) and there.st_uid == os.getuid()


def take_training_lock(run: RunDir) -> int:
    """training.lock, for the keeper to inherit. Raises Busy if somebody holds it or training was started before."""
    fd = locks.try_exclusive(run.training_lock, tries=_LOCK_TRIES)
    if fd is None:
        raise Busy(
            f"{run.training_lock} is held: a training of this version lives",
            code="LOCKED",
            hint=f"see `trainer status {run.version_id}`",
        )
    if os.path.exists(run.launch_started):
        os.close(fd)
        raise Busy(
            f"training of {run.version_id} was started before: one version is one training",
            code="VERSION_IN_USE",
            hint="prepare a new version",
        )
    return fd


def placed(run: RunDir, plan: Plan, backend: Backend, launch: Launch, paths: LaunchPaths) -> Launch:
    """The launch on this host as it stands; for a plan on a cluster, by a command that reaches the cluster's nodes."""
    executor = executors.submitting(plan.loopai["launch"]["executor"])
    if executor is None:
        return launch
    import dataclasses

    places = {
        "joins": str(plan.loopai["backend"]["python"]) if backend.joins_cluster else "",
        "logs": run.node_log_stem,
        "cache": paths.cache,
        "tmp": paths.tmp,
    }
    return dataclasses.replace(launch, main=executor.place(launch.main, plan.loopai["launch"], places, os.environ))


def write_launch_files(run: RunDir, launch: Launch) -> None:
    """The backend's files, into launch/. Raises ValueError for a name that is not a plain file name."""
    for name, text in launch.files.items():
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise ValueError(f"a backend asked for the launch file {name!r}, which is not a plain name")
        atomic.write_text(os.path.join(run.launch, name), text)


def note_request(run: RunDir, launch: Launch, pass_env: list[str]) -> None:
    """launch/request.json, for people: what is about to be exec'd; values of `pass_env` (tokens) are left out."""
    record = _request(launch.main, pass_env)
    if launch.helpers:
        record["helpers"] = [_request(helper, pass_env) for helper in launch.helpers]
    text = json.dumps(record, ensure_ascii=True, indent=2) + "\n"
    atomic.write_bytes(run.launch_request, text.encode("ascii"), sync=False)


def _request(command: Command, pass_env: list[str]) -> dict[str, Any]:
    hidden = {*pass_env, *_CLUSTER_SECRETS}
    env = {name: "(passed)" if name in hidden else value for name, value in sorted(command.env.items())}
    return {"argv": list(command.argv), "cwd": command.cwd, "env": env}


def start_keeper(run: RunDir, launch: Launch, mark: str, lock_fd: int, device_fds: tuple[int, ...] = ()) -> int:
    """Start the keeper, which starts training with its helpers and gets training.lock's `lock_fd` and the locks of the
    devices. Returns its pid.
    """
    main = launch.main
    job: Any = {
        "argv": list(main.argv),
        "cwd": main.cwd,
        "env": {**main.env, processes.MARK: mark},
        "log": run.train_log,
        "started": run.launch_started,
        "exit": run.launch_exit,
        "log_limit_bytes": LOG_LIMIT_BYTES,
        "log_files": LOG_FILES,
        "locks": 1 + len(device_fds),
        "helpers": [(list(one.argv), one.cwd, {**one.env, processes.MARK: mark}) for one in launch.helpers],
        "helper_ended": run.launch_helper_ended,
    }
    # The job is whole before the keeper exists: a worker that dies earlier has started nothing.
    job_fd = locks.above_standard(os.memfd_create("keeper-job", os.MFD_CLOEXEC))
    try:
        with open(job_fd, "wb", closefd=False) as file:
            file.write(marshal.dumps(job))
        os.lseek(job_fd, 0, os.SEEK_SET)
        locks.name_holder(lock_fd, f"{run.version_id}: the keeper started by worker {os.getpid()}")
        return _spawn(job_fd, (lock_fd, *device_fds))
    finally:
        os.close(job_fd)


def _spawn(job_fd: int, lock_fds: tuple[int, ...]) -> int:
    # By way of numbers above all of them: a target may be the number of another one that is still to be moved.
    spare = max(job_fd, *lock_fds, _KEEPER_LOCK_FD + len(lock_fds)) + 1
    argv = [sys.executable, "-I", "-S", "-c", _KEEPER, os.path.dirname(os.path.abspath(__file__))]
    actions: list[tuple[int, ...]] = [(os.POSIX_SPAWN_DUP2, fd, spare + n) for n, fd in enumerate(lock_fds)]
    actions.append((os.POSIX_SPAWN_DUP2, job_fd, 0))
    for n in range(len(lock_fds)):
        actions.append((os.POSIX_SPAWN_DUP2, spare + n, _KEEPER_LOCK_FD + n))
        actions.append((os.POSIX_SPAWN_CLOSE, spare + n))
    return os.posix_spawn(
        argv[0], argv, dict(os.environ), file_actions=actions, setsid=True, setsigmask=(), setsigdef=_RESET_SIGNALS
    )
