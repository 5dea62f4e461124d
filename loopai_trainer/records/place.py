"""An environment that training can run in, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    """What an environment holds, read from its files (no interpreter is started).

    `sha256` digests everything: names and versions, Python, and the code of `code_sha256`, which covers the package's
    own files and what runs at every start of the interpreter. The same `code_sha256` under another `sha256` means that
    packages or Python changed. `editable`: name -> folder of packages that are run from elsewhere (their code is in
    `code_sha256` too). `system_packages`: those of the underlying Python can be imported as well, and are in no digest.
    """

    package: str
    version: str
    python: str
    package_dir: str
    distributions: Mapping[str, str]
    sha256: str
    site_packages: tuple[str, ...] = ()
    code_sha256: str = ""
    editable: Mapping[str, str] = field(default_factory=dict)
    system_packages: bool = False
