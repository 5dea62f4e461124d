"""The plan of a dev run, in a folder of its own: few rows, copies of the small inputs, every path moved there.

Nothing of it names the run directory of the version that is tried, so nothing of that can be read or written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from loopai_trainer.contract import Backend, TriesOut
from loopai_trainer.errors import NotShown
from loopai_trainer.files import atomic, dev_rows, hashing, snapshots
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import resolving, run_place
from loopai_trainer.records import DevPlan, Environment, Plan, Versions
from loopai_trainer.rules import dev_bounds
from loopai_trainer.rules import plan as plans

SPLITS = ("train", "validation")
_READ_ONLY = 0o444
_NOT_TAKEN = ("resume", "approval", "checks")
"""Blocks of a plan that a dev run has nothing to do with: it begins anew, and nobody approves it."""


class Made(NamedTuple):
    """The bounded plan, whose version id is `run`'s name. `not_shown`: what the backend says it leaves out."""

    run: RunDir
    plan: Plan
    not_shown: Mapping[str, str]


def bounded(backend: Backend, plan: Plan, versions: Versions) -> DevPlan:
    """The backend's cut-down plan. Raises NotShown if it has none, or one beyond the bounds that hold for all."""
    if not isinstance(backend, TriesOut):
        raise NotShown(
            f"{backend.name} has no bounded version of its plans", hint="look at the checks above: they have run"
        )
    found = backend.dev_plan(plan, versions)
    excess = dev_bounds.too_much(found)
    if excess:
        raise NotShown(
            f"{backend.name} asks for more than a dev run may have: {excess}",
            code="DEV_UNBOUNDED",
            hint="the backend has to be mended",
        )
    return found


def make(
    plan: Plan, source: RunDir, dev: RunDir, backend: Backend, cut: DevPlan, environment: Environment, limit_s: float
) -> Made:
    """Write what the dev run will read into its folder, and make its plan.

    Raises OSError, NotShown for data of which no few rows can be taken, ConfigError for what the package refuses.
    """
    inputs = plan.loopai["inputs"]
    moved: dict[str, str] = {}
    entries: dict[str, Any] = {}
    for split in SPLITS:
        if inputs.get(split):
            entries[split] = _few_rows(split, inputs[split]["path"], dev, backend, cut)
            moved[inputs[split]["path"]] = entries[split]["path"]
    files = _copies(plan, source, dev, entries)
    native = relocated(cut.native, source.path, dev.path, moved)
    block = {name: value for name, value in plan.loopai.items() if name not in _NOT_TAKEN}
    pinned = {name: value for name, value in block["backend"].items() if name != "resolved_sha256"}
    paths = run_place.launch_paths(dev)
    tried = {"version_id": plan.version_id, "config_sha256": plan.sha256}
    loopai = {
        **relocated(block, source.path, dev.path, moved),
        "version_id": dev.version_id,
        dev_bounds.BLOCK: {"of": tried, "steps": cut.steps, "rows": _most_rows(entries), "limit_s": limit_s},
        "backend": {**pinned, **resolving.entry(backend, native, environment, paths)},
        "launch": _launch(block["launch"], source, dev),
        "inputs": {**_others(inputs), **entries, "files": files},
    }
    result = {**plan.result, "export_huggingface": False}
    atomic.write_json(dev.plan, {"schema_version": 1, "version_id": dev.version_id, dev_bounds.BLOCK: tried})
    return Made(dev, plans.render(loopai, result, native), dict(cut.not_shown))


def relocated(value: Any, before: str, after: str, moved: Mapping[str, str]) -> Any:
    """The same values, `before` replaced by `after` in every text; a whole text in `moved` becomes what that names."""
    if isinstance(value, Mapping):
        return {key: relocated(item, before, after, moved) for key, item in value.items()}
    if isinstance(value, list):
        return [relocated(item, before, after, moved) for item in value]
    if not isinstance(value, str):
        return value
    if value in moved:
        return moved[value]
    # With what follows it: another folder may begin with the same letters.
    return after if value == before else value.replace(before + os.sep, after + os.sep)


def _few_rows(split: str, path: str, dev: RunDir, backend: Backend, cut: DevPlan) -> dict[str, Any]:
    target = os.path.join(dev.prepared_data, split + os.path.splitext(path)[1])
    rows = cut.rows.get(split, dev_bounds.ROWS)
    # A prompt that is too long is left out by some frameworks, and a batch would lack it.
    file = dev_rows.write(path, target, rows, longest=backend.data_kind == "chat")
    return {"path": file.path, "sha256": file.sha256, "bytes": file.bytes, "rows": file.rows}


def _copies(plan: Plan, source: RunDir, dev: RunDir, entries: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries of `inputs.files`, each copied to the same place in the dev run's folder; the registry is made anew."""
    resume = plan.loopai.get("resume")
    left_out = os.path.join(str(resume.get("path")), "") if isinstance(resume, Mapping) else None
    found = []
    for entry in plan.loopai["inputs"]["files"]:
        path = entry["path"]
        if (left_out and path.startswith(left_out)) or path == source.earlier_metrics:
            continue
        target = relocated(path, source.path, dev.path, {})
        if path == source.dataset_info:
            atomic.make_private_dir(os.path.dirname(target))
            file = snapshots.write_registry(target, {name: one["path"] for name, one in entries.items()})
            found.append({"path": file.path, "sha256": file.sha256, "bytes": file.bytes})
        else:
            found.append({**entry, "path": target, **_copied(path, target)})
    return found


def _copied(path: str, target: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        data = file.read()
    atomic.make_private_dir(os.path.dirname(target))
    atomic.write_bytes(target, data, _READ_ONLY)
    return {"sha256": hashing.sha256_bytes(data), "bytes": len(data)}


def _launch(block: Mapping[str, Any], source: RunDir, dev: RunDir) -> dict[str, Any]:
    """As planned, by our own worker on this host, without the tokens that a person would have approved."""
    launch: dict[str, Any] = relocated(block, source.path, dev.path, {})
    return {**launch, "executor": "local", "pass_env": []}


def _others(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The model, and whatever else a framework pins that is not data or files."""
    return {name: value for name, value in inputs.items() if name not in (*SPLITS, "files")}


def _most_rows(entries: Mapping[str, Any]) -> int:
    return max((int(entry["rows"]) for entry in entries.values()), default=0)
