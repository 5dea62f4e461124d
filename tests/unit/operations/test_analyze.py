"""operations.analyze: finding the folder, choosing reader and rule, refusing what holds nothing."""

import os
import shutil
from pathlib import Path

import pytest
from fakes.finished_runs import FinishedRun, strict
from fakes.plans import small_plan

from loopai_trainer.errors import ConfigError, NotFound
from loopai_trainer.operations.analyze import analyze, analyze_target
from loopai_trainer.operations.targets import Scope

CASES = Path(__file__).parents[2] / "cases" / "results"


@pytest.fixture
def finished(tmp_path):
    return FinishedRun(tmp_path)


@pytest.mark.parametrize(
    ("case", "framework", "chosen", "exact"),
    [
        ("SUP-05B", "llamafactory", "checkpoint-10", False),
        ("SUP-05B/out", "llamafactory", "checkpoint-10", False),
        ("SUP-06A", "llamafactory", "checkpoint-20", True),
        ("SUP-07A", "verl", "global_step_10", False),
        ("SUP-08B", "verl", "global_step_20", False),
        ("SUP-08B/checkpoints", "verl", "global_step_20", False),
    ],
)
def test_the_cases(case, framework, chosen, exact):
    data = strict(analyze(str(CASES / case)))
    assert (data["framework"], data["best_checkpoint"]["name"]) == (framework, chosen)
    assert data["best_checkpoint"]["exact"] is exact


def test_a_run_directory(finished):
    data = strict(analyze(finished.run.path))
    assert data["best_checkpoint"]["name"] == "checkpoint-30"
    assert "(by step)" in data["curve"]


def test_a_version_of_a_scope(finished, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    environ = {**os.environ, "LOOPAI_TRAINER_STATE_DIR": str(tmp_path / "state")}
    answer = analyze_target("v1", Scope(environ, str(tmp_path / "outputs")))
    assert answer.ok
    assert answer.message == answer.data["summary"]["reason"]
    with pytest.raises(NotFound):
        analyze_target("v2", Scope(environ, str(tmp_path / "outputs")))


def test_a_prepared_run_has_nothing_yet(finished):
    shutil.rmtree(finished.checkpoints)
    data = strict(analyze(finished.run.path))
    assert data["best_checkpoint"] is None
    assert data["summary"]["reason"] == "There is no usable checkpoint and no usable metric."


def test_a_damaged_yaml_is_said_and_the_general_rule_chooses(finished):
    Path(finished.run.config).write_text("loopai: {")
    data = analyze(finished.run.path)
    assert data["best_checkpoint"]["name"] == "checkpoint-30"
    assert any("the general rule chooses" in warning for warning in data["summary"]["warnings"])


def test_the_approved_yaml_counts_before_the_edited_one(finished):
    approved = Path(finished.run.approved_config)
    approved.parent.mkdir()
    approved.write_text(finished.plan.text)
    Path(finished.run.config).write_text("loopai: {")
    assert analyze(finished.run.path)["summary"]["warnings"] == []
    moved = finished.path.rename(finished.path.parent / "elsewhere")
    assert analyze(str(moved))["summary"]["warnings"] == []


@pytest.mark.parametrize(("metric", "mode", "chosen"), [("score", "max", 10), ("score", "min", 20), (None, None, 20)])
def test_a_verl_plan_names_its_metric(tmp_path, metric, mode, chosen):
    run = tmp_path / "v1"
    shutil.copytree(CASES / "SUP-07A", run)
    key = "val-core/a/acc/mean@1"
    lines = [
        f'{{"step": 10, "data": {{"score": 0.9, "{key}": 0.1}}}}',
        f'{{"step": 20, "data": {{"score": 0.1, "{key}": 0.9}}}}',
    ]
    (run / "metrics" / "verl_metrics.jsonl").write_text("\n".join(lines))
    plan = small_plan(framework="verl", stage="grpo")
    text = plan.text.replace("selection_metric: eval_loss", f"selection_metric: {metric or 'null'}")
    text = text.replace("selection_mode: min", f"selection_mode: {mode or 'null'}")
    (run / "training_config.yaml").write_text(text)
    assert analyze(str(run))["best_checkpoint"]["step"] == chosen


def test_a_mode_that_is_not_allowed_is_refused(tmp_path):
    run = tmp_path / "v1"
    shutil.copytree(CASES / "SUP-07A", run)
    text = small_plan(framework="verl", stage="grpo").text.replace("selection_mode: min", "selection_mode: maximize")
    (run / "training_config.yaml").write_text(text)
    with pytest.raises(ConfigError):
        analyze(str(run))


def test_nothing_is_written(finished):
    before = sorted((str(path), path.stat().st_mtime_ns) for path in finished.path.rglob("*"))
    analyze(finished.run.path)
    assert sorted((str(path), path.stat().st_mtime_ns) for path in finished.path.rglob("*")) == before


class TestRefusals:
    def test_no_such_folder(self, tmp_path):
        with pytest.raises(NotFound, match="there is no folder") as caught:
            analyze(str(tmp_path / "none"))
        assert caught.value.hint

    def test_an_empty_folder(self, tmp_path):
        with pytest.raises(NotFound, match="neither metrics nor checkpoints") as caught:
            analyze(str(tmp_path))
        assert "trainer_log.jsonl" in caught.value.hint

    def test_a_file(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(NotFound):
            analyze(str(tmp_path / "file"))

    def test_several_trainings_in_one_folder(self, tmp_path):
        shutil.copytree(CASES / "SUP-05B" / "out", tmp_path / "one")
        shutil.copytree(CASES / "SUP-06A" / "out", tmp_path / "two")
        with pytest.raises(NotFound, match="one, two"):
            analyze(str(tmp_path))


def test_a_folder_of_tasks_is_refused_with_their_runs(finished, tmp_path):
    tasks = Path(finished.run.path).parents[2]
    task = Path(finished.run.path).parents[1].name
    second = tasks / "second" / "trainer" / "v9"
    second.mkdir(parents=True)
    (second / "training_config.yaml").write_text("")
    with pytest.raises(NotFound, match=rf"holds 2 trainings: {task}/trainer/v1, second/trainer/v9"):
        analyze(str(tasks))
    only_prepared = Path(finished.run.path).parent / "v2"
    only_prepared.mkdir()
    (only_prepared / "training_config.yaml").write_text("")
    for folder in (tasks / task, tasks / task / "trainer"):
        with pytest.raises(NotFound, match=r"holds 2 trainings: .*v1, .*v2"):
            analyze(str(folder))


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "files",
    [
        ["trainer_state.json"], ["checkpoint-1/trainer_state.json"], ["checkpoint-1/adapter_config.json"],
        ["checkpoint-1/model.safetensors.index.json"], ["plan.json"], ["metrics/metrics.json"],
        ["metrics/metrics.jsonl"], ["global_step_1/actor/fsdp_config.json", "verl_metrics.jsonl"],
        ["global_step_1/actor/huggingface/model.safetensors.index.json", "latest_checkpointed_iteration.txt"],
    ],
)  # fmt: skip
def test_json_that_is_nested_too_deeply_is_damaged(tmp_path, files):
    log = '{"current_steps": 1, "total_steps": 3, "loss": 1.0}\n'
    (tmp_path / "trainer_log.jsonl").write_text(log + DEEP + "\n" + '{"loss": ' + DEEP + "}\n")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(DEEP)
    assert strict(analyze(str(tmp_path)))["best_checkpoint"] is None


def test_a_safetensors_header_that_is_nested_too_deeply_is_damaged(tmp_path):
    (tmp_path / "checkpoint-1").mkdir()
    header = DEEP.encode()
    (tmp_path / "checkpoint-1" / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (checkpoint,) = strict(analyze(str(tmp_path)))["checkpoints"]
    assert not checkpoint["complete"]
