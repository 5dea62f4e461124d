"""Asking the installed package for the whole configuration of a plan, and holding it against the approved digest.

Light until a backend has a question: the worker imports it before training's exec.
"""

from __future__ import annotations

from loopai_trainer.errors import Cancelled, InputChanged
from loopai_trainer.rules.digest import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from loopai_trainer.contract import Backend
    from loopai_trainer.records import Environment, LaunchPaths, Plan, Resolved

NAME = "resolved.yaml"
"""The file in `launch/` that holds the resolved text."""


def ask_resolved(
    backend: Backend,
    native: Mapping[str, object],
    environment: Environment,
    paths: LaunchPaths,
    stopped: Callable[[], bool] = lambda: False,
) -> Resolved | None:
    """What the package makes of the native keys; None: it reads them as they stand. Raises as host.asking.ask."""
    question = backend.resolve(native, environment, paths)
    if question is None:
        return None
    from loopai_trainer.host.asking import Stopped, ask

    try:
        return backend.resolved(ask(question, stopped))
    except Stopped:
        raise Cancelled("the run was cancelled before training was started", hint="prepare a new version") from None


def digest(resolved: Resolved) -> str:
    """SHA-256 of the resolved text's UTF-8 bytes, lower-case hex: `loopai.backend.resolved_sha256`."""
    return sha256(resolved.text.encode("utf-8"))


def approved_text(
    plan: Plan, backend: Backend, environ: Mapping[str, str], paths: LaunchPaths, stopped: Callable[[], bool]
) -> str | None:
    """The resolved text if it is the approved one; None: the package reads the plan as it stands.

    Raises Cancelled when `stopped`, and InputChanged (RESOLVED_CHANGED) if the package makes something else of the plan
    than what was approved.
    """
    pinned = plan.loopai["backend"]
    if backend.data_kind == "chat" and "resolved_sha256" not in pinned:
        return None  # nothing is loaded for a backend that has no question
    from loopai_trainer.host import environments

    environment = environments.resolve(pinned["environment"], plan.framework, environ)
    resolved = ask_resolved(backend, plan.native, environment, paths, stopped)
    if resolved is None and "resolved_sha256" not in pinned:
        return None
    got = digest(resolved) if resolved is not None else "none"
    if resolved is None or got != pinned.get("resolved_sha256"):
        raise InputChanged(
            "the installed package makes another configuration of the plan than the approved one\n"
            f"  expected: {pinned.get('resolved_sha256')}\n"
            f"  got:      {got}",
            code="RESOLVED_CHANGED",
            hint="prepare again, and approve what it makes now",
        )
    return resolved.text
