"""What the file system says of the inputs when training starts, and whether they were touched by its end.

Hashes at both ends do not show a file that was swapped meanwhile and put back; its ctime does, which no program sets.
Light on purpose (os and json): the worker imports it before training's exec.
"""

import json
import os

from loopai_trainer.files import atomic
from loopai_trainer.rules import plan as plans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopai_trainer.files.run_dir import RunDir
    from loopai_trainer.records import Plan

SHOWN = 3


def note(run: "RunDir", plan: "Plan") -> None:
    """Write launch/inputs.json: path -> [device, inode, size, mtime_ns, ctime_ns] of each input file."""
    text = json.dumps(_identities(plan), ensure_ascii=True, separators=(",", ":"))
    atomic.write_bytes(run.launch_inputs, text.encode("ascii") + b"\n", sync=False)


def remarks(run: "RunDir", plan: "Plan") -> list[str]:
    """One sentence on inputs that are not the same files, or whose times moved, since training started; else none.

    Whether their content changed is judged by hash (worker.inputs); this is what a hash cannot show.
    """
    try:
        before = atomic.read_json(run.launch_inputs)
    except (OSError, ValueError):
        before = None
    if not before:
        return []
    now = _identities(plan)
    touched = [path for path in before if before[path] != now.get(path)]
    if not touched:
        return []
    more = f" and {len(touched) - SHOWN} more" if len(touched) > SHOWN else ""
    names = ", ".join(touched[:SHOWN]) + more
    return [f"inputs were touched while training ran, and may have been other files for a while: {names}"]


def _identities(plan: "Plan") -> "dict[str, list[int]]":
    found = {}
    for path in _paths(plan):
        try:
            status = os.stat(path)
        except OSError:
            continue  # gone or unreadable: the hashes say so
        found[path] = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    return found


def _paths(plan: "Plan") -> "Iterator[str]":
    yield from (entry.path for entry in plans.inputs(plan))
    model = plan.loopai["inputs"].get("model")
    for folder, _, names in os.walk(model["path"]) if model else ():
        yield from (os.path.join(folder, name) for name in names)
