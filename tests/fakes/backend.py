"""The backend `stand_in`/`sft`: a small real implementation of contract.Backend around fakes/train.py.

The worker finds it as it finds anybody's backend: through an entry point (tests/fakes/site on PYTHONPATH).
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from loopai_trainer.backends.plain import Plain
from loopai_trainer.errors import NotShown
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
    Plan,
    Problem,
    Question,
    Rejection,
    Row,
    Settings,
    Versions,
)

TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.py")
PROGRAM = "/bin/does-not-exist"

DEFAULTS: dict[str, Any] = {
    "steps": 3,
    "pause_s": 0.0,
    "save_steps": 1,
    "exit_code": 0,
    "stop_at": 0,
    "stop_node": "",
    "last_words": "RuntimeError: stand-in failure",
    "nan_at": 0,
    "red_flag": "",
    "examples": 8,
    "report_examples": 8,
    "spam_bytes": 0,
    "deaf": False,
    "helper_s": 0.0,
    "helper_deaf": False,
    "hold_file": "",
    "companion_s": 0.0,
    "companion_program": "",
    "own_verdict": "",
    "artefact": True,
    "program": "",
    "resolve": "",
    "resolve_hold": "",
    "lost_at": 0,
    "remark_at": 0,
    "export": "",
    "export_hold": "",
    "dev_keys": {},
    "dev_steps": 2,
    "dev_rows": 16,
    "dev_refused": "",
}
"""Native keys. `last_words`: what a training says that returns early; `resolve`: the configuration that the "package" makes of the plan, when `resolve_hold` is gone;
`lost_at`, `remark_at`: the backend calls that step lost, or has something to say of it; `export`: "good", "bad" (not
sound), "fail" (exit 3), or empty for none; `export_hold`: it waits for that file to go; `dev_*`: the native keys of its dev plan besides `steps`, what that
asks for, and why there is none. `stop_at`: return `exit_code` before that step, but with `stop_node` on the node of that rank alone; `helper_s`: a helper in its own session lives so long;
`hold_file`: training ends only when this file is gone; `program`: exec this instead of Python. `companion_s`: a helper
process (Launch.helpers) beside training ends after so long; `companion_program`: exec this for it instead of Python.
`own_verdict`: what the backend's own records say against a good end (contract.Judges)."""


class StandIn(Plain):
    name = "stand_in"
    package = "loopai-stand-in"
    stages = ("sft",)

    def fields(self) -> tuple[Field, ...]:
        return ()

    def row_check(
        self, settings: Settings, sample: Sequence[object]
    ) -> tuple[str, Callable[[object, int], Row | Rejection]]:
        return "any", lambda row, line: Rejection("NOT_READ", "the stand-in reads no rows", "")

    def probe(self, environment: Environment) -> Versions:
        return Versions(self.package, "0", "3", "", {}, "0" * 64)

    def environment_spec(self) -> EnvironmentSpec | None:
        return None

    def owned_keys(self) -> Mapping[str, str]:
        return {}

    def file_keys(self) -> tuple[str, ...]:
        return ()

    def template_problems(
        self, template: Mapping[str, Any], lines: Mapping[str, int], versions: Versions
    ) -> list[Problem]:
        return []

    def draft(
        self, settings: Settings, data: DataReport, base: Mapping[str, Any], model: Model, paths: LaunchPaths
    ) -> dict[str, Any]:
        return dict(base)

    def check(self, plan: Plan, versions: Versions, host: Host) -> list[Problem]:
        return []

    def row_meter(self, plan: Plan, versions: Versions) -> tuple[None, list[Problem]]:
        return None, []

    def launch_problems(self, plan: Plan) -> list[Problem]:
        return []

    def summary(self, plan: Plan) -> dict[str, Any]:
        return {"steps": options_of(plan)["steps"]}

    def red_flags(self, plan: Plan) -> list[Problem]:
        flag = options_of(plan)["red_flag"]
        return [Problem("warning", "RED_FLAG", "config", flag, "read it")] if flag else []

    def launch(self, approved: ApprovedPlan, paths: LaunchPaths, inherited: Mapping[str, str]) -> Launch:
        options = options_of(approved.plan)
        program = options["program"] or sys.executable
        argv = (program, "-I", "-S", TRAIN, "options.json")
        text = json.dumps({**options, "out": paths.checkpoints})
        env = {"PATH": inherited.get("PATH", ""), "TMPDIR": paths.tmp, "HOME": paths.cache}
        wait = f"import time; time.sleep({options['companion_s']})"
        companion = (options["companion_program"] or sys.executable, "-I", "-S", "-c", wait)
        helpers = (Command(companion, paths.launch, env),) if options["companion_s"] else ()
        return Launch(Command(argv, paths.launch, env), {"options.json": text}, helpers)

    def verdict_problems(self, plan: Plan, run: str) -> list[Problem]:
        said = options_of(plan)["own_verdict"]
        return [Problem("error", "NOT_GOOD", "host", said)] if said else []

    def read_metrics(self, lines: Iterable[bytes]) -> list[MetricRow]:
        rows = []
        for line in lines:
            entry = json.loads(line)
            values = {key: float(value) for key, value in entry.items() if key != "step"}
            rows.append(MetricRow(entry["step"], "train", values))
        return rows

    def metrics_file(self, paths: LaunchPaths) -> str:
        return os.path.join(paths.checkpoints, "metrics.jsonl")

    def read_log(self, lines: Iterable[str]) -> list[LogFact]:
        kinds = {"phase": "phase", "examples": "train_examples", "steps": "total_steps"}
        facts = []
        for line in lines:
            word, _, value = line.partition(" ")
            if word in kinds:
                facts.append(LogFact(kinds[word], value if word == "phase" else int(value)))  # type: ignore[arg-type]
        return facts

    def expected_examples(self, plan: Plan) -> Mapping[str, int]:
        return {"train_examples": options_of(plan)["examples"]}

    def find_checkpoints(self, folder: str) -> list[Checkpoint]:
        names = [name for name in os.listdir(folder) if name.startswith("checkpoint-")] if os.path.isdir(folder) else []
        found = []
        for step in sorted(int(name.partition("-")[2]) for name in names):
            path = os.path.join(folder, f"checkpoint-{step}")
            complete = os.path.exists(os.path.join(path, "weights.json"))
            found.append(Checkpoint(f"checkpoint-{step}", step, path, complete, "" if complete else "no weights"))
        return found

    def final_artefact(self, folder: str) -> Artefact:
        path = os.path.join(folder, "final.json")
        try:
            with open(path) as file:
                return Artefact(folder, True, bool(json.load(file)["finite"]))
        except (FileNotFoundError, ValueError):
            return Artefact(folder, False, False, "final.json is missing")

    def resolve(self, native: Mapping[str, Any], environment: Environment, paths: LaunchPaths) -> Question | None:
        options = {**DEFAULTS, **native}
        if not options["resolve"]:
            return None
        asked = json.dumps({"text": options["resolve"], "hold": options["resolve_hold"]})
        command = Command((sys.executable, "-I", "-S", "-c", RESOLVE), "", {"PATH": "/usr/bin:/bin"})
        return Question("asking the stand-in", command, asked.encode(), 60.0)

    def lost(self, plan: Plan, row: MetricRow) -> str:
        return f"step {row.step} is lost" if row.step == options_of(plan)["lost_at"] else ""

    def step_problems(self, paths: LaunchPaths, step: int) -> list[Problem]:
        try:
            with open(os.path.join(paths.launch, "options.json")) as file:
                wanted = json.load(file)["remark_at"]
        except FileNotFoundError:
            return []
        return [Problem("warning", "ODD_STEP", "train", f"step {step} is odd")] if wanted == step else []

    def export(self, plan: Plan, checkpoint: Checkpoint, destination: str) -> Command | None:
        options = options_of(plan)
        if not options["export"]:
            return None
        words = (checkpoint.path, destination, options["export"], options["export_hold"])
        return Command((sys.executable, "-I", "-S", "-c", EXPORT, *words), "", {"PATH": "/usr/bin:/bin"})

    def dev_plan(self, plan: Plan, versions: Versions) -> DevPlan:
        options = options_of(plan)
        if options["dev_refused"]:
            raise NotShown(options["dev_refused"])
        native = {**plan.native, "steps": options["dev_steps"], **options["dev_keys"]}
        return DevPlan(native, options["dev_steps"], {"train": options["dev_rows"]}, {"the weather": "nobody asked"})

    def verify_export(self, plan: Plan, folder: str) -> list[Problem]:
        try:
            with open(os.path.join(folder, "model.json")) as file:
                sound = json.load(file)["sound"]
        except FileNotFoundError:
            sound = False
        return [] if sound else [Problem("error", "NOT_SOUND", "model", "model.json is not sound", "look into it")]

    def selection(self, plan: Plan) -> tuple[str | None, Mode | None]:
        return None, None

    def explain_failure(self, log_tail: Sequence[str]) -> tuple[str, str] | None:
        last = next((line for line in reversed(log_tail) if "Error:" in line), None)
        return None if last is None else (last, "look at the stand-in's options")


RESOLVE = """
import json, os, sys, time
asked = json.load(sys.stdin)
while asked["hold"] and os.path.exists(asked["hold"]):
    time.sleep(0.02)
sys.stdout.write(asked["text"])
"""

EXPORT = """
import json, os, sys, time
source, target, how, hold = sys.argv[1:]
os.mkdir(target)
while hold and os.path.exists(hold):
    time.sleep(0.02)
print("merging", source)
if how == "fail":
    print("RuntimeError: no room", file=sys.stderr)
    sys.exit(3)
with open(os.path.join(target, "model.json"), "w") as file:
    json.dump({"sound": how == "good"}, file)
"""


def options_of(plan: Plan) -> dict[str, Any]:
    return {**DEFAULTS, **plan.native}


BACKEND = StandIn()
