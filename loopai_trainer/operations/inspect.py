"""inspect: read a prepared YAML again after edits, check everything again, show it with its present hash."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from loopai_trainer import backends
from loopai_trainer.contract import Backend
from loopai_trainer.errors import ConfigError, InputChanged
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import environments
from loopai_trainer.operations import approval_policy, approvals, commands, inputs, resolving, rounds, run_place
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.prepared_config import check_identity, read_config, run_of_config
from loopai_trainer.operations.refresh import refresh
from loopai_trainer.operations.reserved_block import reserved_problems
from loopai_trainer.operations.review import Review, approval_data, refuse, review
from loopai_trainer.records import Plan, Problem
from loopai_trainer.rules import plan as plans
from loopai_trainer.rules import yaml_text

SHOWN_BEFORE = 5
"""Earlier YAMLs of a version that plan.json keeps, so that run-prepared can say what changed since one was approved."""

MENDED_BY_REFRESH = ("loopai.inputs", "loopai.backend")
"""What the program says of inputs: `inspect --refresh` writes it anew."""

Progress = Callable[[str, int, int], None]
"""(what, bytes done, bytes in all): for the terminal."""


class Examined(NamedTuple):
    """A prepared YAML that was found good as it stands. `since`: the difference to the last approved round."""

    plan: Plan
    found: Review
    since: dict[str, Any] | None


def inspect(
    config_path: str, environ: Mapping[str, str], *, refresh_inputs: bool = False, progress: Progress | None = None
) -> Answer:
    """Everything that prepare checked is checked again, inputs included. Raises a TrainerError with all problems.

    Nothing that training reads is written, unless `refresh_inputs` takes present inputs into the YAML; the time of a
    good inspection is noted in plan.json, since an approval's life is counted from it (interface section 6).
    """
    run = run_of_config(config_path)
    rewritten = refresh(run, environ, progress) if refresh_inputs else None
    examined = examine(run, environ, progress)
    plan, found = examined.plan, examined.found
    note_inspection(run, examined)
    approved = approvals.standing(run, plan) is not None
    following = approval_policy.next_command(plan, run, environ, approved=approved)
    data = approval_data(plan, run, found.summary, found.warnings, diff=examined.since, next_command=following)
    if refresh_inputs:
        data["refreshed"] = rewritten
    message = f"{run.config} is as it should be; nothing was started"
    return Answer("inspect", data, status="approved" if approved else "prepared", message=message)


def examine(run: RunDir, environ: Mapping[str, str], progress: Progress | None = None) -> Examined:
    """Check a prepared YAML as prepare did. Writes nothing. Raises a TrainerError with all problems found."""
    data = read_config(run)
    plan = plans.read(data, run.config)
    check_identity(plan, run)
    backend = backends.get(plan.framework, plan.stage)
    if backend.needs_model and not plan.loopai["inputs"].get("model"):
        message = f"{run.config}: the reserved block is damaged: 'loopai.inputs.model' is missing"
        raise ConfigError(message, code="RESERVED_BLOCK", hint="undo that edit, or prepare again")
    environment = environments.resolve(plan.loopai["backend"]["environment"], plan.framework, environ)
    versions = backend.probe(environment)
    document = yaml_text.load(plan.text, run.config, "config")
    reserved = list(reserved_problems(plan.loopai, document.lines, run))
    changed = _changed_inputs(plan, backend, environ, progress)
    # What was edited there says which program is asked, and which code it may import: it is refused unasked.
    asks = not reserved and changed is None
    found = review(plan, backend, versions, document.lines, run, progress, environ, rehearses=asks)
    paths = run_place.launch_paths(run)
    errors = [
        *found.errors,
        *reserved,
        *resolving.changed(plan, backend, environ, paths),
    ]
    if errors:
        raise _refusal(errors, run)
    if changed is not None:
        raise changed
    return Examined(plan, found, rounds.since_approved(run, plan.text))


def _changed_inputs(
    plan: Plan, backend: Backend, environ: Mapping[str, str], progress: Progress | None
) -> InputChanged | None:
    """The refusal of inputs that are not those of the YAML; what the plan itself lacks is told first."""
    try:
        inputs.verify(plan, backend, environ, progress=progress)
    except InputChanged as error:
        return error
    return None


def _refusal(errors: Sequence[Problem], run: RunDir) -> ConfigError:
    """All errors in one refusal, with the command that mends them if a new look at the inputs does."""
    error = refuse(errors, run.config)
    if all((problem.field or "").startswith(MENDED_BY_REFRESH) for problem in errors):
        error.next_command = commands.refresh(run.config)
    return error


def note_inspection(run: RunDir, examined: Examined) -> None:
    """Write down in plan.json that the YAML was found good as it stands, and what it changes since the last round."""
    try:
        noted = atomic.read_json(run.plan)
        if noted is not None:
            found = {
                "inspected_at": time.time(),
                "config_sha256": examined.plan.sha256,
                "config_yaml": examined.plan.text,
                "reserved": examined.plan.loopai,
                "shown_before": _shown_before(noted, examined.plan.sha256),
            }
            atomic.write_json(run.plan, {**noted, **found, **approvals.moment(), **rounds.noted(examined.since)})
    except (OSError, ValueError):
        # A directory that cannot be written (a sandbox) must not keep a person from reading the plan.
        pass


def _shown_before(noted: Mapping[str, Any], sha256: str) -> list[Any]:
    """The YAMLs that were shown before the one with that hash, newest first."""
    before = noted.get("shown_before")
    last = {name: noted.get(name) for name in ("config_sha256", "config_yaml")}
    entries = [last, *(before if isinstance(before, list) else [])]
    others = [entry for entry in entries if isinstance(entry, dict) and entry.get("config_sha256") != sha256]
    return others[:SHOWN_BEFORE]
