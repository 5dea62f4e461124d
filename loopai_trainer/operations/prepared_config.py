"""Finding and reading a prepared YAML: its directory, its exact bytes, its identity. Light: it runs before training."""

from __future__ import annotations

import os

from loopai_trainer.errors import ApprovalError, ConfigError, NotFound
from loopai_trainer.files import atomic
from loopai_trainer.operations import commands, targets
from loopai_trainer.rules import dev_bounds
from loopai_trainer.rules import plan as plans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.records import Plan


def run_of_config(config_path: str) -> RunDir:
    """The run directory that a prepared YAML lies in. Raises NotFound, or ApprovalError for a symbolic link."""
    path = os.path.abspath(config_path)
    if os.path.isdir(path):
        path = os.path.join(path, "training_config.yaml")
    if os.path.islink(path):
        raise ApprovalError(
            f"{path} is a symbolic link: what it points to could change after approval",
            code="APPROVAL_INVALID",
            hint="name the training_config.yaml inside the run directory",
        )
    if not os.path.isfile(path):
        raise NotFound(f"there is no prepared YAML {path}", hint="name the config_path that `trainer prepare` printed")
    run = targets.open_run(os.path.dirname(path))
    if os.path.basename(path) != os.path.basename(run.config):
        raise ConfigError(
            f"{path} is not named training_config.yaml, so it is no prepared YAML",
            hint="name the config_path that `trainer prepare` printed",
        )
    return run


def read_config(run: RunDir) -> bytes:
    """The YAML's exact bytes, read once. Raises NotFound."""
    try:
        descriptor = os.open(run.config, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise NotFound(f"{run.config} cannot be read: {error.strerror}", hint="prepare again") from None
    with open(descriptor, "rb") as file:
        return file.read()


def check_identity(plan: Plan, run: RunDir) -> None:
    """Refuse a YAML that belongs to another run directory: its lock would not guard what it writes and reads.

    Raises ConfigError WRONG_RUN_DIRECTORY, also for a run directory that was copied or moved as a whole; DEV_PLAN for
    the plan of a dev run.
    """
    if dev_bounds.is_dev(plan):
        raise ConfigError(
            f"{run.config} is the plan of a dev run, which is never inspected, approved or run again",
            code="DEV_PLAN",
            hint="use the YAML of the version that was tried",
        )
    if plan.version_id != run.version_id:
        raise _foreign(run, f"is the plan of version {plan.version_id}, but lies in the directory of {run.version_id}")
    here = os.path.realpath(run.path) + os.sep
    for entry in plans.inputs(plan):
        # Real paths: the same folder reached through a symbolic link is the same run directory.
        if not os.path.realpath(entry.path).startswith(here):
            raise _foreign(run, f"reads {entry.path}, which does not lie in its own run directory")


def check_inspected(plan: Plan, run: RunDir) -> None:
    """Refuse a YAML that `prepare` or `inspect` has not found good as it stands. Raises ApprovalError NOT_INSPECTED.

    The hash says that a person approved these bytes; plan.json says that everything was checked with these bytes.
    """
    if _noted(run).get("config_sha256") != plan.sha256:
        raise ApprovalError(
            f"{run.config} was edited after it was checked, and has not been inspected since",
            code="NOT_INSPECTED",
            hint="inspect it: that checks everything again and shows what there is to approve",
            next_command=commands.inspect(run.config),
        )


def diff_to_shown(run: RunDir, text: str, sha256: str) -> str | None:
    """Unified diff to `text` from the YAML with that hash, if it was ever shown, else from the one that was shown last.

    None if no YAML that was shown is known.
    """
    import difflib

    noted = _noted(run)
    before = noted.get("shown_before")
    entries = [noted, *(before if isinstance(before, list) else [])]
    known = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("config_yaml"), str)]
    if not known:
        return None
    shown = str(next((one for one in known if one.get("config_sha256") == sha256), known[0])["config_yaml"])
    lines = difflib.unified_diff(
        shown.splitlines(keepends=True), text.splitlines(keepends=True), "as it was shown", "as it is now"
    )
    return "".join(lines)


def _noted(run: RunDir) -> dict[str, object]:
    try:
        return atomic.read_json(run.plan) or {}
    except (OSError, ValueError):
        return {}


def _foreign(run: RunDir, what: str) -> ConfigError:
    return ConfigError(
        f"{run.config} {what}",
        code="WRONG_RUN_DIRECTORY",
        hint="run the YAML in the directory that it was prepared in, or prepare again",
    )
