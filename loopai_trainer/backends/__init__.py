"""The table of backends: (framework, stage) -> module; others come through entry points `loopai_trainer.backends`."""

from __future__ import annotations

import importlib

from loopai_trainer.errors import SettingsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from loopai_trainer.contract import Backend

_TABLE: Mapping[tuple[str, str], str] = {
    ("llamafactory", "sft"): "loopai_trainer.backends.llamafactory_sft",
    ("verl", "grpo"): "loopai_trainer.backends.verl_grpo",
    ("agentlightning", "dev"): "loopai_trainer.backends.agentlightning.dev",
    ("agentlightning", "apo"): "loopai_trainer.backends.agentlightning.apo",
    ("agentlightning", "grpo"): "loopai_trainer.backends.agentlightning.grpo",
}
"""The module's attribute `BACKEND` is the backend."""

ENTRY_POINTS = "loopai_trainer.backends"
"""An entry point is called `framework/stage`, or `framework` alone: then its object's `stages` says which."""


def get(framework: str, stage: str) -> Backend:
    """The backend of that pair. Raises SettingsError for an unknown framework or a pair that does not go together."""
    module = _TABLE.get((framework, stage))
    if module is not None:
        backend: Backend = importlib.import_module(module).BACKEND
        return backend
    for (name, its_stage), load in _installed():
        if (name, its_stage) == (framework, stage):
            return load()
    raise _unknown(framework, stage)


def names() -> list[tuple[str, str]]:
    """All (framework, stage) pairs, the bundled ones first."""
    pairs = list(_TABLE)
    pairs += [pair for pair, _ in _installed() if pair not in _TABLE]
    return pairs


class _Loader:
    def __init__(self, entry_point: object) -> None:
        self.entry_point = entry_point

    def __call__(self) -> Backend:
        backend: Backend = self.entry_point.load()  # type: ignore[attr-defined] # importlib.metadata is imported late
        return backend


def _installed() -> Iterator[tuple[tuple[str, str], _Loader]]:
    from loopai_trainer.host import offered

    for entry_point in offered.points(ENTRY_POINTS):
        loader = _Loader(entry_point)
        framework, _, stage = entry_point.name.partition("/")
        for name in (stage,) if stage else loader().stages:
            yield (framework, name), loader


def _unknown(framework: str, stage: str) -> SettingsError:
    pairs = names()
    stages = [known for name, known in pairs if name == framework]
    allowed = ", ".join(f"{name}/{known}" for name, known in pairs)
    if stages:
        message = f"{framework} does not train the stage '{stage}'"
        hint = f"use --framework {framework} --stage {stages[0]}"
    else:
        message = f"there is no training framework '{framework}'"
        hint = f"choose one of: {allowed}"
    return SettingsError(f"{message} (known pairs: {allowed})", hint=hint)
