"""A model, a plan, an approved plan."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


@dataclass(frozen=True, slots=True)
class Model:
    """A model folder and its fingerprint. `weight_bytes`: size of its weight files; `config` its config.json."""

    path: str
    fingerprint: str
    weight_bytes: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A final YAML: its text, the SHA-256 of its UTF-8 bytes (lower-case hex), and its identity."""

    text: str
    sha256: str
    task_id: str
    version_id: str
    framework: str
    stage: str
    values: Mapping[str, Any]

    @property
    def loopai(self) -> Mapping[str, Any]:
        """The reserved block: identity, inputs and launch."""
        block: Mapping[str, Any] = self.values["loopai"]
        return block

    @property
    def result(self) -> Mapping[str, Any]:
        """The reserved block that says how the result is chosen."""
        block: Mapping[str, Any] = self.values["result"]
        return block

    @property
    def native(self) -> dict[str, Any]:
        """What the backend reads: everything but the reserved blocks."""
        return {k: v for k, v in self.values.items() if k not in ("loopai", "result")}


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """A plan whose hash was approved. Only rules.plan.approve makes one."""

    plan: Plan
    approval_sha256: str
