"""What a host has, and what is installed on it for a backend."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What `trainer setup` installs for a backend. `constraints`: the text of a pip constraints file.

    `smoke`: Python code that has to run in the new environment, since installed metadata alone proves little.
    `conda_name`: the conda environment that is taken where setup has made none; empty: none is.
    """

    name: str
    requirements: tuple[str, ...]
    constraints: str
    smoke: str
    conda_name: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of the host. `memory_bytes` is its total."""

    index: int
    uuid: str
    name: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Host:
    """What this machine offers. `free_bytes`: free space of the file system that holds the run."""

    devices: tuple[Device, ...]
    cpu_count: int
    free_bytes: int
