"""wait: follow a run to its end; the answer and the exit code are the run's own. Reads only."""

import time

from loopai_trainer.errors import UsageError
from loopai_trainer.operations import commands, targets, waiting
from loopai_trainer.worker.observe import observe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.operations.answer import Answer
    from loopai_trainer.operations.waiting import Watcher


def wait(version: str, scope: targets.Scope, timeout_s: float | None, watch: "Watcher | None" = None) -> "Answer":
    """Raises NotFound, and UsageError for a version that nobody has started: waiting for it would never end."""
    run = targets.find(version, scope)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    if observe(run, limit_s=timeout_s).verdict.status in ("prepared", "approved"):
        raise UsageError(
            f"{run.version_id} has not been started, so there is nothing to wait for",
            code="NOT_STARTED",
            hint="have its YAML approved, then run it with `trainer run-prepared`",
            next_command=commands.inspect(run.config),
        )
    seen = waiting.until_end(run, watch, deadline=deadline)
    if seen is None:
        return waiting.still_running("wait", run)
    return waiting.ended("wait", run, seen)
