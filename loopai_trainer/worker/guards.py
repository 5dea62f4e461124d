"""What a worker refuses before anything is started: another directory's plan, and an output folder that is not fresh.

The caller has checked both before; the worker does not rely on it.
"""

from __future__ import annotations

import os

from loopai_trainer.errors import ConfigError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.records import Plan
from loopai_trainer.rules import plan as plans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NATIVE_FOLDERS = ("output_dir", "dataset_dir")
_CHECKPOINTS = ("checkpoint-", "global_step_")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")


def check_place(run: RunDir, plan: Plan) -> None:
    """Raises ConfigError WRONG_RUN_DIRECTORY for a plan that writes or reads data outside its own run directory."""
    if plan.version_id != run.version_id:
        raise _wrong(run, f"the plan is that of version {plan.version_id}")
    for name, path in _pinned(plan):
        if not _inside(run, path):
            raise _wrong(run, f"its plan names {path} as {name}")


def check_fresh(run: RunDir, plan: Plan) -> None:
    """Raises ConfigError OUTPUT_NOT_FRESH if the output folder holds checkpoints or weights before training's exec."""
    native = plan.native.get("output_dir")
    for folder in {run.checkpoints, *([os.path.join(run.path, native)] if isinstance(native, str) else [])}:
        found = sorted(name for name in _names(folder) if name.startswith(_CHECKPOINTS) or name.endswith(_WEIGHTS))
        if found:
            raise ConfigError(
                f"{folder} holds {found[0]} before training has started: training would go on from there",
                code="OUTPUT_NOT_FRESH",
                hint="prepare a new version; it gets a folder of its own",
            )


def _pinned(plan: Plan) -> Iterator[tuple[str, str]]:
    native = plan.native
    for name in _NATIVE_FOLDERS:
        if isinstance(native.get(name), str):
            yield name, native[name]
    for entry in plans.inputs(plan):
        yield entry.label, entry.path


def _inside(run: RunDir, path: str) -> bool:
    root = os.path.realpath(run.path)
    return os.path.realpath(os.path.join(run.path, path)).startswith(root + os.sep)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _wrong(run: RunDir, what: str) -> ConfigError:
    return ConfigError(
        f"{run.path} is not the run directory of its plan: {what}",
        code="WRONG_RUN_DIRECTORY",
        hint="run the YAML in the directory that it was prepared in, or prepare again",
    )
