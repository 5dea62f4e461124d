"""Answers for what many frameworks do not need: a backend takes them over and answers the rest itself.

Light on purpose: the worker imports it before training's exec.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    from loopai_trainer.records import (
        Checkpoint,
        Command,
        DataReport,
        Environment,
        LaunchPaths,
        MetricRow,
        Placement,
        Plan,
        Problem,
        Question,
        Rehearsal,
        Resolved,
        Settings,
        Versions,
    )


class Plain:
    """Supervised training on chats: configuration read as it stands, no rehearsal, checkpoints that are models."""

    data_kind: Literal["chat", "prompts", "tasks"] = "chat"
    needs_model = True
    makes_model = True
    without_checkpoints = ""
    losses_decide = True
    joins_cluster = False
    judged_by: tuple[str, ...] = ()

    def renamed_keys(self) -> Mapping[str, str]:
        """None is known."""
        return {}

    def placement(self, settings: Settings, native: Mapping[str, Any]) -> Placement:
        """All devices of the setting; one process a device, if the setting does not say otherwise."""
        from loopai_trainer.records import Placement

        devices = settings.text("CUDA_VISIBLE_DEVICES")
        named = [device for device in devices.split(",") if device.strip()]
        return Placement(devices, settings.values.get("nproc_per_node") or max(1, len(named)))

    def launch_env(self, settings: Settings, run: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """What the places for metrics need that the settings name."""
        from loopai_trainer.rules import sinks

        return sinks.launch_env(settings, run)

    def reserved(self, settings: Settings, data: DataReport) -> dict[str, Any]:
        """Nothing besides."""
        return {}

    def result_block(self, settings: Settings, data: DataReport) -> dict[str, Any]:
        """The lowest evaluation loss, or the lowest loss where nothing is held out."""
        metric = "eval_loss" if data.split("validation") else "loss"
        return {"selection_metric": metric, "selection_mode": "min", "export_huggingface": False}

    def input_files(self, settings: Settings, native: Mapping[str, Any]) -> Mapping[str, str]:
        """No code of its own."""
        return {}

    def resolve(self, native: Mapping[str, Any], environment: Environment, paths: LaunchPaths) -> Question | None:
        """The package reads the native keys as they stand."""
        return None

    def resolved(self, answer: bytes) -> Resolved:
        """Never asked, since `resolve` has no question."""
        from loopai_trainer.records import Resolved

        return Resolved(answer.decode("utf-8"))

    def rehearse(self, plan: Plan, versions: Versions, paths: LaunchPaths) -> Question | None:
        """There is nothing to try."""
        return None

    def rehearsed(self, plan: Plan, answer: bytes) -> Rehearsal:
        """Never asked, since `rehearse` has no question."""
        from loopai_trainer.records import Rehearsal

        return Rehearsal()

    def lost(self, plan: Plan, row: MetricRow) -> str:
        """Never: the end of training says whether it diverged."""
        return ""

    def step_problems(self, paths: LaunchPaths, step: int) -> list[Problem]:
        """Nothing is written besides the metrics."""
        return []

    def export(self, plan: Plan, checkpoint: Checkpoint, destination: str) -> Command | None:
        """A checkpoint is a model folder already."""
        return None

    def export_files(self, plan: Plan, checkpoint: Checkpoint, destination: str) -> Mapping[str, str]:
        """The command says everything itself."""
        return {}

    def export_problems(self, plan: Plan, checkpoint: Checkpoint) -> list[Problem]:
        """Never asked, since there is nothing to export."""
        return []

    def verify_export(self, plan: Plan, folder: str) -> list[Problem]:
        """Never asked, since there is nothing to export."""
        return []
