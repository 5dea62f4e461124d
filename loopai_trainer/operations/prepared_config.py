"""Finding and reading a prepared YAML: its directory, its exact bytes, its identity. Light: it runs before training."""

from __future__ import annotations

import os

from loopai_trainer.errors import ApprovalError, ConfigError, NotFound
from loopai_trainer.operations import targets

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
    """Refuse a YAML that was copied into another run's directory. Raises ConfigError."""
    if plan.version_id != run.version_id:
        raise ConfigError(
            f"{run.config} is the plan of version {plan.version_id}, but lies in the directory of {run.version_id}",
            hint="run the YAML in its own run directory, or prepare again",
        )
