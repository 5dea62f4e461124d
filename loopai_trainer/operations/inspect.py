"""inspect: read a prepared YAML again after edits, check everything again, show it with its present hash."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from loopai_trainer import backends
from loopai_trainer.errors import ApprovalError, ConfigError, NotFound
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import environments
from loopai_trainer.operations import inputs, targets
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.review import approval_data, refuse, review
from loopai_trainer.records import Plan
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules import yaml_text


def inspect(config_path: str, environ: Mapping[str, str]) -> Answer:
    """Everything that prepare checked is checked again, inputs included. Raises a TrainerError with all problems.

    Nothing that training reads is written; the time of a good inspection is noted in plan.json, since an approval's
    life is counted from it (interface section 6).
    """
    run = run_of_config(config_path)
    data = read_config(run)
    plan = plans.read(data, run.config)
    check_identity(plan, run)
    backend = backends.get(plan.framework, plan.stage)
    environment = environments.resolve(plan.loopai["backend"]["environment"], plan.framework, environ)
    versions = backend.probe(environment)
    document = yaml_text.load(plan.text, run.config, "config")
    found = review(plan, backend, versions, document.lines, run)
    if found.errors:
        raise refuse(found.errors, run.config)
    inputs.verify(plan, backend, environ)
    _note_inspection(run, plan)
    message = f"{run.config} is as it should be; nothing was started"
    return Answer(
        "inspect", approval_data(plan, run, found.summary, found.warnings), status="prepared", message=message
    )


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


def _note_inspection(run: RunDir, plan: Plan) -> None:
    try:
        noted = atomic.read_json(run.plan)
        if noted is not None:
            atomic.write_json(run.plan, {**noted, "inspected_at": time.time(), "config_sha256": plan.sha256})
    except (OSError, ValueError):
        # A directory that cannot be written (a sandbox) must not keep a person from reading the plan.
        pass
