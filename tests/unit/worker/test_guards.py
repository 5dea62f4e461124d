import os
import shutil
from pathlib import Path

import pytest
from fakes.runs import PreparedRun

from loopai_trainer.errors import ConfigError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.rules import plan as plans
from loopai_trainer.worker.guards import check_fresh, check_place


def plan_of(run):
    return plans.read(Path(run.config).read_bytes(), run.config)


@pytest.fixture
def prepared(tmp_path):
    return PreparedRun(tmp_path)


def test_a_plan_in_its_own_fresh_directory_passes(prepared):
    plan = plan_of(prepared.run)
    os.mkdir(prepared.run.checkpoints)
    Path(prepared.run.checkpoints, "runs.txt").touch()
    check_place(prepared.run, plan)
    check_fresh(prepared.run, plan)


@pytest.mark.parametrize("name", ["checkpoint-5", "global_step_1", "model.safetensors", "pytorch_model.bin"])
def test_an_output_folder_that_is_not_fresh_is_refused(prepared, name):
    os.mkdir(prepared.run.checkpoints)
    Path(prepared.run.checkpoints, name).touch()
    with pytest.raises(ConfigError) as refused:
        check_fresh(prepared.run, plan_of(prepared.run))
    assert refused.value.code == "OUTPUT_NOT_FRESH"
    assert name in refused.value.message


def test_a_native_output_dir_that_is_not_fresh_is_refused(tmp_path):
    prepared = PreparedRun(tmp_path, output_dir="elsewhere")
    os.makedirs(prepared.run.at("elsewhere", "checkpoint-1"))
    with pytest.raises(ConfigError, match="checkpoint-1"):
        check_fresh(prepared.run, plan_of(prepared.run))


def test_a_copied_run_directory_is_refused(prepared):
    copy = RunDir(shutil.copytree(prepared.run.path, prepared.root / "other" / "v1"))
    with pytest.raises(ConfigError) as refused:
        check_place(copy, plan_of(copy))
    assert refused.value.code == "WRONG_RUN_DIRECTORY"
    assert prepared.run.path in refused.value.message


def test_the_plan_of_another_version_is_refused(prepared):
    with pytest.raises(ConfigError, match="version v1"):
        check_place(RunDir(prepared.run.path, "v2"), plan_of(prepared.run))


@pytest.mark.parametrize("key", ["output_dir", "dataset_dir"])
@pytest.mark.parametrize("where", ["/somewhere/else", "../v2/checkpoints", "/"])
def test_a_native_folder_outside_is_refused(tmp_path, key, where):
    prepared = PreparedRun(tmp_path, **{key: where})
    with pytest.raises(ConfigError, match=key):
        check_place(prepared.run, plan_of(prepared.run))


def test_a_link_that_leads_outside_is_refused(tmp_path):
    prepared = PreparedRun(tmp_path, output_dir="checkpoints")
    check_place(prepared.run, plan_of(prepared.run))
    os.symlink(tmp_path, prepared.run.checkpoints)
    with pytest.raises(ConfigError, match="output_dir"):
        check_place(prepared.run, plan_of(prepared.run))
