"""What becomes of a dev run's weights: they are judged, then removed, so that nobody can go on with them.

Light on purpose: the worker imports it before training's exec.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from loopai_trainer.files.run_dir import RunDir


def remove(run: RunDir) -> None:
    """Remove checkpoints and exports of a dev run; called by its worker and by its caller, whoever lives."""
    import shutil

    for folder in (run.checkpoints, run.exports):
        shutil.rmtree(folder, ignore_errors=True)


def without_model(result: dict[str, Any]) -> dict[str, Any]:
    """The result of a dev run: it names no checkpoint and no model to go on with."""
    details = {name: value for name, value in result["result"].items() if name != "artefact_path"}
    return {**result, "update_model_path": None, "best_checkpoint": None, "checkpoints": [], "result": details}
