"""An environment that training can run in, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python environment of a backend: absolute paths. `origin` says who named it."""

    root: str
    bin: str
    python: str
    site_packages: tuple[str, ...]
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Versions:
    """What an environment holds, read from its installed metadata (no interpreter is started)."""

    package: str
    version: str
    python: str
    package_dir: str
    distributions: Mapping[str, str]
    sha256: str
    site_packages: tuple[str, ...] = ()
