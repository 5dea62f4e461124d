"""The refusal of every verb that needs a run which has been started. Light: `wait` imports it."""

from loopai_trainer.errors import UsageError
from loopai_trainer.operations import commands, targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.worker.observe import Observation


def refuse(run: "RunDir", seen: "Observation", what: str) -> None:
    """Raises UsageError NOT_STARTED for a run that nobody has started; `what` is not there then ("to wait for").

    NotFound where a refused prepare is all that there is.
    """
    if seen.verdict.status not in ("prepared", "approved"):
        return
    targets.refuse_unplanned(run)
    raise UsageError(
        f"{run.version_id} has not been started, so there is nothing {what}",
        code="NOT_STARTED",
        hint="have its YAML approved, then run it with `trainer run-prepared`",
        next_command=commands.inspect(run.config),
    )
