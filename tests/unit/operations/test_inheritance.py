"""operations.inheritance: what a new round takes over, and what it says it does not."""

import hashlib
import json
import os
from pathlib import Path

import pytest
from fakes.safetensors_files import write_safetensors

from loopai_trainer.errors import SettingsError
from loopai_trainer.files.run_dir import RunDir, TaskDir
from loopai_trainer.operations import inheritance, sources
from loopai_trainer.rules import plan as plans

REWARD = {"mode": "preset", "preset": "gsm8k_exact", "function": None, "name": "compute_score", "kwargs": {}}
NATIVE = {
    "data": {"train_files": "/old/train.parquet", "train_batch_size": 8},
    "actor_rollout_ref": {"actor": {"optim": {"lr": 3.0e-6}}, "model": {"path": "/old/model"}},
    "trainer": {"total_epochs": 2},
}


@pytest.fixture
def task(tmp_path):
    return TaskDir(str(tmp_path / "out"), "maths")


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "exported"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    write_safetensors(folder / "model.safetensors", {"w": ("F32", (2,))})
    return folder


def finished(task, version, *, status="completed", at="2026-01-01T00:00:00Z", model=None, reward=REWARD, stage="grpo"):
    """A run directory as a finished round leaves it."""
    run = task.run(version)
    for folder in (run.prepared_data, os.path.dirname(run.approved_config)):
        os.makedirs(folder, exist_ok=True)
    files = {name: Path(run.prepared_data, f"{name}.parquet") for name in ("train", "validation")}
    for name, path in files.items():
        path.write_text(f"{version} {name}")
    own = Path(run.path, "inputs", "reward_function.py")
    own.parent.mkdir(exist_ok=True)
    own.write_text("def compute_score(): ...\n")
    loopai = {
        "format": 1,
        "task_id": "maths",
        "version_id": version,
        "framework": "verl",
        "stage": stage,
        "backend": {
            "package": "verl",
            "version": "0.9.1",
            "python": "/p",
            "environment": "/e",
            "environment_sha256": "0" * 64,
        },
        "launch": {"executor": "local", "devices": "0", "nodes": 1, "nproc_per_node": 1, "env": {}, "pass_env": []},
        "reward": reward,
        "inputs": {
            **{name: {"path": str(path), "sha256": sha256(path), "rows": 1} for name, path in files.items()},
            "model": {"path": "/old/model", "fingerprint": "0" * 64},
            "files": [{"path": str(own), "sha256": sha256(own)}],
        },
    }
    plan = plans.render(loopai, {"selection_metric": "m", "selection_mode": "max", "export_huggingface": True}, NATIVE)
    Path(run.approved_config).write_text(plan.text)
    settings = {"train_input_config_template_path": {"value": "verl_grpo_vllm", "origin": "--template"}}
    Path(run.plan).write_text(
        json.dumps({"task_dir": task.path, "task_id": "maths", "version_id": version, "settings": settings})
    )
    result = {
        "schema_version": 1, "attempt": 1, "finished_at": at, "task_id": "maths", "trainer_version_id": version,
        "status": status, "config_sha256": plan.sha256, "run_dir": run.path, "best_checkpoint": None,
        "best_metric": None, "update_model_path": str(model) if model else None, "checkpoints": [],
        "result": {"status": status}, "error": None, "last_state": {},
    }  # fmt: skip
    Path(run.result).write_text(json.dumps(result))
    return run


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def begin(task, environ=None, state=None, **keyword):
    named = {"train_framework": "verl", "train_stage": "grpo", "task_id": "maths", **keyword}
    resolved = sources.resolve(sources.Request(named, environ or {}, state=state))
    user = {f"LOOPAI_TRAINER_{kind}_DIR": os.path.join(task.path, kind) for kind in ("STATE", "CACHE")}
    return inheritance.begin(resolved, task.run("new"), user), resolved


def test_a_first_round_takes_nothing_over(task):
    begun, resolved = begin(task)
    assert (begun.previous, begun.baseline, begun.validation, begun.warnings) == (None, None, None, ())
    assert begun.settings == resolved.settings


def test_the_last_successful_round_is_taken_over(task, model):
    finished(task, "first", model="/gone")
    finished(task, "second", at="2026-01-02T00:00:00Z", model=model)
    finished(task, "failed", status="failed", at="2026-01-03T00:00:00Z", model=model)
    begun, _ = begin(task, state={"trainer": {"train_input_model_name": "/the/first/model"}})
    assert begun.previous.run.version_id == "second"
    assert begun.settings.text("train_input_model_name") == str(model)
    assert begun.settings.origin("train_input_model_name") == "update_model_path of round second"
    assert begun.baseline == {  # without what the launcher sets itself
        "data": {"train_batch_size": 8},
        "actor_rollout_ref": {"actor": {"optim": {"lr": 3.0e-6}}},
        "trainer": {"total_epochs": 2},
    }
    assert begun.validation == os.path.join(task.run("second").prepared_data, "validation.parquet")
    assert begun.warnings == ()


def test_another_task_or_stage_is_no_round_before(task, model, tmp_path):
    finished(task, "other_stage", stage="dev", model=model)
    finished(TaskDir(str(tmp_path / "out"), "other"), "other_task", model=model)
    assert begin(task)[0].previous is None


@pytest.mark.parametrize(
    ("keyword", "environ"),
    [({"train_input_model_name": "/mine"}, {}), ({}, {"TRAIN_MODEL_PATH": "/mine"})],
)
def test_a_model_of_this_call_wins(task, model, keyword, environ):
    finished(task, "first", model=model)
    assert begin(task, environ, **keyword)[0].settings.text("train_input_model_name") == "/mine"


def test_each_can_be_declined(task, model):
    finished(task, "first", model=model)
    state = {"trainer": {"train_input_model_name": "/the/first/model"}}
    no = {
        "verl_inherit_previous_config": "false",
        "verl_use_previous_best_model": "false",
        "verl_reuse_previous_validation": "false",
    }
    begun, _ = begin(task, state=state, **no)
    assert (begun.baseline, begun.validation) == (None, None)
    assert begun.settings.text("train_input_model_name") == "/the/first/model"


def damaged_weights(folder):
    (folder / "model.safetensors").write_bytes(b"\x00" * 4)


def no_config(folder):
    (folder / "config.json").unlink()


def no_weights(folder):
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize("harm", [damaged_weights, no_config, no_weights])
def test_a_model_that_is_not_whole_is_not_promoted_and_that_is_said(task, model, harm):
    harm(model)
    finished(task, "first", model=model)
    begun, _ = begin(task, state={"trainer": {"train_input_model_name": "/the/first/model"}})
    assert begun.settings.text("train_input_model_name") == "/the/first/model"
    assert [problem.code for problem in begun.warnings] == ["PREVIOUS_MODEL_NOT_USED"]


def test_a_failed_export_is_not_promoted(task):
    finished(task, "first", model=None)
    begun, _ = begin(task, state={"trainer": {"train_input_model_name": "/the/first/model"}})
    assert "it has none" in begun.warnings[0].message
    assert begun.warnings[0].hint.startswith("trainer export first")


def test_without_another_model_the_reason_why_it_is_not_promoted_is_the_refusal(task, model):
    no_config(model)
    finished(task, "first", model=model)
    with pytest.raises(SettingsError, match=r"not taken over: .* has no config.json; and no other one") as refused:
        begin(task)
    assert refused.value.code == "SETTINGS_MISSING"
    assert [(p.severity, p.code) for p in refused.value.problems] == [("error", "PREVIOUS_MODEL_NOT_USED")]
    assert "--model" in refused.value.hint
    assert begin(task, train_input_model_name="/mine")[0].settings.text("train_input_model_name") == "/mine"


def test_validation_data_that_changed_are_not_reused(task, model):
    run = finished(task, "first", model=model)
    Path(run.prepared_data, "validation.parquet").write_text("other")
    assert begin(task)[0].validation is None


def test_named_validation_data_win(task, model):
    finished(task, "first", model=model)
    assert begin(task, train_input_eval_dataset_path="/mine.parquet")[0].validation is None


def test_another_template_of_this_call_is_said_not_to_be_used(task, model):
    finished(task, "first", model=model)
    assert begin(task, train_input_config_template_path="verl_grpo_vllm")[0].warnings == ()
    begun, _ = begin(task, train_input_config_template_path="mine.yaml")
    assert [problem.code for problem in begun.warnings] == ["TEMPLATE_NOT_USED"]


@pytest.mark.parametrize(
    ("reward", "same"),
    [
        ({**REWARD, "origin": "said otherwise"}, True),
        ({**REWARD, "preset": "math_boxed"}, False),
        ({**REWARD, "mode": "auto"}, False),
        ({**REWARD, "kwargs": {"strict": True}}, False),
        (None, False),
    ],
)
def test_validation_stays_while_the_reward_means_the_same(task, model, reward, same):
    finished(task, "first", model=model)
    begun, resolved = begin(task)
    assert inheritance.same_contract(begun, resolved, {"reward": reward}) is same


@pytest.mark.parametrize(("text", "same"), [("def compute_score(): ...\n", True), ("def compute_score(): 1\n", False)])
def test_a_custom_reward_is_the_same_by_its_bytes(task, model, tmp_path, text, same):
    custom = {**REWARD, "mode": "custom", "preset": None}
    finished(task, "first", model=model, reward=custom)
    mine = tmp_path / "mine.py"
    mine.write_text(text)
    begun, resolved = begin(task, verl_reward_function_path=f"{mine}:compute_score")
    assert inheritance.same_contract(begun, resolved, {"reward": custom}) is same


def test_a_run_elsewhere_is_found_by_the_index(task, model, tmp_path):
    from loopai_trainer.files import run_index

    run = finished(task, "first", model=model)
    elsewhere = tmp_path / "elsewhere"
    os.rename(run.path, elsewhere)
    user = {"LOOPAI_TRAINER_STATE_DIR": os.path.join(task.path, "STATE")}
    run_index.add(str(elsewhere), user, "first")
    assert isinstance(begin(task)[0].previous.run, RunDir)
    assert begin(task)[0].previous.run.path == str(elsewhere)
