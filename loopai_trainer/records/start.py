"""How training starts."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from loopai_trainer.records.problem import Problem


@dataclass(frozen=True, slots=True)
class LaunchPaths:
    """Absolute folders that a launch may name; all lie inside the run directory (`tmp` may be a short path outside).

    `attempt` counts trainings of a version from 1.
    """

    run: str
    launch: str
    checkpoints: str
    metrics: str
    cache: str
    tmp: str
    inputs: str = ""
    attempt: int = 1


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


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a plan trains on its host: `devices` as CUDA_VISIBLE_DEVICES has them (empty: none), `processes` training
    processes."""

    devices: str
    processes: int


@dataclass(frozen=True, slots=True)
class Question:
    """A short program in the backend's environment that reads `stdin` and answers on stdout within `limit_s` seconds.

    `what` says for people what it does. It writes nothing that lasts.
    """

    what: str
    command: Command
    stdin: bytes
    limit_s: float


@dataclass(frozen=True, slots=True)
class Resolved:
    """The whole configuration that the installed package makes of a plan: `text` is what training reads."""

    text: str
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a rehearsal found. `summary`: what an approver should see of it, in reading order."""

    problems: tuple[Problem, ...] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)
