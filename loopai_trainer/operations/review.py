"""The review of a plan that `prepare` and `inspect` share: everything that can be known before a device is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from loopai_trainer.contract import Backend
from loopai_trainer.errors import ConfigError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import asking, devices
from loopai_trainer.operations import run_place, secret_scan, token_lengths
from loopai_trainer.operations.answer import problem_json
from loopai_trainer.records import Plan, Problem, Rehearsal, Versions
from loopai_trainer.rules import plan_flags, task_fields

Progress = Callable[[str, int, int], None]
"""Called with (what, done, total); `total` is 0 where it is not known."""


class Review(NamedTuple):
    """Red flags stand first in `warnings`; `report` is what data_check_report.txt has to say of it, or empty."""

    warnings: tuple[Problem, ...]
    errors: tuple[Problem, ...]
    summary: Mapping[str, Any]
    report: str = ""


def review(
    plan: Plan,
    backend: Backend,
    versions: Versions,
    lines: Mapping[str, int],
    run: RunDir,
    progress: Progress | None = None,
    environ: Mapping[str, str] = {},
    *,
    rehearses: bool = True,
) -> Review:
    """All findings on a final YAML; `lines` maps its keys to lines, `progress` hears of what takes long.

    `environ`: its secrets are looked for in the YAML. `rehearses`: whether the backend's environment may be asked.
    """
    measuring = None if progress is None else partial(progress, "measuring rows in tokens")
    measured = token_lengths.measure(plan, backend, versions, measuring)
    rehearsed = _rehearsed(plan, backend, versions, run, progress) if rehearses else Rehearsal()
    found = [
        *plan_flags.red_flags(plan),
        *backend.red_flags(plan),
        *secret_scan.plan_problems(plan, lines, environ),
        *backend.template_problems(plan.native, lines, versions),
        *backend.check(plan, versions, devices.read_host(run.path)),
        *measured.problems,
        *rehearsed.problems,
    ]
    return Review(
        tuple(problem for problem in found if problem.severity == "warning"),
        tuple(problem for problem in found if problem.severity == "error"),
        {**backend.summary(plan), **measured.summary, **rehearsed.summary},
        measured.report,
    )


def _rehearsed(plan: Plan, backend: Backend, versions: Versions, run: RunDir, progress: Progress | None) -> Rehearsal:
    """What the backend tries in its own environment. Raises BackendMissing if it cannot be asked."""
    question = backend.rehearse(plan, versions, run_place.launch_paths(run))
    if question is None:
        return Rehearsal()
    if progress is not None:
        progress(question.what, 0, 0)
    try:
        answer = asking.ask(question)
    except ConfigError as error:  # the user's own code has ended the program: a finding among the others
        return Rehearsal(error.problems)
    return backend.rehearsed(plan, answer)


def refuse(errors: Sequence[Problem], path: str, told: Sequence[Problem] = ()) -> ConfigError:
    """All errors of a plan in one refusal; `told`: warnings without which the errors cannot be understood.

    `path`: the template or YAML, named only if the first fault has a place in it.
    """
    first = errors[0]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    placed = first.where == "template" or (first.line is not None and first.path in (None, path))
    at = f"{path}: " if placed else ""
    return ConfigError(f"{at}{first.message}{more}", hint=first.hint, problems=(*errors, *told))


def approval_data(
    plan: Plan,
    run: RunDir,
    summary: Mapping[str, Any],
    warnings: Sequence[Problem],
    *,
    diff: Mapping[str, Any] | None,
    next_command: str,
) -> dict[str, Any]:
    """The data of `prepare --json` and `inspect --json` (interface section 5)."""
    inputs = plan.loopai["inputs"]
    return {
        "config_path": run.config,
        "config_yaml": plan.text,
        "config_sha256": plan.sha256,
        "trainer_version_id": plan.version_id,
        "task_id": plan.task_id,
        "train_framework": plan.framework,
        "train_stage": plan.stage,
        "run_dir": run.path,
        "summary": dict(summary),
        "counts": counts(inputs),
        "warnings": [problem_json(problem) for problem in warnings],
        "diff": diff,
        "next_command": next_command,
    }


def counts(inputs: Mapping[str, Any]) -> dict[str, dict[str, int] | None]:
    """Rows read, accepted and left out, by split, of `loopai.inputs`; None for a split that there is not."""
    return task_fields.counts(inputs)
