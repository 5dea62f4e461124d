"""The bounded version of a plan that `trainer dev` tries."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


@dataclass(frozen=True, slots=True)
class DevPlan:
    """What a backend makes of a plan for a dev run. `native`: all its keys, paths as they are in the plan; `steps`:
    after which training ends by itself; `rows`: split -> rows that it gets at the most (16 of each one not named).

    `not_shown`: what so short a run cannot show for this plan, name -> why.
    """

    native: Mapping[str, Any]
    steps: int
    rows: Mapping[str, int] = field(default_factory=dict)
    not_shown: Mapping[str, str] = field(default_factory=dict)
