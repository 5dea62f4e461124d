"""The values that cross the house: frozen, without behaviour that touches disk, clock or processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Severity = Literal["error", "warning"]
Where = Literal["train", "validation", "config", "model", "settings", "environment", "host", "template"]
MetricKind = Literal["train", "eval", "val", "summary"]
Mode = Literal["min", "max"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. `line` is 1-based (JSON, JSONL, YAML), `row` 0-based (Parquet); never both."""

    severity: Severity
    code: str
    where: Where
    message: str
    hint: str = ""
    path: str | None = None
    line: int | None = None
    row: int | None = None
    field: str | None = None
    origin: str | None = None


class Turn(NamedTuple):
    """One message. `role` is user, assistant, tool or function (system stands in `Row.system`)."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Row:
    """A chat, whatever the source format was.

    `messages` alternates user/tool and assistant/function and ends with one of the latter.
    `tools` is JSON text or empty. `source_line`: 1-based line (JSON, JSONL) or 0-based row (Parquet).
    """

    messages: tuple[Turn, ...]
    system: str
    tools: str
    source_line: int


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a row cannot be trained on as it stands."""

    code: str
    message: str
    hint: str
    field: str | None = None


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that a person should know of a row that is used. A `note` is only counted; else it is a warning."""

    code: str
    message: str
    hint: str = ""
    field: str | None = None
    note: bool = False


@dataclass(frozen=True, slots=True)
class Remarked:
    """A row that is used, and what is to be said of it."""

    row: Row
    remarks: tuple[Remark, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """Resolved settings. `origins[name]` says where each value came from ('--dataset', 'TASK_ID', 'default', ...)."""

    values: Mapping[str, Any]
    origins: Mapping[str, str]

    def text(self, name: str, default: str = "") -> str:
        """The value as text; `default` if it is unset."""
        value = self.values.get(name)
        return default if value is None else str(value)

    def origin(self, name: str) -> str:
        """Where the value came from, for messages."""
        return self.origins.get(name, "unset")


@dataclass(frozen=True, slots=True)
class Field:
    """One setting: drives settings, flags, the guide and missing-field errors.

    `kind` says what text from a flag or variable becomes; `choices` are the only values allowed, if there are any;
    `aliases` are other keys that a state may use for it.
    """

    name: str
    help: str
    flag: str | None = None
    env: tuple[str, ...] = ()
    default: Any = None
    required: bool = False
    kind: Literal["text", "path", "bool", "int", "number"] = "text"
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python environment of a backend: absolute paths. `origin` says who named it."""

    root: str
    bin: str
    python: str
    site_packages: tuple[str, ...]
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Versions:
    """What an environment holds, read from its installed metadata (no interpreter is started)."""

    package: str
    version: str
    python: str
    package_dir: str
    distributions: Mapping[str, str]
    sha256: str
    site_packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What `trainer setup` installs for a backend. `constraints`: the text of a pip constraints file.

    `smoke`: Python code that has to run in the new environment, since installed metadata alone proves little.
    """

    name: str
    requirements: tuple[str, ...]
    constraints: str
    smoke: str


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of the host. `memory_bytes` is its total."""

    index: int
    uuid: str
    name: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Host:
    """What this machine offers. `free_bytes`: free space of the file system that holds the run."""

    devices: tuple[Device, ...]
    cpu_count: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that training reads. `sha256` is lower-case hex of its bytes, `rows` its number of rows."""

    path: str
    sha256: str
    bytes: int
    rows: int | None = None
    source_path: str | None = None
    source_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows of one split: `input` read, `usable` written to the snapshot, `rejected` left out."""

    input: int
    usable: int
    rejected: int


@dataclass(frozen=True, slots=True)
class LengthStats:
    """Characters a row (system, tools and all turns), nearest-rank percentiles."""

    minimum: int
    p50: int
    p90: int
    p99: int
    maximum: int


@dataclass(frozen=True, slots=True)
class SplitReport:
    """One split's data: where it came from, what was found, what was written."""

    where: Literal["train", "validation"]
    format: str
    snapshot: InputFile
    counts: Counts
    lengths: LengthStats
    origin: str


@dataclass(frozen=True, slots=True)
class DataReport:
    """All data of a plan. `problem_counts` has the full count per code; `problems` is capped per code."""

    splits: tuple[SplitReport, ...]
    problems: tuple[Problem, ...]
    problem_counts: Mapping[str, int]
    registry: InputFile | None = None
    rejected_path: str | None = None

    def split(self, where: str) -> SplitReport | None:
        """The split of that name, if there is one."""
        return next((s for s in self.splits if s.where == where), None)


@dataclass(frozen=True, slots=True)
class Model:
    """A model folder and its fingerprint. `weight_bytes`: size of its weight files; `config` its config.json."""

    path: str
    fingerprint: str
    weight_bytes: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """A final YAML: its text, the SHA-256 of its UTF-8 bytes (lower-case hex), and its identity."""

    text: str
    sha256: str
    task_id: str
    version_id: str
    framework: str
    stage: str
    values: Mapping[str, Any]

    @property
    def loopai(self) -> Mapping[str, Any]:
        """The reserved block: identity, inputs and launch."""
        block: Mapping[str, Any] = self.values["loopai"]
        return block

    @property
    def result(self) -> Mapping[str, Any]:
        """The reserved block that says how the result is chosen."""
        block: Mapping[str, Any] = self.values["result"]
        return block

    @property
    def native(self) -> dict[str, Any]:
        """What the backend reads: everything but the reserved blocks."""
        return {k: v for k, v in self.values.items() if k not in ("loopai", "result")}


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """A plan whose hash was approved. Only rules.plan.approve makes one."""

    plan: Plan
    approval_sha256: str


@dataclass(frozen=True, slots=True)
class LaunchPaths:
    """Absolute folders that a launch may name; all lie inside the run directory (`tmp` may be a short path outside)."""

    run: str
    launch: str
    checkpoints: str
    metrics: str
    cache: str
    tmp: str


@dataclass(frozen=True, slots=True)
class Command:
    """Something to exec: an argument list (no shell), a working folder and the complete environment."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Launch:
    """How training starts. `files`: name -> text, written into `launch/` beforehand by the worker."""

    main: Command
    files: Mapping[str, str] = field(default_factory=dict)
    helpers: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One step's metrics. Non-finite values are kept as they were reported (float nan/inf)."""

    step: int
    kind: MetricKind
    values: Mapping[str, float]
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class LogFact:
    """Something that a backend's log line says. kind: phase | train_examples | validation_examples | total_steps."""

    kind: Literal["phase", "train_examples", "validation_examples", "total_steps"]
    value: str | int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint folder. Not `complete`: `why` says what is missing or damaged."""

    name: str
    step: int
    path: str
    complete: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class BestMetric:
    """The metric that decides, its best finite value and the step of that value.

    `sources`: data source -> its own value, when `value` is the mean over several; else empty.
    """

    name: str
    mode: Mode
    value: float
    step: int
    sources: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen checkpoint. `exact`: its step is the best metric's step. `reason` is one sentence."""

    checkpoint: Checkpoint | None
    metric: BestMetric | None
    exact: bool
    reason: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Artefact:
    """The final output of training. Not `loadable`: `why` says why. `finite`: no NaN or Inf in its weights."""

    path: str
    loadable: bool
    finite: bool
    why: str = ""
