"""The contract: what a backend answers and what an executor does. Nothing here runs anything.

A backend answers questions; it never starts, locks, waits or writes. An executor decides where the worker
runs and knows no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from loopai_trainer.records import (
    ApprovedPlan,
    Artefact,
    Checkpoint,
    Command,
    DataReport,
    DevPlan,
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
    Placement,
    Plan,
    Problem,
    Question,
    Rehearsal,
    Rejection,
    Remarked,
    Resolved,
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
    """A training framework, asked in the order in which a run needs it. `backends.plain.Plain` has answers for what
    many frameworks do not need (resolving, rehearsing, exporting)."""

    name: str
    package: str
    stages: tuple[str, ...]
    data_kind: Literal["chat", "prompts", "tasks"]
    """chat: rows of `row_check` become a snapshot. prompts: rows with a prompt and a ground truth, as for GRPO. tasks:
    objects of any shape, for a program of the user's to work on."""

    needs_model: bool
    """Whether a plan names the folder of a base model."""

    makes_model: bool
    """Whether the result is a model to go on with (`update_model_path`)."""

    joins_cluster: bool
    """Whether training is a Ray program that spreads over a cluster by itself; else it is one command a node."""

    without_checkpoints: str
    """What a run gives that makes no checkpoints, in a sentence; empty: one without any is missing something."""

    losses_decide: bool
    """Whether a loss may choose the checkpoint when no better metric is there; never for reinforcement learning."""

    judged_by: tuple[str, ...]
    """Metrics whose last value has to be finite; empty: all of them."""

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

    def renamed_keys(self) -> Mapping[str, str]:
        """Old names of native keys, which still count -> what they are called now, dotted."""

    def placement(self, settings: Settings, native: Mapping[str, Any]) -> Placement:
        """The devices that the plan asks for and its training processes on this host."""

    def launch_env(self, settings: Settings, run: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """(loopai.launch.env, loopai.launch.pass_env) that the settings ask for; `run`: the run directory."""

    def reserved(self, settings: Settings, data: DataReport) -> dict[str, Any]:
        """What the `loopai` block holds besides, such as `reward`. Raises ConfigError for what nobody may guess."""

    def result_block(self, settings: Settings, data: DataReport) -> dict[str, Any]:
        """The `result` block: {selection_metric, selection_mode, export_huggingface}."""

    def input_files(self, settings: Settings, native: Mapping[str, Any]) -> Mapping[str, str]:
        """Code that training runs besides the package's: name in `inputs/` -> where it lies now. The copies run."""

    def resolve(self, native: Mapping[str, Any], environment: Environment, paths: LaunchPaths) -> Question | None:
        """Asks the installed package to make its whole configuration of the native keys; None: it reads them as is."""

    def resolved(self, answer: bytes) -> Resolved:
        """What the answer to `resolve` says. The worker asks again and refuses another text."""

    def rehearse(self, plan: Plan, versions: Versions, paths: LaunchPaths) -> Question | None:
        """Tries in the environment what would else fail after hours: the reward on real rows. None: nothing to try."""

    def rehearsed(self, plan: Plan, answer: bytes) -> Rehearsal:
        """What the answer to `rehearse` says."""

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

    def lost(self, plan: Plan, row: MetricRow) -> str:
        """Why training has to be stopped after this row (its weights are spoilt); empty: it may go on."""

    def step_problems(self, paths: LaunchPaths, step: int) -> list[Problem]:
        """Warnings on what training wrote beside its metrics for a step; it may remove files that nobody needs."""

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

    def export_files(self, plan: Plan, checkpoint: Checkpoint, destination: str) -> Mapping[str, str]:
        """Name -> text of files that the export's command reads: written beside `destination` before it, and kept."""

    def export_problems(self, plan: Plan, checkpoint: Checkpoint) -> list[Problem]:
        """Why the checkpoint cannot be exported, before anything is written."""

    def verify_export(self, plan: Plan, folder: str) -> list[Problem]:
        """What is wrong with an exported model folder: weights against its config, tokenizer against the base's."""


@runtime_checkable
class MarksLog(Protocol):
    """What a backend may offer beside `read_log`, so that a chatty training costs its watcher next to nothing.

    `log_marks`: kind of LogFact -> bytes; a line that holds none of a kind's tells `read_log` nothing of that kind.
    Marks that begin with a byte which chatter seldom holds (a capital) are looked for fastest. Without `log_marks` each
    line is decoded and shown.
    """

    log_marks: Mapping[str, Sequence[bytes]]


@runtime_checkable
class Judges(Protocol):
    """What a backend offers beside the rest if its own records, too, say whether a training did its work."""

    def verdict_problems(self, plan: Plan, run: str) -> list[Problem]:
        """Why the run in the folder `run`, which has ended, must not be called completed; empty: nothing says so."""


@runtime_checkable
class Resumes(Protocol):
    """What a backend offers beside the rest if a training of it can be continued from a checkpoint."""

    def resume_problems(self, checkpoint: Checkpoint, before: Plan) -> list[Problem]:
        """Why the training of the approved plan `before` cannot go on from this checkpoint; empty: it can."""

    def resume_keys(self, path: str) -> dict[str, Any]:
        """The native keys, dotted, that make a training in a fresh output folder continue the checkpoint `path`."""


@runtime_checkable
class TriesOut(Protocol):
    """What a backend offers beside the rest if `trainer dev` can try its plans (decisions/0055)."""

    def dev_plan(self, plan: Plan, versions: Versions) -> DevPlan:
        """The plan, cut down to a few steps on a few rows; all else stays, so that it is this plan that is tried.

        Paths stay those of the plan: the caller moves data, inputs and output into the dev run's own folder, and
        refuses what goes beyond rules.dev_bounds. Raises NotShown for a plan that cannot be cut down so far.
        """


class Executor(Protocol):
    """Where the worker runs."""

    name: str

    def start(self, argv: Sequence[str], run_dir: str, log_path: str, inherit_fds: Sequence[int]) -> str:
        """Start the worker, detached; open files `inherit_fds` keep their numbers.

        Returns a handle: text that run_state keeps.
        """

    def alive(self, handle: str) -> bool | None:
        """Whether the worker lives, as far as this executor can tell; None: it cannot tell now."""

    def stop(self, handle: str, grace_s: float) -> None:
        """Ask it to stop, then make it."""

    def where(self, handle: str) -> str:
        """For people: where it runs."""


class Submits(Protocol):
    """An executor whose worker runs elsewhere, on a shared file system: it gets no open files, takes run.lock itself,
    and reads the approved bytes from where its caller has put them (they are hashed again there).

    All raise HostUnfit for a place that cannot be reached or refuses, but `alive`.
    """

    name: str

    def handle(self, launch: Mapping[str, Any], run_dir: str, version_id: str, attempt: int) -> str:
        """The handle of an attempt, known (and recorded) before it is submitted."""

    def submit(self, argv: Sequence[str], handle: str, environ: Mapping[str, str]) -> None:
        """Start the worker; a second submission of the same handle changes nothing."""

    def alive(self, handle: str, limit_s: float | None = None) -> bool | None:
        """Whether the worker waits or lives; None: nobody can say now. `limit_s`: what its caller's limit leaves."""

    def stop(self, handle: str, grace_s: float) -> None:
        """Ask it to stop; one that still waits must not begin later, or be ended as soon as it does."""

    def where(self, handle: str) -> str:
        """For people: where it runs."""

    def log(self, handle: str) -> str:
        """What the place itself keeps of the worker's output, beside the files of the run; may be empty."""

    def told(self, handle: str) -> str:
        """What the place says of a worker that has ended, or why `alive` could not tell; may be empty."""

    def ask(
        self, argv: Sequence[str], address: str, submission_id: str, environ: Mapping[str, str], limit_s: float
    ) -> str:
        """Run a short program there and return its output."""

    def place(
        self, command: Command, launch: Mapping[str, Any], places: Mapping[str, str], environ: Mapping[str, str]
    ) -> Command:
        """The command that runs training's `command` on as many nodes as the plan says; asked for by the worker."""
