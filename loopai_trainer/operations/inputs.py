"""Looking again at everything that an approved plan pins: files, model folder, environment. Light until it hashes."""

from __future__ import annotations

from loopai_trainer.errors import BackendMissing, ConfigError, InputChanged
from loopai_trainer.records import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from loopai_trainer.contract import Backend
    from loopai_trainer.records import Plan
    from loopai_trainer.worker.inputs import Progress


def verify(
    plan: Plan,
    backend: Backend,
    environ: Mapping[str, str],
    *,
    verify_all: bool = False,
    progress: Progress | None = None,
) -> None:
    """Hash every pinned input again and compare. Raises InputChanged that lists all that differ (exit 6).

    `verify_all` reads every byte again; otherwise a file whose device, inode, size, mtime and ctime are those of an
    earlier hashing is not read twice.
    """
    from loopai_trainer.worker.inputs import changed_inputs, strangers

    try:
        problems = [
            *changed_inputs(plan, environ, verify_all=verify_all, progress=progress),
            *strangers(plan),
            *_environment(plan, backend, environ),
        ]
    except ConfigError as error:
        # The model folder cannot be walked any more: a link that leads nowhere, a pipe in it.
        problems = [Problem("error", "INPUT_CHANGED", "model", error.message, error.hint)]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise InputChanged(
            problems[0].message + more,
            hint="prepare again, so that the present inputs are checked and approved",
            problems=problems,
        )


def _environment(plan: Plan, backend: Backend, environ: Mapping[str, str]) -> Iterator[Problem]:
    from loopai_trainer.host import environments

    pinned = plan.loopai["backend"]
    try:
        environment = environments.resolve(pinned["environment"], plan.framework, environ)
        versions = backend.probe(environment)
    except BackendMissing as error:
        yield _problem(pinned["environment"], f"environment: {error.message}")
        return
    for what, expected, got in (
        ("python", pinned["python"], environment.python),
        (f"{pinned['package']} version", pinned["version"], versions.version),
        ("installed packages and backend code (sha256)", pinned["environment_sha256"], versions.sha256),
        *_checkout_changes(pinned),
    ):
        if expected != got:
            message = f"environment: {what} changed since it was approved\n  expected: {expected}\n  got:      {got}"
            yield _problem(pinned["environment"], message)


def _checkout_changes(pinned: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    if "checkout" not in pinned:
        return []
    from loopai_trainer.operations import provenance

    return provenance.changes(pinned)


def _problem(path: str, message: str) -> Problem:
    return Problem("error", "ENVIRONMENT_CHANGED", "environment", message, path=path)
