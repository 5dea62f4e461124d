"""worker.exporting: what a command reads is written beside the partial folder, kept, and named in the answer."""

import os
import sys
from pathlib import Path

import pytest
from fakes.backend import StandIn
from fakes.finished_runs import FinishedRun

from loopai_trainer.records import Checkpoint, Command
from loopai_trainer.worker.exporting import export

MERGE = "import os, sys; text = open(sys.argv[1]).read(); assert text == 'a: 1\\n', text; os.mkdir(sys.argv[2])"


class Merging(StandIn):
    """Its command reads a file and makes the folder."""

    problems = ()

    def export(self, plan, checkpoint, destination):
        config = os.path.join(os.path.dirname(destination), "step.yaml")
        return Command((sys.executable, "-I", "-S", "-c", MERGE, config, destination), "", {"PATH": "/usr/bin"})

    def export_files(self, plan, checkpoint, destination):
        return {"step.yaml": "a: 1\n"}

    def export_problems(self, plan, checkpoint):
        return list(self.problems)

    def verify_export(self, plan, folder):
        return []


@pytest.fixture
def finished(tmp_path):
    return FinishedRun(tmp_path)


def made(finished, backend):
    checkpoint = Checkpoint("checkpoint-30", 30, str(finished.checkpoints / "checkpoint-30"), True)
    return export(finished.run, finished.plan, backend, checkpoint)


def test_the_file_is_there_before_the_command_and_stays(finished):
    for _ in range(2):  # the second time the folder is there already
        found = made(finished, Merging()).data()
        assert found["path"] == os.path.join(finished.run.exports, "checkpoint-30") and found["verified"]
        assert Path(found["config_path"]).read_text() == "a: 1\n"
        assert sorted(os.listdir(finished.run.exports)) == ["checkpoint-30", "step.yaml"]


def test_a_refused_export_writes_nothing(finished):
    from loopai_trainer.records import Problem

    backend = Merging()
    backend.problems = (Problem("error", "EXPORT_QUANTISED", "config", "no", "do that"),)
    found = made(finished, backend)
    assert (found.failed, found.config_path) == ("no", None)
    assert not os.path.exists(finished.run.exports)


def test_a_checkpoint_that_is_a_folder_already_is_no_model_if_something_is_wrong_with_it(finished):
    from loopai_trainer.records import Problem

    backend = Merging()
    backend.export = lambda plan, checkpoint, destination: None
    found = made(finished, backend)
    assert (found.path, found.failed, found.needed) == (str(finished.checkpoints / "checkpoint-30"), "", False)
    backend.problems = (Problem("error", "EXPORT_TOKENIZER", "model", "no tokenizer", "copy it"),)
    found = made(finished, backend)
    assert (found.path, found.failed) == (None, "it is no sound model folder: no tokenizer")
    assert found.data()["verified"] is False and found.data()["checks"][0]["code"] == "EXPORT_TOKENIZER"
