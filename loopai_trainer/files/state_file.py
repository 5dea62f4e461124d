"""run_state.json: the atomic snapshot of a run; a torn or foreign file is reported, and kept aside, never lost.

Light on purpose (json and os alone): `status --json` imports it.
"""

import os

from loopai_trainer.files import atomic
from loopai_trainer.rules.run_state import LIVE, TERMINAL
from loopai_trainer.rules.stored_shape import state_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir

SCHEMA_VERSION = 1


class StateRead:
    """`state`: what the file holds, None if it is absent or damaged; `damaged`: why it cannot be used, else ''."""

    __slots__ = ("damaged", "state")

    def __init__(self, state: "dict[str, Any] | None", damaged: str = "") -> None:
        self.state = state
        self.damaged = damaged


def read(run: "RunDir") -> StateRead:
    """The recorded state of a run. Files of earlier versions (without schema_version) are read too."""
    try:
        state = atomic.read_json(run.run_state)
    except (ValueError, RecursionError) as error:
        return StateRead(None, f"{run.run_state} is torn: {error}")
    if state is None:
        return StateRead(None)
    why = _foreign(state, run)
    return StateRead(None, f"{run.run_state} {why}") if why else StateRead(state)


def write(run: "RunDir", state: "Mapping[str, Any]", *, sync: bool = True) -> None:
    """Replace the snapshot. `sync=False`: atomic, but a power cut may bring the former one back (progress alone)."""
    atomic.write_json(run.run_state, {"schema_version": SCHEMA_VERSION, **state}, sync=sync)


def set_aside(run: "RunDir") -> str:
    """Rename a damaged snapshot to run_state.json.damaged-N, so that a new one can be written; returns that path."""
    return move_aside(run.run_state, "damaged")


def move_aside(path: str, name: str) -> str:
    """Rename `path` to PATH.NAME-N with the first number that is free; returns that path."""
    number = 1
    while os.path.lexists(aside := f"{path}.{name}-{number}"):
        number += 1
    os.rename(path, aside)
    return aside


def _foreign(state: "dict[str, Any]", run: "RunDir") -> str:
    version = state.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        return f"has schema_version {version}; this version of loopai-trainer knows {SCHEMA_VERSION}"
    if state.get("status") not in (*LIVE, *TERMINAL):
        return f"has the status {state.get('status')!r}, which no run has"
    if state.get("version_id", run.version_id) != run.version_id:
        return f"belongs to the version {state['version_id']!r}"
    return state_problem(state)
