"""How training starts."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class LaunchPaths:
    """Absolute folders that a launch may name; all lie inside the run directory (`tmp` may be a short path outside)."""

    run: str
    launch: str
    checkpoints: str
    metrics: str
    cache: str
    tmp: str


@dataclass(frozen=True, slots=True)
class Command:
    """Something to exec: an argument list (no shell), a working folder and the complete environment."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Launch:
    """How training starts. `files`: name -> text, written into `launch/` beforehand by the worker."""

    main: Command
    files: Mapping[str, str] = field(default_factory=dict)
    helpers: tuple[Command, ...] = ()
