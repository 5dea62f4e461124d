"""The environment that a backend's package lies in: as the settings name it, else the one that was set up for it."""

from __future__ import annotations

from collections.abc import Mapping

from loopai_trainer.errors import BackendMissing
from loopai_trainer.host import environments
from loopai_trainer.operations.sources import Resolved
from loopai_trainer.records import Environment, Field

FLAG = "--env"


def find(resolved: Resolved, environ: Mapping[str, str]) -> Environment:
    """The environment that was named, else the one that `trainer setup` made. Raises BackendMissing (exit 69)."""
    settings, named = resolved.settings, flagged(resolved, FLAG)
    if named:
        origin = next(settings.origin(field.name) for field in resolved.fields if field.flag == FLAG)
        return environments.resolve(named, settings.text("train_framework"), environ, origin)
    spec = resolved.backend.environment_spec()
    if spec is None:
        raise BackendMissing("no environment was named", hint="name one with --env")
    return environments.default(spec, environ)


def flagged(resolved: Resolved, flag: str) -> str:
    """The value of the setting that each backend calls differently; empty if it is not given."""
    field = field_of(resolved, flag)
    return resolved.settings.text(field.name) if field else ""


def field_of(resolved: Resolved, flag: str) -> Field | None:
    """The setting of that flag; None if this backend has none."""
    return next((field for field in resolved.fields if field.flag == flag), None)
