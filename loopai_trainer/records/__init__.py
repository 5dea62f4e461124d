"""The values that cross the house: frozen, without behaviour that touches disk, clock or processes.

A record is loaded with the file that owns it, when it is first named: making thirty dataclasses costs more CPU than
`run-prepared` may use before training's exec.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.records.data import Counts as Counts
    from loopai_trainer.records.data import DataReport as DataReport
    from loopai_trainer.records.data import InputFile as InputFile
    from loopai_trainer.records.data import LengthStats as LengthStats
    from loopai_trainer.records.data import PromptFacts as PromptFacts
    from loopai_trainer.records.data import SplitReport as SplitReport
    from loopai_trainer.records.dev import DevPlan as DevPlan
    from loopai_trainer.records.host import Device as Device
    from loopai_trainer.records.host import EnvironmentSpec as EnvironmentSpec
    from loopai_trainer.records.host import Host as Host
    from loopai_trainer.records.measure import LogFact as LogFact
    from loopai_trainer.records.measure import MetricRow as MetricRow
    from loopai_trainer.records.outcome import Artefact as Artefact
    from loopai_trainer.records.outcome import BestMetric as BestMetric
    from loopai_trainer.records.outcome import Checkpoint as Checkpoint
    from loopai_trainer.records.outcome import Selection as Selection
    from loopai_trainer.records.place import Environment as Environment
    from loopai_trainer.records.place import Versions as Versions
    from loopai_trainer.records.plan import ApprovedPlan as ApprovedPlan
    from loopai_trainer.records.plan import Model as Model
    from loopai_trainer.records.plan import Plan as Plan
    from loopai_trainer.records.problem import Problem as Problem
    from loopai_trainer.records.rows import Rejection as Rejection
    from loopai_trainer.records.rows import Remark as Remark
    from loopai_trainer.records.rows import Remarked as Remarked
    from loopai_trainer.records.rows import Row as Row
    from loopai_trainer.records.rows import RowLength as RowLength
    from loopai_trainer.records.rows import Turn as Turn
    from loopai_trainer.records.setting import Field as Field
    from loopai_trainer.records.setting import Settings as Settings
    from loopai_trainer.records.start import Command as Command
    from loopai_trainer.records.start import Launch as Launch
    from loopai_trainer.records.start import LaunchPaths as LaunchPaths
    from loopai_trainer.records.start import Placement as Placement
    from loopai_trainer.records.start import Question as Question
    from loopai_trainer.records.start import Rehearsal as Rehearsal
    from loopai_trainer.records.start import Resolved as Resolved
    from loopai_trainer.records.words import MetricKind as MetricKind
    from loopai_trainer.records.words import Mode as Mode
    from loopai_trainer.records.words import Severity as Severity
    from loopai_trainer.records.words import Where as Where

_HOMES = {
    "words": (
        "MetricKind",
        "Mode",
        "Severity",
        "Where",
    ),
    "problem": ("Problem",),
    "rows": (
        "Turn",
        "Row",
        "Rejection",
        "Remark",
        "Remarked",
        "RowLength",
    ),
    "setting": (
        "Field",
        "Settings",
    ),
    "place": ("Environment", "Versions"),
    "dev": ("DevPlan",),
    "host": ("EnvironmentSpec", "Device", "Host"),
    "data": (
        "InputFile",
        "Counts",
        "LengthStats",
        "PromptFacts",
        "SplitReport",
        "DataReport",
    ),
    "plan": (
        "Model",
        "Plan",
        "ApprovedPlan",
    ),
    "start": (
        "LaunchPaths",
        "Command",
        "Launch",
        "Placement",
        "Question",
        "Rehearsal",
        "Resolved",
    ),
    "measure": (
        "MetricRow",
        "LogFact",
    ),
    "outcome": (
        "Checkpoint",
        "BestMetric",
        "Selection",
        "Artefact",
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = __import__(f"{__name__}.{home}", fromlist=[name])
    value: object = getattr(module, name)
    globals()[name] = value
    return value
