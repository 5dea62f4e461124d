"""The backend `case_stub`/`sft`: runs the supervision cases' own stand-in program (tests/cases/supervision)."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from fakes.backend import StandIn
from loopai_trainer.records import ApprovedPlan, Artefact, Command, Launch, LaunchPaths, MetricRow, Plan, Problem

CASES = Path(__file__).resolve().parent.parent / "cases" / "supervision"


class CaseStub(StandIn):
    """The plan's native key `case` names the case, whose args.txt is the program's command line."""

    name = "case_stub"

    def launch(self, approved: ApprovedPlan, paths: LaunchPaths, inherited: Mapping[str, str]) -> Launch:
        words = (CASES / approved.plan.native["case"] / "args.txt").read_text().split()
        argv = (sys.executable, "-I", "-S", str(CASES / "stub_train.py"), *words, "--out", paths.checkpoints)
        return Launch(Command(argv, paths.launch, {"PATH": "/usr/bin:/bin", "TMPDIR": paths.tmp}), {})

    def metrics_file(self, paths: LaunchPaths) -> str:
        return os.path.join(paths.checkpoints, "trainer_log.jsonl")

    def read_metrics(self, lines: Iterable[bytes]) -> list[MetricRow]:
        entries = [json.loads(line) for line in lines]
        return [
            MetricRow(entry["current_steps"], "train", {"loss": entry["loss"], "total_steps": entry["total_steps"]})
            for entry in entries
        ]

    def expected_examples(self, plan: Plan) -> Mapping[str, int]:
        return {}

    def lost(self, plan: Plan, row: MetricRow) -> str:
        return ""

    def step_problems(self, paths: LaunchPaths, step: int) -> list[Problem]:
        return []

    def final_artefact(self, folder: str) -> Artefact:
        """The program saves nothing: its last step stands for the weights."""
        with open(os.path.join(folder, "trainer_log.jsonl"), "rb") as file:
            last = json.loads(file.read().splitlines()[-1])
        whole = last["current_steps"] == last["total_steps"]
        return Artefact(folder, whole, whole, "" if whole else "training wrote no weights")


BACKEND = CaseStub()
