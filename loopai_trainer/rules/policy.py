"""How an approval has to be given: `hash` or `terminal`, and what a policy file says of it. Pure.

A policy file can only raise the level: whoever asks takes the strictest of all that apply.
"""

from __future__ import annotations

from loopai_trainer.errors import ApprovalError, ConfigError
from loopai_trainer.rules import yaml_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

KEY = "approval_require"
LEVELS = ("hash", "terminal")
"""From the laxest to the strictest. hash: the caller passes it; terminal: a person typed at one (`trainer approve`)."""


class Requirement:
    """A level and where it was asked for."""

    __slots__ = ("level", "origin")

    def __init__(self, level: str, origin: str) -> None:
        self.level = level
        self.origin = origin


def strictest(requirements: Iterable[Requirement]) -> Requirement:
    """The first of the strictest ones; `hash`, the default, if there are none."""
    found = Requirement(LEVELS[0], "default")
    for one in requirements:
        if LEVELS.index(one.level) > LEVELS.index(found.level):
            found = one
    return found


def read(text: str, path: str) -> Requirement:
    """What a policy file asks for. Raises ApprovalError POLICY_INVALID for anything that is not understood whole."""
    try:
        values = yaml_text.load(text, path, "settings").values
    except ConfigError as error:
        raise invalid(path, error.message) from None
    unknown = [key for key in values if key != KEY]
    if unknown:
        raise invalid(path, f"{path}: '{unknown[0]}' is not known in a policy file (it knows {KEY})")
    if values.get(KEY) not in LEVELS:
        raise invalid(path, f"{path}: {KEY} is {values.get(KEY)!r}, not one of {', '.join(LEVELS)}")
    return Requirement(values[KEY], path)


def invalid(path: str, why: str) -> ApprovalError:
    """The refusal while a policy file cannot be read: nothing starts, since it may ask for more."""
    return ApprovalError(
        f"the policy file cannot be relied on: {why}",
        code="POLICY_INVALID",
        hint=f"mend {path}, or have its owner remove it: it holds `{KEY}: terminal` or `{KEY}: hash`",
    )
