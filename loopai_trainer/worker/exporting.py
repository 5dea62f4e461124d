"""Making a model folder of a chosen checkpoint: tried in a folder of its own, verified, then renamed into place.

Idempotent: what is there and verified is taken as it is; what a dead worker left half-made is made anew.
"""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple

from loopai_trainer.errors import BackendMissing
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from loopai_trainer.contract import Backend
    from loopai_trainer.records import Checkpoint, Command, Plan, Problem

LIMIT_S = 6 * 3600.0
"""No merge of a model that fits into a host's memory takes longer; a hanging one must not hold the run for ever."""

_PARTIAL = ".partial-"
_LOG_LINES = 20


class Exported:
    """`path`: the model folder, None if there is none. `failed`: why, empty if it was made (or there was no need).

    `config_path`: the file that the command read, if it read one.
    """

    __slots__ = ("config_path", "failed", "needed", "path", "problems", "source")

    def __init__(
        self, source: str, path: str | None, failed: str = "", problems: Sequence[Problem] = (), needed: bool = True
    ) -> None:
        self.source = source
        self.path = path
        self.failed = failed
        self.problems = tuple(problems)
        self.needed = needed
        self.config_path: str | None = None

    def data(self) -> dict[str, Any]:
        """The data of `export --json` and of `result.export_details`."""
        found = [{name: getattr(problem, name) for name in ("code", "message", "hint")} for problem in self.problems]
        return {
            "source": self.source,
            "path": self.path,
            "config_path": self.config_path,
            "verified": not self.failed,
            "checks": found,
        }


def export(
    run: RunDir, plan: Plan, backend: Backend, checkpoint: Checkpoint, stopped: Callable[[], bool] = lambda: False
) -> Exported:
    """Export one checkpoint into `exports/NAME`; a failure is in the answer, never raised."""
    target = os.path.join(run.exports, checkpoint.name)
    partial = os.path.join(run.exports, _PARTIAL + checkpoint.name)
    command = backend.export(plan, checkpoint, partial)
    if command is None:
        wrong = _errors(backend.export_problems(plan, checkpoint))
        if wrong:
            return Exported(
                checkpoint.path, None, f"it is no sound model folder: {wrong[0].message}", wrong, needed=False
            )
        return Exported(checkpoint.path, checkpoint.path, needed=False)
    files = {
        os.path.join(run.exports, name): text for name, text in backend.export_files(plan, checkpoint, partial).items()
    }
    made = _made(_Export(run, plan, backend, checkpoint, command, files, target, partial), stopped)
    made.config_path = next((path for path in files if os.path.isfile(path)), None)
    return made


class _Export(NamedTuple):
    """`files`: path -> text of what the command reads."""

    run: RunDir
    plan: Plan
    backend: Backend
    checkpoint: Checkpoint
    command: Command
    files: Mapping[str, str]
    target: str
    partial: str


def _made(job: _Export, stopped: Callable[[], bool]) -> Exported:
    run, plan, backend, checkpoint, command, files, target, partial = job
    try:
        if os.path.isdir(target) and not backend.verify_export(plan, target):
            return Exported(checkpoint.path, target)
        refused = _errors(backend.export_problems(plan, checkpoint))
        if refused:
            return Exported(checkpoint.path, None, refused[0].message, refused)
        _clear(run, target, partial)
        for path, text in files.items():
            atomic.write_text(path, text)
        failed = _run(run, command, stopped)
        if failed:
            return Exported(checkpoint.path, None, failed)
        wrong = _errors(backend.verify_export(plan, partial))
        if wrong:
            return Exported(checkpoint.path, None, f"the exported model is not sound: {wrong[0].message}", wrong)
        os.rename(partial, target)
        atomic.sync_folder(run.exports)
        return Exported(checkpoint.path, target)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return Exported(checkpoint.path, None, f"it could not be written: {error.strerror or error}{where}")
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _errors(problems: Sequence[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity == "error"]


def _clear(run: RunDir, target: str, partial: str) -> None:
    atomic.make_private_dir(run.exports)
    shutil.rmtree(partial, ignore_errors=True)
    if os.path.lexists(target):  # it is there and not sound: kept, but out of the way
        number = 1
        while os.path.lexists(f"{target}.damaged-{number}"):
            number += 1
        os.rename(target, f"{target}.damaged-{number}")


def _run(run: RunDir, command: Command, stopped: Callable[[], bool]) -> str:
    """Why the command did not do its work; empty if it ended well."""
    from loopai_trainer.files import log_tail
    from loopai_trainer.host.asking import Stopped, run_program

    try:
        code = run_program("exporting the model", command, LIMIT_S, run.export_log, stopped)
    except Stopped:
        return "it was stopped on request"
    except BackendMissing as error:
        return error.message
    if code == 0:
        return ""
    said = [line for line in log_tail.tail(run.export_log, _LOG_LINES)[0] if line.strip()]
    errors = [line for line in said if "Error" in line or "Exception" in line]
    words = (errors or said)[-1:]
    return f"the export ended with exit status {code}" + (f": {words[0].strip()}" if words else "")
