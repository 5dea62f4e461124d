"""What the installed package makes of a plan's native keys, while it is prepared or inspected."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from loopai_trainer.contract import Backend
from loopai_trainer.errors import ConfigError
from loopai_trainer.host import environments
from loopai_trainer.records import Environment, LaunchPaths, Plan, Problem
from loopai_trainer.worker import resolving


def entry(backend: Backend, native: Mapping[str, Any], environment: Environment, paths: LaunchPaths) -> dict[str, str]:
    """{"resolved_sha256": ...} for `loopai.backend`; empty for a package that reads the native keys as they stand.

    Raises ConfigError with all that the package refuses, and BackendMissing if it cannot be asked.
    """
    resolved = resolving.ask_resolved(backend, native, environment, paths)
    if resolved is None:
        return {}
    errors = [problem for problem in resolved.problems if problem.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise ConfigError(errors[0].message + more, hint=errors[0].hint, problems=errors)
    return {"resolved_sha256": resolving.digest(resolved)}


def changed(plan: Plan, backend: Backend, environ: Mapping[str, str], paths: LaunchPaths) -> list[Problem]:
    """Findings where the approved digest is not what the package makes of the plan now (after an edit, or another
    package), and what the package refuses."""
    pinned = plan.loopai["backend"]
    environment = environments.resolve(pinned["environment"], plan.framework, environ)
    try:
        now = entry(backend, plan.native, environment, paths)
    except ConfigError as error:
        return list(error.problems)
    if now.get("resolved_sha256") == pinned.get("resolved_sha256"):
        return []
    message = (
        f"the digest of the resolved configuration is not that of the keys as they stand\n"
        f"  in the YAML: {pinned.get('resolved_sha256')}\n  now:         {now.get('resolved_sha256')}"
    )
    path = os.path.join(paths.run, "training_config.yaml")
    hint = "after an edit of native keys: trainer inspect --refresh writes the present digest"
    return [Problem("error", "RESOLVED_CHANGED", "config", message, hint, path=path, field="loopai.backend")]
