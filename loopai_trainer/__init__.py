"""loopai_trainer: prepare a training plan, approve its hash, run exactly that.

Public names are loaded on first use, so that `import loopai_trainer` stays light.
"""

from loopai_trainer.version import __version__

_PUBLIC = (
    "analyze_results",
    "dev",
    "get_configer_task_state_config",
    "inspect_prepared_config",
    "load_events",
    "prefill_guide",
    "prepare",
    "recover",
    "run",
    "run_prepared",
    "select_best_checkpoint",
    "update_configer_task_state_config",
)

_CLASSES = {"ConfigGenerator": "config_generator", "TrainerAgent": "agent"}
"""Public class -> its module."""

__all__ = ["ConfigGenerator", "__version__", *_PUBLIC]
# TrainerAgent is left out: it needs the extra `langgraph`, and `import *` has to work without.


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        from loopai_trainer import api

        return getattr(api, name)
    if name in _CLASSES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_CLASSES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
