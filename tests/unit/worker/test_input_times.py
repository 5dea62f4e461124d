import json
import os
from pathlib import Path

import pytest
from fakes.prepared_sft import PreparedSft

from loopai_trainer.rules import plan as plans
from loopai_trainer.worker import input_times


@pytest.fixture
def noted(tmp_path):
    prepared = PreparedSft(tmp_path)
    os.makedirs(prepared.run.launch)
    plan = plans.read(Path(prepared.run.config).read_bytes(), prepared.run.config)
    input_times.note(prepared.run, plan)
    return prepared, plan


def test_untouched_inputs_give_no_remark(noted):
    prepared, plan = noted
    (prepared.model / "config.json").read_bytes()
    assert input_times.remarks(prepared.run, plan) == []
    assert str(prepared.model / "config.json") in json.loads(Path(prepared.run.launch_inputs).read_text())


@pytest.mark.parametrize(
    "touch", [lambda path: os.utime(path), lambda path: path.chmod(0o640), lambda path: path.unlink()]
)
def test_touched_ones_are_named(noted, touch):
    prepared, plan = noted
    touch(prepared.model / "config.json")
    (remark,) = input_times.remarks(prepared.run, plan)
    assert str(prepared.model / "config.json") in remark


def test_many_are_counted(noted):
    prepared, plan = noted
    for path in prepared.model.iterdir():
        os.utime(path)
    (remark,) = input_times.remarks(prepared.run, plan)
    assert " more" in remark


@pytest.mark.parametrize("text", [None, "", "{"])
def test_a_run_of_an_older_version_has_no_such_file(noted, text):
    prepared, plan = noted
    os.unlink(prepared.run.launch_inputs)
    if text is not None:
        Path(prepared.run.launch_inputs).write_text(text)
    assert input_times.remarks(prepared.run, plan) == []
