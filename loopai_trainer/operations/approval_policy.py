"""How this plan has to be approved here: the strictest of the plan, its settings and every policy file. Light."""

from __future__ import annotations

from loopai_trainer.errors import ApprovalError
from loopai_trainer.files import atomic, policy_files
from loopai_trainer.operations import commands
from loopai_trainer.rules import policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.records import Plan, Settings


def required(plan: Plan, run: RunDir, environ: Mapping[str, str]) -> policy.Requirement:
    """The level that run-prepared demands. Raises ApprovalError POLICY_INVALID: an unread policy may ask for more."""
    return policy.strictest([*_of_plan(plan, run), *_of_files(environ)])


def demanded(settings: Settings, environ: Mapping[str, str]) -> policy.Requirement:
    """The level that a plan of these settings will need, before there is one. Raises ApprovalError POLICY_INVALID."""
    asked = policy.Requirement(settings.text(policy.KEY), settings.origin(policy.KEY))
    return policy.strictest([asked, *_of_files(environ)])


def _of_files(environ: Mapping[str, str]) -> list[policy.Requirement]:
    try:
        texts = policy_files.texts(environ)
    except policy_files.Unreadable as error:
        raise policy.invalid(error.path, error.why) from None
    return [policy.read(text, path) for path, text in texts]


def next_command(plan: Plan, run: RunDir, environ: Mapping[str, str], *, approved: bool = False) -> str:
    """What starts the plan, or what has to come before that; `approved`: at a terminal, and it still stands."""
    if approved:
        return commands.run_prepared(run.config, plan.sha256)
    try:
        level = required(plan, run, environ).level
    except ApprovalError:
        level = policy.LEVELS[-1]
    return commands.run_prepared(run.config, plan.sha256) if level == "hash" else commands.approve(run.path)


def _of_plan(plan: Plan, run: RunDir) -> Iterator[policy.Requirement]:
    """What the plan's author asked for: it stands in the YAML, and in plan.json for the case that it is edited out."""
    block = plan.loopai.get("approval")
    asked = block.get("require") if isinstance(block, dict) else None
    if block is not None:
        # Anything else than a known level is no way to ask for less.
        yield policy.Requirement(asked if asked in policy.LEVELS else policy.LEVELS[-1], f"{run.config}")
    try:
        settings = (atomic.read_json(run.plan) or {}).get("settings")
    except (OSError, ValueError):
        return
    entry = settings.get(policy.KEY) if isinstance(settings, dict) else None
    value = entry.get("value") if isinstance(entry, dict) else None
    if value in policy.LEVELS:
        yield policy.Requirement(value, f"{run.plan}")
