"""The contract: what a backend answers and what an executor does. Nothing here runs anything.

A backend answers questions; it never starts, locks, waits or writes. An executor decides where the worker
runs and knows no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from loopai_trainer.records import (
    ApprovedPlan,
    Artefact,
    Checkpoint,
    Command,
    DataReport,
    Environment,
    EnvironmentSpec,
    Field,
    Host,
    Launch,
    LaunchPaths,
    LogFact,
    MetricRow,
    Mode,
    Model,
    Plan,
    Problem,
    Rejection,
    Remarked,
    Row,
    RowLength,
    Settings,
    Versions,
)

RowCheck = Callable[[object, int], Row | Remarked | Rejection]
"""(decoded source row, source line) -> the chat (with remarks, if any), or why not. Pure; raises nothing."""

RowMeter = Callable[[Sequence[Row]], list[RowLength]]
"""Rows -> their lengths in tokens, as training will cut them, in the same order."""


@runtime_checkable
class Backend(Protocol):
    """A training framework, asked in the order in which a run needs it."""

    name: str
    package: str
    stages: tuple[str, ...]

    def fields(self) -> tuple[Field, ...]:
        """Settings that only this backend knows."""

    def row_check(self, settings: Settings, sample: Sequence[object]) -> tuple[str, RowCheck]:
        """(format name, check) for rows that look like `sample` (the file's first decoded rows)."""

    def probe(self, environment: Environment) -> Versions:
        """What the environment holds. Raises BackendMissing."""

    def environment_spec(self) -> EnvironmentSpec | None:
        """What `trainer setup` installs for it; None: there is no such environment."""

    def file_keys(self) -> tuple[str, ...]:
        """Native keys whose text value is a small file that training reads: copied into `inputs/`, so hashed too."""

    def owned_keys(self) -> Mapping[str, str]:
        """Native keys that a plan sets itself, whatever a template or `--set` says -> what to use instead."""

    def template_problems(
        self, template: Mapping[str, Any], lines: Mapping[str, int], versions: Versions
    ) -> list[Problem]:
        """Unknown keys and values of the wrong type; `lines` maps a dotted key to its 1-based line."""

    def draft(
        self, settings: Settings, data: DataReport, base: Mapping[str, Any], model: Model, paths: LaunchPaths
    ) -> dict[str, Any]:
        """The native keys of the final YAML, made from the template `base` (already tuned and overridden)."""

    def check(self, plan: Plan, versions: Versions, host: Host) -> list[Problem]:
        """Everything that can be known before a device is taken."""

    def row_meter(self, plan: Plan, versions: Versions) -> tuple[RowMeter | None, list[Problem]]:
        """What measures the plan's rows with the model's own tokenizer; None: lengths cannot be known (and why)."""

    def launch_problems(self, plan: Plan) -> list[Problem]:
        """What only the moment of launching shows, such as a fixed port that is taken."""

    def summary(self, plan: Plan) -> dict[str, Any]:
        """What an approver has to see, in reading order: name -> value."""

    def red_flags(self, plan: Plan) -> list[Problem]:
        """Warnings that stand first in the approval view."""

    def launch(self, approved: ApprovedPlan, paths: LaunchPaths, inherited: Mapping[str, str]) -> Launch:
        """How to start training; `inherited` is the worker's environment, of which only an allow-list passes."""

    def read_metrics(self, lines: Iterable[bytes]) -> list[MetricRow]:
        """Complete metric lines -> rows, in file order. Lines that are not metrics give nothing."""

    def metrics_file(self, paths: LaunchPaths) -> str:
        """The file that training appends metric lines to."""

    def read_log(self, lines: Iterable[str]) -> list[LogFact]:
        """What training's own output says: phase, number of examples, number of steps."""

    def expected_examples(self, plan: Plan) -> Mapping[str, int]:
        """train_examples / validation_examples that the log has to report; empty if it cannot be known."""

    def find_checkpoints(self, folder: str) -> list[Checkpoint]:
        """All checkpoint folders, by step; damaged ones are listed as not complete."""

    def final_artefact(self, folder: str) -> Artefact:
        """The final weights of a finished run."""

    def selection(self, plan: Plan) -> tuple[str | None, Mode | None]:
        """(metric, mode) from the approved YAML, or None for the general rule."""

    def explain_failure(self, log_tail: Sequence[str]) -> tuple[str, str] | None:
        """(cause, advice) that the last lines of the log show, the first rank's own error first."""

    def export(self, plan: Plan, checkpoint: Checkpoint, destination: str) -> Command | None:
        """What makes a model folder of the checkpoint; None: the checkpoint is one already."""


class Executor(Protocol):
    """Where the worker runs."""

    name: str

    def start(self, argv: Sequence[str], run_dir: str, log_path: str, inherit_fds: Sequence[int]) -> str:
        """Start the worker, detached; open files `inherit_fds` keep their numbers.

        Returns a handle: text that run_state keeps.
        """

    def alive(self, handle: str) -> bool:
        """Whether the worker lives, as far as this executor can tell."""

    def stop(self, handle: str, grace_s: float) -> None:
        """Ask it to stop, then make it."""

    def where(self, handle: str) -> str:
        """For people: where it runs."""
