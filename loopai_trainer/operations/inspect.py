"""inspect: read a prepared YAML again after edits, check everything again, show it with its present hash."""

from __future__ import annotations

import time
from collections.abc import Mapping

from loopai_trainer import backends
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import environments
from loopai_trainer.operations import inputs
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.prepared_config import check_identity, read_config, run_of_config
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


def _note_inspection(run: RunDir, plan: Plan) -> None:
    try:
        noted = atomic.read_json(run.plan)
        if noted is not None:
            atomic.write_json(
                run.plan,
                {
                    **noted,
                    "inspected_at": time.time(),
                    "config_sha256": plan.sha256,
                    "config_yaml": plan.text,
                },
            )
    except (OSError, ValueError):
        # A directory that cannot be written (a sandbox) must not keep a person from reading the plan.
        pass
