"""What other installed distributions offer to this one by entry points: one small registry for all kinds of parts.

Groups: loopai_trainer.backends, .executors, .rewards, .data_adapters. Read late: dearer than a worker's start.
"""

from __future__ import annotations

import importlib.util

from loopai_trainer.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import EntryPoint

REWARDS = "loopai_trainer.rewards"
DATA_ADAPTERS = "loopai_trainer.data_adapters"


def names(group: str) -> list[str]:
    """All names of a group, in order."""
    return sorted(point.name for point in points(group))


def points(group: str) -> Iterator[EntryPoint]:
    """The entry points of a group."""
    from importlib.metadata import entry_points

    yield from entry_points(group=group)


def find(group: str, name: str) -> EntryPoint | None:
    """The entry point of that name; None if nobody offers it."""
    return next((point for point in points(group) if point.name == name), None)


def source_of(point: EntryPoint) -> tuple[str, str]:
    """(path of the Python file, name in it) of what an entry point names; nothing of it is imported but its package.

    Raises ConfigError for what is no function of a Python file.
    """
    module, _, attribute = point.value.partition(":")
    try:
        spec = importlib.util.find_spec(module.strip())
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin or not spec.origin.endswith(".py") or not attribute:
        raise ConfigError(
            f"{point.name} is offered as {point.value}, which is no name in a Python file",
            hint="name the file itself: FILE.py:NAME",
        )
    return spec.origin, attribute.strip()
