"""worker_result.json: the truth about a run that has ended; a torn or foreign one is reported, and kept aside.

Light on purpose (json and os alone): `status --json` imports it.
"""

from loopai_trainer.files import atomic, state_file
from loopai_trainer.rules.run_state import TERMINAL
from loopai_trainer.rules.stored_shape import result_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir

SCHEMA_VERSION = 1


def read(run: "RunDir", sha256: str | None = None) -> "dict[str, Any] | None":
    """The whole result of this version under the config hash `sha256` (None: that of the approved bytes), else None."""
    try:
        result = atomic.read_json(run.result)
    except (ValueError, RecursionError):
        return None
    if result is None or _foreign(result, run):
        return None
    expected = sha256 or approved_sha256(run)
    if expected is not None and result.get("config_sha256") not in (None, expected):
        return None
    return result


def approved_sha256(run: "RunDir") -> str | None:
    """The hash of the approved bytes as the worker materialised them; None if they are not there."""
    from loopai_trainer.rules import digest

    try:
        with open(run.approved_config, "rb") as file:
            return digest.sha256(file.read())
    except OSError:
        return None


def set_aside(run: "RunDir", name: str = "damaged") -> str:
    """Rename the result to worker_result.json.NAME-N, so that a new one can be written; returns that path."""
    return state_file.move_aside(run.result, name)


def _foreign(result: "dict[str, Any]", run: "RunDir") -> bool:
    version = result.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, int) or version > SCHEMA_VERSION or result_problem(result):
        return True
    return result["status"] not in TERMINAL or result["trainer_version_id"] != run.version_id
