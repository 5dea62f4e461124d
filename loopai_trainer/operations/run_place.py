"""The run directory of a preparation: where it lies, and that nothing of anybody else is in it before it is touched."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from loopai_trainer.errors import Busy, SettingsError
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir, TaskDir, valid_id
from loopai_trainer.host import locks
from loopai_trainer.operations import commands
from loopai_trainer.operations.version_id import uuid7
from loopai_trainer.records import LaunchPaths, Settings

_INPUT_FOLDERS = (
    *("train_input_model_name", "train_input_dataset_path", "train_input_eval_dataset_path"),
    *("llamafactory_env_path", "verl_env_path", "agentlightning_env_path"),
)
"""Settings whose folder (if they name one) nothing is ever written into."""
_CODE = "RUN_DIR_IN_USE"
_SHOWN_NAMES = 5


def place(settings: Settings) -> RunDir:
    """The run directory of these settings; the version id is made here if none was given. Raises SettingsError."""
    _refuse_undecodable(settings)
    task_id = settings.text("task_id")
    version_id = settings.text("trainer_version_id") or uuid7()
    for name, value in (("task_id", task_id), ("trainer_version_id", version_id)):
        if not valid_id(value):
            raise SettingsError(
                f"{name} = {value!r} (from {settings.origin(name)}) is not an id",
                hint="use letters, digits, '.', '_' and '-', at most 64, starting with a letter or digit",
            )
    task = TaskDir(settings.text("output_dir"), task_id)
    own = settings.text("trainer_output_dir")
    run = RunDir(own, version_id, task) if own else task.run(version_id)
    if not _is_utf8(run.path):
        raise _not_utf8("the run directory", run.path, "the working folder")
    return run


def launch_paths(run: RunDir) -> LaunchPaths:
    """The folders that a launch of this run may name."""
    return LaunchPaths(run.path, run.launch, run.checkpoints, run.metrics, run.cache, run.tmp, run.inputs)


def _refuse_undecodable(settings: Settings) -> None:
    # Paths are written into YAML and JSON, which are UTF-8: a name of other bytes has no form there.
    for name, value in settings.values.items():
        if isinstance(value, str) and not _is_utf8(value):
            raise _not_utf8(name, value, settings.origin(name))
    for name in _INPUT_FOLDERS:
        path = os.path.abspath(settings.text(name, os.path.sep))
        if not _is_utf8(path):
            raise _not_utf8(name, path, "the working folder")


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _not_utf8(what: str, value: str, origin: str) -> SettingsError:
    shown = value.encode("utf-8", "backslashreplace").decode("utf-8")
    return SettingsError(
        f"{what} = '{shown}' (from {origin}) holds bytes that are not UTF-8, which no YAML or JSON file can name",
        hint="rename the file or folder",
    )


@contextmanager
def reserved(run: RunDir, settings: Settings, environ: Mapping[str, str]) -> Iterator[None]:
    """Hold the run's lock. Raises SettingsError (RUN_DIR_IN_USE) before anything is made if the folder is not free,

    Busy for a version that is more than merely prepared (interface section 3).
    """
    _refuse_place(run, settings, environ)
    _refuse_foreign(run)
    try:
        atomic.make_private_dir(run.path)
        lock = locks.try_exclusive(run.run_lock)
    except OSError as error:
        raise SettingsError(
            f"the run directory {run.path} cannot be written: {error.strerror}", hint="choose another --output-dir"
        ) from None
    if lock is None:
        raise Busy(
            f"version {run.version_id} is in use by another process",
            hint="wait for it, or prepare under another version id",
            next_command=commands.status(run.path),
        )
    try:
        _refuse_foreign(run)  # again, now that nobody else of us can be at work in it
        if any(os.path.lexists(path) for path in (run.approval, run.run_state, run.result, run.launch_started)):
            raise Busy(
                f"version {run.version_id} is approved or has been run already; prepare never touches it again",
                hint="leave --version-id out to get a new version",
                next_command=commands.status(run.path),
            )
        _claim(run)
        yield
    finally:
        os.close(lock)


def _claim(run: RunDir) -> None:
    """Say whose folder this is before anything else is in it, so that a failed prepare can be repeated."""
    if not os.path.lexists(run.plan):
        task_id = os.path.basename(run.task.path)
        claim = {"schema_version": 1, "task_id": task_id, "version_id": run.version_id, "task_dir": run.task.path}
        atomic.write_json(run.plan, {**claim, "prepared_at": None})


def _refuse_place(run: RunDir, settings: Settings, environ: Mapping[str, str]) -> None:
    path = os.path.realpath(run.path)
    homes = {os.path.realpath(home) for home in (environ.get("HOME"), os.path.expanduser("~")) if home}
    if path in homes | {os.path.sep}:
        raise _in_use(f"{run.path} is {'the root' if path == os.path.sep else 'a home'} folder")
    for name in _INPUT_FOLDERS:
        value = settings.text(name)
        folder = os.path.realpath(value) if value and os.path.isdir(value) else ""
        if folder and folder != os.path.sep and os.path.commonpath((folder, path)) == folder:
            raise _in_use(f"{run.path} lies in {os.path.abspath(value)}, which is {name}, an input")


def _refuse_foreign(run: RunDir) -> None:
    """Only an absent or empty folder, or this version's own prepared run, is written into."""
    try:
        names = sorted(os.listdir(run.path))
    except NotADirectoryError:
        # A file at this very place; one further up is found when the folder is made.
        if os.path.lexists(run.path):
            raise _in_use(f"{run.path} is a file") from None
        return
    except FileNotFoundError:
        if os.path.islink(run.path):
            raise _in_use(f"{run.path} is a symbolic link to nothing") from None
        return
    except OSError as error:
        raise SettingsError(
            f"the run directory {run.path} cannot be read: {error.strerror}", hint="choose another --output-dir"
        ) from None
    if not names or (names == [os.path.basename(run.run_lock)] and not os.path.getsize(run.run_lock)):
        return
    held = _noted(run)
    if held == (os.path.basename(run.task.path), run.version_id):
        return
    if held is not None:
        raise _in_use(f"{run.path} holds version {held[1]!r} of task {held[0]!r}")
    shown = ", ".join(names[:_SHOWN_NAMES]) + (", ..." if len(names) > _SHOWN_NAMES else "")
    raise _in_use(f"{run.path} is not empty and is no run of version {run.version_id!r}: it holds {shown}")


def _noted(run: RunDir) -> tuple[str, str] | None:
    """(task, version) that plan.json names; None: there is none, or it is not one of ours."""
    if os.path.islink(run.plan):
        return None
    try:
        noted = atomic.read_json(run.plan) or {}
    except (OSError, ValueError, RecursionError):
        return None
    task_id, version_id = noted.get("task_id"), noted.get("version_id")
    return (task_id, version_id) if isinstance(task_id, str) and isinstance(version_id, str) else None


def _in_use(message: str) -> SettingsError:
    shown = message.encode("utf-8", "backslashreplace").decode("utf-8")
    return SettingsError(
        f"{shown}; nothing was touched",
        code=_CODE,
        hint="name a folder that does not exist yet, or leave --trainer-output-dir and --version-id out",
    )
