"""run: prepare and run in one go, without a human, for callers that opt out of approval; recorded as `auto`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from loopai_trainer.errors import ApprovalError
from loopai_trainer.operations import approval_policy, sources
from loopai_trainer.operations.answer import Answer
from loopai_trainer.operations.prepare import Progress, prepare
from loopai_trainer.operations.run_prepared import run_prepared
from loopai_trainer.rules import policy

if TYPE_CHECKING:
    from loopai_trainer.operations.waiting import Watcher

AUTO = "auto"
"""`approved_via` of a run that nobody approved."""


def run(
    request: sources.Request,
    *,
    no_approval: bool,
    wait_timeout_s: float | None = None,
    watch: Watcher | None = None,
    talk: Callable[[str], None] = lambda line: None,
    progress: Progress | None = None,
) -> Answer:
    """The run's own outcome, as `run_prepared` answers it. Raises what refuses the plan, or its start.

    Without the opt-out, or where a setting or policy file demands a terminal, ApprovalError APPROVAL_MISSING before
    anything is read or written.
    """
    _refuse(request, no_approval=no_approval)
    prepared = prepare(request, progress).data
    assert prepared is not None  # a prepare that does not raise has data
    _tell(prepared, talk)
    answer = run_prepared(
        prepared["config_path"],
        prepared["config_sha256"],
        request.environ,
        wait_timeout_s=wait_timeout_s,
        watch=watch,
        talk=talk,
        progress=progress,
        approved_via=AUTO,
    )
    answer.command = "run"
    return answer


def _refuse(request: sources.Request, *, no_approval: bool) -> None:
    if no_approval is not True:  # whatever else a caller may pass, such as the text "false", opts out of nothing
        raise ApprovalError(
            "run asks nobody: it starts what it has prepared, unread",
            hint="prepare, have the YAML approved, and run it by its hash; "
            "a caller without a person opts out of that: --no-approval, or no_approval=True",
        )
    demanded = approval_policy.demanded(sources.resolve(request).settings, request.environ)
    if demanded.level != policy.LEVELS[0]:
        raise ApprovalError(
            f"an approval at a terminal is demanded by {demanded.origin}, so nothing runs without one",
            hint="prepare, and have the operator approve it with `trainer approve`",
        )


def _tell(prepared: Mapping[str, Any], talk: Callable[[str], None]) -> None:
    talk(f"nobody approves this: {prepared['config_path']} is run as it was generated")
    for warning in prepared["warnings"]:
        talk(f"warning: {warning['message']} ({warning['code']})")
