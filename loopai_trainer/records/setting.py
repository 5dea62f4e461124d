"""Settings and the fields that they resolve."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Field:
    """One setting: drives settings, flags, the guide and missing-field errors.

    `kind` says what text from a flag or variable becomes; `choices` are the only values allowed, if there are any;
    `aliases` are other keys that a state or a caller may use for it, `old` such ones as draw a warning.
    """

    name: str
    help: str
    flag: str | None = None
    env: tuple[str, ...] = ()
    default: Any = None
    required: bool = False
    kind: Literal["text", "path", "bool", "int", "number", "json"] = "text"
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    old: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every key that means this setting; its own name first."""
        return (self.name, *self.aliases, *self.old)


@dataclass(frozen=True, slots=True)
class Settings:
    """Resolved settings. `origins[name]` says where each value came from ('--dataset', 'TASK_ID', 'default', ...).

    `kept`: native keys that a person has given a value of their own, which a draft leaves as it is.
    """

    values: Mapping[str, Any]
    origins: Mapping[str, str]
    kept: frozenset[str] = frozenset()

    def text(self, name: str, default: str = "") -> str:
        """The value as text; `default` if it is unset."""
        value = self.values.get(name)
        return default if value is None else str(value)

    def origin(self, name: str) -> str:
        """Where the value came from, for messages."""
        return self.origins.get(name, "unset")
