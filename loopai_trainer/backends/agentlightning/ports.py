"""What only the moment of launching shows: whether the store's fixed port is free."""

from __future__ import annotations

from loopai_trainer.host import ports
from loopai_trainer.records import Plan, Problem


def launch_problems(plan: Plan) -> list[Problem]:
    """An error if somebody listens at the port that the plan names; none for a port that is found at the launch."""
    port = (plan.native.get("strategy") or {}).get("port")
    if not port or not ports.is_taken(int(port)):
        return []
    owner = ports.owner(int(port))
    by = f" by pid {owner}" if owner else ""
    message = f"the port {port} of the store is taken{by}"
    return [Problem("error", "NO_PORT", "host", message, "set strategy.port: 0", field="strategy.port")]
