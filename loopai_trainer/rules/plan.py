"""The plan: mapping -> final YAML text -> SHA-256, and back; `approve` is the only maker of ApprovedPlan."""

from __future__ import annotations

from loopai_trainer.errors import ConfigError, PlanChanged
from loopai_trainer.records import ApprovedPlan, Plan, Problem
from loopai_trainer.rules import dotted, yaml_text
from loopai_trainer.rules.digest import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

FORMAT = 1
RESERVED = ("loopai", "result")

_SHAPE: Mapping[str, type | tuple[type, ...]] = {
    "format": int,
    "task_id": str,
    "version_id": str,
    "framework": str,
    "stage": str,
    "backend": dict,
    "launch": dict,
    "inputs": dict,
    "backend.package": str,
    "backend.version": str,
    "backend.python": str,
    "backend.environment": str,
    "backend.environment_sha256": str,
    "launch.executor": str,
    "launch.devices": str,
    "launch.nodes": int,
    "launch.nproc_per_node": int,
    "launch.env": dict,
    "launch.pass_env": list,
    "inputs.train": dict,
    "inputs.files": list,
}
_MODEL_SHAPE: Mapping[str, type] = {
    "inputs.model": dict,
    "inputs.model.path": str,
    "inputs.model.fingerprint": str,
}
"""Of a plan that has a base model; which framework needs one, its backend says."""


class PlannedInput:
    """A file that the plan pins: `label` for people ('train', 'dataset_info.json'), `sha256` lower-case hex."""

    __slots__ = ("label", "path", "sha256", "size_bytes")

    def __init__(self, label: str, path: str, sha256: str, size_bytes: int | None) -> None:
        self.label = label
        self.path = path
        self.sha256 = sha256
        self.size_bytes = size_bytes


def render(loopai: Mapping[str, Any], result: Mapping[str, Any], native: Mapping[str, Any]) -> Plan:
    """The final YAML: the two reserved blocks, then the backend's own keys. The same arguments give the same bytes."""
    clash = [key for key in RESERVED if key in native]
    if clash:
        raise ConfigError(f"the template uses the reserved key '{clash[0]}'", hint="remove it from the template")
    text = yaml_text.dump({"loopai": dict(loopai), "result": dict(result), **native})
    return read(text.encode("utf-8"), "training_config.yaml")


def digest(data: bytes) -> str:
    """SHA-256 of exact bytes, lower-case hex: the hash that a person approves."""
    return sha256(data)


def read(data: bytes, path: str) -> Plan:
    """Parse a prepared YAML's exact bytes. Raises ConfigError if the reserved blocks do not have their shape."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: not UTF-8 at byte {error.start}", hint="save the file as UTF-8, or prepare again"
        ) from None
    document = yaml_text.load(text, path, "config")
    problems = [*_shape_problems(document, path)]
    if problems:
        raise ConfigError(
            f"{path}: the reserved block is damaged: {problems[0].message}",
            hint="undo the edit of the loopai block, or prepare again",
            problems=problems,
        )
    loopai = document.values["loopai"]
    return Plan(
        text=text,
        sha256=digest(data),
        task_id=loopai["task_id"],
        version_id=loopai["version_id"],
        framework=loopai["framework"],
        stage=loopai["stage"],
        values=document.values,
    )


def approve(data: bytes, expected_sha256: str, path: str = "training_config.yaml") -> ApprovedPlan:
    """The plan in `data` if its hash is exactly the approved one.

    Raises PlanChanged otherwise: a shortened or upper-case hash is a mismatch too (interface section 5).
    """
    got = digest(data)
    if expected_sha256 != got:
        raise PlanChanged(
            f"{path} is not the YAML that was approved\n  expected: {expected_sha256}\n  got:      {got}",
            hint="look at the YAML, and approve its present hash if that is what you want to run",
            details={"expected": expected_sha256, "got": got},
        )
    return ApprovedPlan(read(data, path), got)


def inputs(plan: Plan) -> list[PlannedInput]:
    """Every file that the plan pins by hash, data first."""
    block = plan.loopai["inputs"]
    found = [_planned(name, block[name]) for name in ("train", "validation") if block.get(name)]
    found += [_planned(entry["path"].rpartition("/")[2], entry) for entry in block["files"]]
    return found


def _planned(label: str, entry: Mapping[str, Any]) -> PlannedInput:
    return PlannedInput(label, entry["path"], entry["sha256"], entry.get("bytes"))


def _shape_problems(document: yaml_text.Document, path: str) -> Iterator[Problem]:
    values = document.values
    for block in RESERVED:
        if not isinstance(values.get(block), dict):
            yield _damaged(path, None, block, f"the block '{block}' is missing")
            return
    has_model = dotted.has(values["loopai"], "inputs.model")
    for key, kind in {**_SHAPE, **(_MODEL_SHAPE if has_model else {})}.items():
        value = dotted.get(values["loopai"], key)
        if not isinstance(value, kind) or isinstance(value, bool):
            line = document.lines.get(f"loopai.{key}")
            wanted = kind.__name__ if isinstance(kind, type) else kind[0].__name__
            yield _damaged(path, line, f"loopai.{key}", f"'loopai.{key}' is missing or not of type {wanted}")
            return
    if values["loopai"]["format"] != FORMAT:
        message = f"format {values['loopai']['format']} is not known to this version (it knows {FORMAT})"
        yield _damaged(path, document.lines.get("loopai.format"), "loopai.format", message)
    yield from _input_problems(values["loopai"]["inputs"], path)


def _input_problems(block: Mapping[str, Any], path: str) -> Iterator[Problem]:
    entries = [(f"loopai.inputs.{name}", block[name]) for name in ("train", "validation") if block.get(name)]
    entries += [(f"loopai.inputs.files.{index}", entry) for index, entry in enumerate(block["files"])]
    for key, entry in entries:
        if not (
            isinstance(entry, dict) and isinstance(entry.get("path"), str) and isinstance(entry.get("sha256"), str)
        ):
            yield _damaged(path, None, key, f"'{key}' has no path and sha256")


def _damaged(path: str, line: int | None, key: str, message: str) -> Problem:
    return Problem("error", "RESERVED_BLOCK", "config", message, path=path, line=line, field=key)
