"""Where a worker can run: a table name -> module, and other distributions' entry points `loopai_trainer.executors`."""

from __future__ import annotations

import importlib

from loopai_trainer.errors import ConfigError
from loopai_trainer.rules.cluster import HERE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.contract import Executor, Submits

ENTRY_POINTS = "loopai_trainer.executors"
_TABLE = {
    "local": "loopai_trainer.executors.local",
    "inline": "loopai_trainer.executors.inline",
    "ray_jobs": "loopai_trainer.executors.ray_jobs",
}
"""The module's attribute `EXECUTOR` is the executor."""


def get(name: str) -> Executor:
    """The executor of that name. Raises ConfigError if nobody provides it."""
    module = _TABLE.get(name)
    if module is not None:
        found: Executor = importlib.import_module(module).EXECUTOR
        return found
    return _from_entry_points(name)


def submitting(name: object) -> Submits | None:
    """The executor of that name if its workers run elsewhere; None for those of this host, which load nothing."""
    if name is None or name in HERE:
        return None
    executor = get(str(name))
    return executor if hasattr(executor, "submit") else None  # type: ignore[return-value] # it has all the rest then


def _from_entry_points(name: str) -> Executor:
    # Imported here, not above: it costs more CPU than starting a worker does (40 ms, measured with Python 3.11).
    from loopai_trainer.host import offered

    point = offered.find(ENTRY_POINTS, name)
    if point is not None:
        found: Executor = point.load()
        return found
    known = ", ".join(sorted({*_TABLE, *offered.names(ENTRY_POINTS)}))
    raise ConfigError(
        f"loopai.launch.executor: there is no executor '{name}'",
        code="CONFIG_INVALID",
        hint=f"use one of: {known}",
    )
