"""Finding the run that a caller names: a version id, an unambiguous prefix of one, or a run directory.

Light on purpose: `status --json` imports it.
"""

import os

from loopai_trainer.errors import NotFound, UsageError
from loopai_trainer.files import atomic, run_index
from loopai_trainer.files.run_dir import RunDir, TaskDir, valid_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Scope:
    """Where to look: `--output-dir` and `--task-id` narrow it; without them ./outputs and the index are read."""

    __slots__ = ("environ", "output_dir", "task_id")

    def __init__(self, environ: "Mapping[str, str]", output_dir: str | None = None, task_id: str | None = None) -> None:
        self.environ = environ
        self.output_dir = output_dir
        self.task_id = task_id


def find(target: str, scope: Scope) -> RunDir:
    """The run that `target` names; a version id goes before a folder of that name.

    Raises NotFound, or UsageError if a prefix fits several, or if several tasks have a run of that id.
    """
    if os.sep in target or target in (".", ".."):
        return _run_at(target)
    if not valid_id(target):
        if _is_run(target):
            return _run_at(target)
        raise UsageError(
            f"'{target}' is not a version id", hint="give an id as `trainer list` prints it, or a run directory"
        )
    places = [(path, version_id, here) for path, version_id, here in all_places(scope) if version_id.startswith(target)]
    known = [(RunDir(path, version_id), here) for path, version_id, here in places if here or os.path.isdir(path)]
    ids = sorted({run.version_id for run, _ in known})
    if target in ids:
        ids = [target]
    if not ids:
        if _is_run(target):
            return _run_at(target)
        hint = "see which ones are; those of another folder are found with --output-dir"
        raise NotFound(f"no run '{target}' is known", hint=hint, next_command="trainer list")
    if len(ids) > 1:
        raise UsageError(f"'{target}' fits {len(ids)} runs: {', '.join(ids[:5])}", hint="give more of the id")
    return _only([one for one in known if one[0].version_id == ids[0]], target)


def _only(known: "list[tuple[RunDir, bool]]", target: str) -> RunDir:
    """The one run with that id: below the output directory before elsewhere. Raises UsageError if there are several."""
    runs = [run for run, here in known if here] or [run for run, _ in known]
    if len(runs) > 1:
        raise UsageError(
            f"'{target}' is the id of {len(runs)} runs: {', '.join(sorted(run.path for run in runs)[:5])}",
            hint="name the run directory, or --task-id or --output-dir",
        )
    return runs[0]


def all_runs(scope: Scope) -> "Iterator[RunDir]":
    """Every run in the scope, each once: those below the output directory, then (unless it was named) the index's."""
    for path, version_id, found in all_places(scope):
        if found or os.path.isdir(path):
            yield RunDir(path, version_id)


def all_places(scope: Scope) -> "Iterator[tuple[str, str, bool]]":
    """The same as (absolute path, version id, whether it was seen to be there), for who looks at thousands of them."""
    seen: set[str] = set()
    named = scope.output_dir or scope.environ.get("OUTPUT_DIR")
    for task in _folders(_output_folder(named)):
        if scope.task_id is None or os.path.basename(task) == scope.task_id:
            for path in _folders(os.path.join(task, "trainer")):
                seen.add(path)
                yield path, path.rpartition(os.sep)[2], True
    if not scope.output_dir:
        for path, version_id in run_index.noted(scope.environ):
            if path not in seen and (scope.task_id is None or _task_of(RunDir(path, version_id)) == scope.task_id):
                yield path, version_id, False


def _output_folder(named: str | None) -> str:
    """The folder of all tasks; '' where only a working folder that was deleted would say which one it is."""
    try:
        return os.path.abspath(named or "./outputs")
    except FileNotFoundError:
        if named:
            raise
        return ""


def open_run(path: str) -> RunDir:
    """The run in that directory; its version id and task are those that plan.json noted, else what its place says."""
    run = RunDir(path)
    try:
        noted = atomic.read_json(run.plan) or {}
    except (OSError, ValueError):
        return run
    version_id, task_dir = noted.get("version_id"), noted.get("task_dir")
    if not isinstance(version_id, str) or not isinstance(task_dir, str):
        return run
    return RunDir(path, version_id, TaskDir(os.path.dirname(task_dir), os.path.basename(task_dir)))


def _task_of(run: RunDir) -> str:
    return os.path.basename(open_run(run.path).task.path)


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir())
    except OSError:
        return []


def is_unplanned(run: RunDir) -> bool:
    """Whether that directory is known to hold no plan and no record of a run: prepare refused, or is still at it."""
    for file in (run.config, run.run_state, run.result):
        try:
            os.stat(file)
        except FileNotFoundError:
            continue
        except OSError:
            pass  # another user's: it cannot be looked into, which is not to say that there is nothing
        return False
    return True


def refuse_unplanned(run: RunDir) -> None:
    """Raises NotFound for a directory that `is_unplanned`."""
    if is_unplanned(run):
        hint = "see its data_check_report.txt, mend the cause, and prepare it again"
        raise NotFound(f"{run.path} holds no plan: prepare refused it, or is still at it", hint=hint)


def _is_run(path: str) -> bool:
    run = RunDir(path)
    return any(os.path.exists(file) for file in (run.config, run.run_state, run.result))


def _run_at(path: str) -> RunDir:
    run = open_run(path)
    if not os.path.isdir(run.path):
        raise NotFound(f"there is no run directory {run.path}", hint="see `trainer list` for the runs that are known")
    if not _is_run(path):
        raise NotFound(
            f"{run.path} is not a run directory: it holds no training_config.yaml",
            hint="name the folder that `trainer prepare` printed as run directory",
        )
    return run
