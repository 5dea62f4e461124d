"""wait: follow a run to its end; the answer and the exit code are the run's own. Reads only."""

import time

from loopai_trainer.operations import targets, unstarted, waiting
from loopai_trainer.worker.observe import observe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.operations.answer import Answer
    from loopai_trainer.operations.waiting import Watcher


def wait(version: str, scope: targets.Scope, timeout_s: float | None, watch: "Watcher | None" = None) -> "Answer":
    """Raises NotFound, and UsageError for a version that nobody has started: waiting for it would never end."""
    run = targets.find(version, scope)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    unstarted.refuse(run, observe(run, limit_s=timeout_s), "to wait for")
    seen = waiting.until_end(run, watch, deadline=deadline)
    if seen is None:
        return waiting.still_running("wait", run)
    return waiting.ended("wait", run, seen)
