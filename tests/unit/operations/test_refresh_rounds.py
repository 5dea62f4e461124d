"""inspect --refresh of a later GRPO round: the validation data that it took over stay apart from the new rows."""

import json
from pathlib import Path

import pyarrow.parquet
import pytest
import yaml
from fakes.verl_runs import save_base_model
from fakes.verl_trees import make_verl, versions_of

from loopai_trainer.backends.verl_grpo import VerlGrpo
from loopai_trainer.errors import DataError
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations import inheritance
from loopai_trainer.operations.inspect import inspect
from loopai_trainer.operations.prepare import prepare
from loopai_trainer.operations.sources import Request

MODEL = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096}


def write_rows(path, count):
    rows = [{"problem": f"{n} + {n}?", "answer": str(2 * n)} for n in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def prepared(root, place, version, **more):
    settings = {
        "train_framework": "verl",
        "train_stage": "grpo",
        "train_input_dataset_path": str(root / "sums.jsonl"),
        "train_input_model_name": str(root / "base"),
        "train_input_task_description": "add",
        "train_input_config_template_path": "verl_grpo_cpu_smoke",
        "config_mode": "template",
        "verl_env_path": str(place.env),
        "verl_reward_mode": "custom",
        "verl_reward_function_path": str(root / "my_reward.py"),
        "verl_validation_ratio": 0.25,
        "output_dir": str(root / "outputs"),
        "trainer_version_id": version,
        **more,
    }
    return RunDir(prepare(Request(settings, place.environ)).data["run_dir"])


@pytest.fixture
def backend(tmp_path, monkeypatch):
    package = make_verl(tmp_path / "verl")
    monkeypatch.setattr(VerlGrpo, "probe", lambda self, environment: versions_of(package))
    monkeypatch.setattr(VerlGrpo, "resolve", lambda self, native, environment, paths: None)
    monkeypatch.setattr(VerlGrpo, "rehearse", lambda self, plan, versions, paths: None)
    save_base_model(tmp_path / "base", **MODEL)
    (tmp_path / "my_reward.py").write_text(
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n"
    )


def inputs(run):
    return yaml.safe_load(Path(run.config).read_text())["loopai"]["inputs"]


def prompts(path):
    return {str(row) for row in pyarrow.parquet.read_table(path, columns=["prompt"]).column("prompt").to_pylist()}


@pytest.mark.usefixtures("backend")
def test_rows_that_stand_in_the_validation_data_taken_over_are_left_out_again(tmp_path, place, monkeypatch):
    write_rows(tmp_path / "sums.jsonl", 32)
    held = inputs(prepared(tmp_path, place, "v1"))["validation"]
    begin = inheritance.begin
    monkeypatch.setattr(inheritance, "begin", lambda *a: begin(*a)._replace(validation=held["path"]))
    monkeypatch.setattr(inheritance, "same_contract", lambda *a: True)
    run = prepared(tmp_path, place, "v2")
    before = inputs(run)
    assert before["validation"]["source"]["path"] == held["path"]
    write_rows(tmp_path / "sums.jsonl", 48)
    answer = inspect(run.config, place.environ, refresh_inputs=True)
    now = inputs(run)
    assert "loopai.inputs.train.rows" in {change["key"] for change in answer.data["refreshed"]["changed"]}
    assert (now["train"]["rows"], now["validation"]) == (48 - held["rows"], before["validation"])
    assert not prompts(now["train"]["path"]) & prompts(now["validation"]["path"])


@pytest.mark.usefixtures("backend")
def test_validation_data_that_a_setting_names_have_to_be_apart(tmp_path, place):
    write_rows(tmp_path / "sums.jsonl", 32)
    held = inputs(prepared(tmp_path, place, "v1"))["validation"]["path"]
    write_rows(tmp_path / "sums.jsonl", 0)
    rows = [{"problem": f"{n} - 1?", "answer": str(n - 1)} for n in range(40)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = prepared(tmp_path, place, "v2", train_input_eval_dataset_path=held)
    write_rows(tmp_path / "sums.jsonl", 48)
    with pytest.raises(DataError) as refused:
        inspect(run.config, place.environ, refresh_inputs=True)
    assert {problem.code for problem in refused.value.problems} == {"OVERLAP"}
