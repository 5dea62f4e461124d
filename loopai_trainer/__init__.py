"""loopai_trainer: prepare a training plan, approve its hash, run exactly that.

Public names are loaded on first use, so that `import loopai_trainer` stays light.
"""

from loopai_trainer.version import __version__

_PUBLIC = (
    "analyze_results",
    "inspect_prepared_config",
    "load_events",
    "prefill_guide",
    "prepare",
    "run",
    "run_prepared",
    "select_best_checkpoint",
)

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        from loopai_trainer import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
