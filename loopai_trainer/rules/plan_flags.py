"""Red flags of any plan, whatever its backend: what the approved hash covers less than fully, for the approver."""

from __future__ import annotations

from loopai_trainer.records import Plan, Problem
from loopai_trainer.rules import cluster, host_env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FULL, STAT = "full", "stat"
"""Values of the setting hash_weights and of `loopai.inputs.model.hash_weights`."""


def red_flags(plan: Plan) -> list[Problem]:
    """Warnings that stand first in the approval view."""
    return [
        Problem("warning", "RED_FLAG", "config", message, hint, field=field) for message, hint, field in _flags(plan)
    ]


def _flags(plan: Plan) -> Iterator[tuple[str, str, str]]:
    if (plan.loopai["inputs"].get("model") or {}).get("hash_weights") == STAT:
        yield (
            "hash_weights: stat: the weights are known by name, size and times alone; their bytes were not read",
            "prepare with hash_weights=full, unless the file system is trusted",
            "loopai.inputs.model.hash_weights",
        )
    yield from _backend_flags(plan.loopai["backend"])
    if cluster.on_cluster(plan.loopai["launch"]):
        yield (
            f"training runs on the Ray cluster at {plan.loopai['launch'].get('address')}: what its nodes set in the "
            "environment of Ray's own processes, and the Python that runs this program there, no digest covers",
            "leave --executor out to train on this host",
            "loopai.launch.address",
        )
    for name, value in (plan.loopai["launch"].get("host_env") or {}).items():
        if host_env.loads_code(name):
            message = f"{name}={value}: libraries from there are loaded, and no digest covers them"
            hint = f"unset {name} and prepare again, if training does not need it"
            yield message, hint, "loopai.launch.host_env"


def _backend_flags(backend: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    checkout = backend.get("checkout")
    if isinstance(checkout, dict) and checkout.get("dirty") is not False:
        what = "differs from its commit" if checkout.get("dirty") else "may differ from its commit (git did not say)"
        message = f"the checkout {checkout.get('path')} {what} {str(checkout.get('commit'))[:12]}"
        yield message, "commit what was changed, and prepare again", "loopai.backend.checkout"
    editable = backend.get("editable")
    if isinstance(editable, dict):
        for name, folder in editable.items():
            message = f"{name} is run from {folder}, outside of the environment"
            yield (
                message,
                "its code is in environment_sha256: a change of it needs a new approval",
                ("loopai.backend.editable"),
            )
    if backend.get("system_packages"):
        message = "packages of the underlying Python can be imported too, and no digest covers them"
        yield message, "make the environment without system-site-packages", "loopai.backend.system_packages"
