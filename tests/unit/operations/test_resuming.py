import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from fakes.safetensors_files import decoder_tensors, write_safetensors

from loopai_trainer.errors import Busy, ConfigError, InputChanged, NotFound, UsageError
from loopai_trainer.files import atomic
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations.inspect import inspect
from loopai_trainer.operations.prepare import prepare
from loopai_trainer.operations.sources import Request
from loopai_trainer.results.analysis import analyze_folder
from loopai_trainer.results.metric_files import normalised_rows
from loopai_trainer.rules import plan as plans


class Stopped:
    """A round that was approved, trained for four steps of six, and cancelled."""

    def __init__(self, place, **settings):
        self.place = place
        self.prepared = place.prepare(["save_steps=2", "num_train_epochs=2.0"], **settings)
        self.run = RunDir(str(place.run))
        os.makedirs(os.path.dirname(self.run.approved_config))
        shutil.copy(self.run.config, self.run.approved_config)
        os.makedirs(self.run.metrics)
        self.end("cancelled")
        rows = [{"step": n, "attempt": 1, "kind": "train", "values": {"loss": 5.0 - n}} for n in range(1, 6)]
        Path(self.run.metric_rows).write_text("".join(json.dumps(row) + "\n" for row in rows))
        for step in (2, 4):
            self.checkpoint(step)

    def end(self, status):
        sha256 = self.prepared.data["config_sha256"]
        os.makedirs(self.run.launch, exist_ok=True)
        Path(self.run.launch_started).write_text("{}")
        state = {"status": status, "version_id": "v1", "attempt": 1, "config_sha256": sha256}
        atomic.write_json(self.run.run_state, state)
        result = {"status": status, "attempt": 1, "trainer_version_id": "v1", "config_sha256": sha256}
        atomic.write_json(self.run.result, {**result, "checkpoints": [], "result": {"status": status}})

    def checkpoint(self, step):
        folder = Path(self.run.checkpoints, f"checkpoint-{step}")
        folder.mkdir(parents=True)
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))
        (folder / "config.json").write_text("{}")
        write_safetensors(folder / "model.safetensors", decoder_tensors())
        for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
            with zipfile.ZipFile(folder / name, "w") as file:
                file.writestr("data.pkl", b"")

    def resume(self, *overrides, version="v1", **settings):
        keyword = {"trainer_version_id": "v2", "output_dir": str(self.place.root / "outputs"), **settings}
        return prepare(Request(keyword, self.place.environ, overrides=overrides, resume=version))


@pytest.fixture
def stopped(place):
    return Stopped(place)


def test_a_new_round_goes_on_from_the_newest_checkpoint(stopped):
    answer = stopped.resume()
    plan = plans.read(answer.data["config_yaml"].encode(), "x")
    before = plans.read(stopped.prepared.data["config_yaml"].encode(), "x")
    run = RunDir(answer.data["run_dir"])
    folder = run.at("inputs", "checkpoint-4")
    assert plan.native["resume_from_checkpoint"] == folder
    resume = plan.loopai["resume"]
    assert (resume["version_id"], resume["step"], resume["path"]) == ("v1", 4, folder)
    assert resume["config_sha256"] == stopped.prepared.data["config_sha256"]
    pinned = {entry.path for entry in plans.inputs(plan)}
    assert {os.path.join(folder, name) for name in os.listdir(folder)} <= pinned
    assert {os.path.join(folder, name) for name in ("optimizer.pt", "model.safetensors")} <= pinned
    changed = {key for key in plan.native if plan.native[key] != before.native.get(key)}
    assert changed == {"resume_from_checkpoint", "output_dir", "dataset_dir"}
    assert plan.loopai["inputs"]["train"]["sha256"] == before.loopai["inputs"]["train"]["sha256"]
    assert plan.loopai["inputs"]["validation"]["sha256"] == before.loopai["inputs"]["validation"]["sha256"]
    assert any("resume_from_checkpoint" in str(warning["field"]) for warning in answer.data["warnings"])
    assert "goes on from checkpoint-4 of v1" in Path(run.explanation).read_text()
    assert inspect(run.config, stopped.place.environ).data["config_sha256"] == answer.data["config_sha256"]


def test_a_damaged_checkpoint_is_passed_over(stopped):
    newest = Path(stopped.run.checkpoints, "checkpoint-4")
    (newest / "optimizer.pt").write_bytes(b"PK torn")
    answer = stopped.resume()
    assert plans.read(answer.data["config_yaml"].encode(), "x").loopai["resume"]["step"] == 2


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("optimizer.pt", "optimizer.pt is missing (save_only_model keeps none)"),
        ("scheduler.pt", "scheduler.pt is missing"),
        ("rng_state.pth", "rng_state.pth is missing"),
        ("trainer_state.json", "trainer_state.json is missing"),
        ("model.safetensors", "no weights"),
    ],
)
def test_without_a_whole_checkpoint_it_is_refused(stopped, name, why):
    for step in (2, 4):
        os.unlink(os.path.join(stopped.run.checkpoints, f"checkpoint-{step}", name))
    with pytest.raises(ConfigError) as refused:
        stopped.resume()
    assert refused.value.code == "RESUME_NO_CHECKPOINT"
    assert why in refused.value.message


def test_a_checkpoint_whose_state_is_of_another_step_is_not_used(stopped):
    newest = Path(stopped.run.checkpoints, "checkpoint-4")
    (newest / "trainer_state.json").write_text('{"global_step": 3}')
    assert plans.read(stopped.resume().data["config_yaml"].encode(), "x").loopai["resume"]["step"] == 2


def test_other_data_or_another_model_is_refused(stopped):
    rows = [{"instruction": f"question {n}", "output": f"another {n}"} for n in range(8)]
    stopped.place.write_rows(rows)
    with pytest.raises(ConfigError) as refused:
        stopped.resume()
    assert refused.value.code == "RESUME_INPUT_CHANGED"
    assert "expected:" in refused.value.message


def test_another_model_is_refused(stopped):
    with open(stopped.place.model / "config.json", "a") as file:
        file.write(" ")
    with pytest.raises(ConfigError) as refused:
        stopped.resume()
    assert refused.value.code == "RESUME_INPUT_CHANGED"
    assert refused.value.message.startswith("model is not what v1 trained with")


def test_a_run_that_has_not_ended_is_refused(stopped):
    os.unlink(stopped.run.result)
    os.unlink(stopped.run.run_state)
    with pytest.raises(Busy):
        stopped.resume()
    os.unlink(stopped.run.launch_started)
    with pytest.raises(UsageError) as refused:
        stopped.resume()
    assert refused.value.code == "NOT_STARTED"
    with pytest.raises(NotFound):
        stopped.resume(version="v9")


def test_a_checkpoint_at_the_last_step_is_refused_until_more_is_asked_for(stopped):
    stopped.checkpoint(6)
    with pytest.raises(ConfigError) as refused:
        stopped.resume()
    assert "RESUME_FINISHED" in [problem.code for problem in refused.value.problems]
    plan = plans.read(stopped.resume("num_train_epochs=4.0").data["config_yaml"].encode(), "x")
    assert (plan.loopai["resume"]["step"], plan.native["num_train_epochs"]) == (6, 4.0)


def test_the_checkpoint_cannot_be_named_by_hand(stopped):
    with pytest.raises(ConfigError) as refused:
        stopped.place.prepare([f"resume_from_checkpoint={stopped.run.checkpoints}"], trainer_version_id="v3")
    assert "UNCOVERED_INPUT" in [problem.code for problem in refused.value.problems]


def test_a_file_beside_the_pinned_ones_is_refused_by_inspect(stopped):
    run = RunDir(stopped.resume().data["run_dir"])
    Path(run.at("inputs", "checkpoint-4", "more.bin")).write_text("x")
    with pytest.raises(ConfigError) as refused:
        inspect(run.config, stopped.place.environ)
    assert "UNCOVERED_INPUT" in [problem.code for problem in refused.value.problems]


def test_metrics_of_both_rounds_are_one_curve_and_the_last_writer_wins(stopped):
    run = RunDir(stopped.resume().data["run_dir"])
    assert [(row.step, row.attempt) for row in normalised_rows(run.earlier_metrics)] == [(n, 0) for n in range(1, 5)]
    os.makedirs(run.checkpoints)
    lines = [{"current_steps": n, "total_steps": 6, "loss": 10.0 - n, "lr": 0.1, "epoch": 0.1} for n in (4, 5, 6)]
    Path(run.checkpoints, "trainer_log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    from loopai_trainer.backends.llamafactory_sft import BACKEND

    found = analyze_folder(run.path, BACKEND)
    losses = {row.step: row.values["loss"] for row in found.rows if row.kind == "train"}
    assert losses == {1: 4.0, 2: 3.0, 3: 2.0, 4: 6.0, 5: 5.0, 6: 4.0}
    assert found.resumed
    assert found.selection.metric.step in (4, 5, 6)  # what is chosen is chosen among this round's own


def test_a_repeated_prepare_replaces_what_a_failed_one_left(stopped):
    stopped.resume()
    assert stopped.resume().ok


def test_a_refresh_keeps_what_a_resumed_round_pins(stopped):
    answer = stopped.resume()
    run, environ = RunDir(answer.data["run_dir"]), stopped.place.environ
    before = plans.read(answer.data["config_yaml"].encode(), "x")
    assert inspect(run.config, environ, refresh_inputs=True).data["refreshed"]["changed"] == []
    Path(run.config).write_text(answer.data["config_yaml"].replace("num_train_epochs: 2.0", "num_train_epochs: 3.0"))
    refreshed = inspect(run.config, environ, refresh_inputs=True)
    after = plans.read(refreshed.data["config_yaml"].encode(), "x")
    assert after.native["num_train_epochs"] == 3.0
    assert after.loopai["inputs"]["files"] == before.loopai["inputs"]["files"]
    assert after.loopai["resume"] == before.loopai["resume"]


def test_a_refresh_takes_in_no_other_checkpoint_data_or_model(stopped):
    run, environ = RunDir(stopped.resume().data["run_dir"]), stopped.place.environ
    held = Path(run.at("inputs", "checkpoint-4", "optimizer.pt"))
    whole = held.read_bytes()
    held.chmod(0o644)
    held.write_bytes(b"another")
    with pytest.raises(InputChanged, match=r"optimizer\.pt"):
        inspect(run.config, environ, refresh_inputs=True)
    held.write_bytes(whole)
    rows = stopped.place.data.read_bytes()
    stopped.place.write_rows([{"instruction": f"question {n}", "output": "another"} for n in range(8)])
    with pytest.raises(ConfigError) as refused:
        inspect(run.config, environ, refresh_inputs=True)
    assert (refused.value.code, "the data changed" in refused.value.message) == ("RESUME_INPUT_CHANGED", True)
    stopped.place.data.write_bytes(rows)
    with open(stopped.place.model / "config.json", "a") as file:
        file.write(" ")
    with pytest.raises(ConfigError) as refused:
        inspect(run.config, environ, refresh_inputs=True)
    assert (refused.value.code, "the model changed" in refused.value.message) == ("RESUME_INPUT_CHANGED", True)
