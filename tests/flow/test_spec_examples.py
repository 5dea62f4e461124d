"""The examples of the Trainer specification, word by word, with only the import path changed; nobody's GPU is needed.

`/path/to/...` stands for real places here, as it would for a reader. Training is the stand-in's (fakes).
"""

import ast
import json
from pathlib import Path

import pytest
from fakes.llamafactory_env import make_environment
from fakes.llamafactory_program import TEMPLATE, make_startable
from fakes.sft_plans import make_model_folder
from fakes.verl_rehearsals import rows, write_rows
from fakes.verl_runs import save_base_model
from fakes.verl_trees import make_verl, versions_of

import loopai_trainer
from loopai_trainer.backends.verl_grpo import VerlGrpo

pytestmark = pytest.mark.flow

QUICK_START = """
from loopai_trainer import prepare, run_prepared

prepared = prepare(
    config_path="starter.yaml",
    thread_id="trainer_task_001",
)
approval = prepared["trainer"]["trainer_result"]["data"]
print(approval["config_yaml"])

# Stop here. Ask the user to approve the complete YAML above.

result = run_prepared(
    prepared_config_path=approval["config_path"],
    expected_config_sha256=approval["config_sha256"],
    thread_id="trainer_task_001",
    version_id=approval["trainer_version_id"],
)
"""

EXPLICIT_STATE = """
from loopai_trainer import prepare

prepared = prepare(
    state={
        "task_id": "trainer_task_001",
        "output_dir": "./outputs",
        "trainer": {
            "train_framework": "llamafactory",
            "llamafactory_dir": "/path/to/LLaMA-Factory",
            "llamafactory_env_path": "/path/to/env/bin",
            "CUDA_VISIBLE_DEVICES": "0",
            "train_input_dataset_path": "/path/to/data.json",
            "train_input_model_name": "/path/to/model",
            "train_input_task_description": "SFT a chat assistant",
            "train_input_config_template_path": "/path/to/template.yaml",
        },
    },
    thread_id="trainer_task_001",
)
"""

GRPO_STATE = """
from loopai_trainer import prepare

prepared = prepare(
    state={
        "task_id": "trainer_grpo_001",
        "output_dir": "./outputs",
        "trainer": {
            "train_framework": "verl",
            "train_stage": "grpo",
            "verl_dir": "/path/to/verl",
            "verl_env_path": "verl",
            "train_input_dataset_path": "/path/to/train.parquet",
            "train_input_eval_dataset_path": "/path/to/validation.parquet",
            "train_input_model_name": "/path/to/model",
            "train_input_task_description": "Optimize task accuracy with GRPO.",
            "verl_reward_mode": "preset",
            "verl_reward_preset": "math_boxed",
            "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
        },
    },
    thread_id="trainer_grpo_001",
)
"""

GENERATED_DATA = """
{
"trainer": {
    "train_framework": "verl",
    "train_stage": "grpo",
    "verl_dir": "/path/to/verl",
    "train_input_model_name": "/path/to/base-model",
    "train_input_task_description": "Mathematics GRPO",
    "verl_data_adapter": "auto",
    "verl_reward_mode": "auto",
}
}
"""
"""The specification's minimal fields; a mapping once its braces stand around it."""

GUIDE = """
from loopai_trainer import prefill_guide

guide = prefill_guide(state, task_type="sft")
if not guide["ready"]:
    print(guide["user_required_fields"])
"""

EVENTS = """
from loopai_trainer import load_events

events = load_events(
    task_id="trainer_task_001",
    output_dir="./outputs",
    version_id="trainer_version_uuid",
)
"""

ANALYSIS = """
from loopai_trainer import analyze_results

analysis = analyze_results(
    task_id="trainer_task_001",
    output_dir="./outputs",
)

best_checkpoint = analysis["data"]["best_checkpoint"]
summary = analysis["data"]["summary"]
"""

RESULT_FIELDS = {
    "trainer_result", "trainer_last_error", "trainer_result_analysis", "trainer_result_summary",
    "trainer_best_checkpoint", "trainer_best_metric", "trainer_best_checkpoint_path", "update_model_path",
    "training_checkpoints", "training_step_losses", "trainer_version_id", "trainer_output_dir",
    "trainer_event_log_path", "trainer_training_task_id", "trainer_run_state_path", "trainer_worker_log_path",
}  # fmt: skip
"""Source: spec/001 "Versioned Runtime" and "Result Analysis"."""

OLDER_FIELDS = {
    "trainer_task_id", "trainer_data_check_passed", "train_output_data_check_report_path",
    "trainer_config_generation_success", "train_output_config_path", "trainer_config_explanation_path",
    "trainer_training_success", "trainer_training_task_id", "trainer_training_execution_time",
    "trainer_training_final_status", "train_output_training_log_path", "train_output_training_report_path",
    "train_output_swanlab_log_path", "training_checkpoints", "training_step_losses", "train_config",
}  # fmt: skip
"""Source: spec/000, its table of outputs."""


class Place:
    """What `/path/to` stands for; `do` executes an example and gives its names."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.there = root / "there"
        env = make_startable(make_environment(self.there / "env"))
        (self.there / "LLaMA-Factory").mkdir()
        make_model_folder(self.there / "model")
        (self.there / "template.yaml").write_text(TEMPLATE)
        data = [{"instruction": f"question {n}", "output": f"answer {n}"} for n in range(8)]
        (self.there / "data.json").write_text(json.dumps(data))
        trainer = {
            "llamafactory_env_path": str(env),
            "train_input_dataset_path": str(self.there / "data.json"),
            "train_input_model_name": str(self.there / "model"),
            "train_input_task_description": "SFT a chat assistant",
            "train_input_config_template_path": str(self.there / "template.yaml"),
        }
        states = {"output_dir": "./outputs", "trainer": trainer}
        (root / "starter.yaml").write_text(json.dumps({"system": {}, "default_states": states}))

    def do(self, example: str, **names: object) -> dict[str, object]:
        exec(compile(self.placed(example), "example", "exec"), names)
        return names

    def placed(self, example: str) -> str:
        return example.replace("/path/to/", f"{self.there}/")

    def outputs(self, *names: str) -> Path:
        return self.root.joinpath("outputs", *names)


@pytest.fixture
def place(tmp_path, monkeypatch):
    for kind in ("STATE", "CACHE", "DATA", "CONFIG"):
        monkeypatch.setenv(f"LOOPAI_TRAINER_{kind}_DIR", str(tmp_path / kind.lower()))
    for name in ("TASK_ID", "DB_PATH", "OUTPUT_DIR", "VERSION_ID", "CUDA_VISIBLE_DEVICES", "LOOPAI_TRAINER_LANGUAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


@pytest.mark.parametrize("example", [QUICK_START, EXPLICIT_STATE, GRPO_STATE, GUIDE, EVENTS, ANALYSIS])
def test_every_name_that_an_example_imports_is_public(example):
    (imported,) = [node for node in ast.parse(example).body if isinstance(node, ast.ImportFrom)]
    assert imported.module == "loopai_trainer"
    assert {name.name for name in imported.names} <= set(loopai_trainer.__all__)


def test_quick_start_events_and_analysis(place, capsys):
    names = place.do(QUICK_START)
    approval, trainer = names["approval"], names["result"]["trainer"]
    assert approval["config_yaml"] in capsys.readouterr().out
    assert approval["task_id"] == "trainer_task_001"
    assert (trainer["trainer_result"]["ok"], trainer["trainer_result"]["status"]) == (True, "completed"), trainer
    assert trainer["trainer_last_error"] is None
    assert trainer.keys() >= RESULT_FIELDS | OLDER_FIELDS
    version = approval["trainer_version_id"]
    run = place.outputs("trainer_task_001", "trainer", version)
    assert trainer["trainer_output_dir"] == str(run)
    assert (
        trainer["trainer_best_checkpoint_path"]
        == trainer["update_model_path"]
        == str(run / "checkpoints" / "checkpoint-2")
    )
    assert trainer["training_checkpoints"] == ["checkpoint-2", "checkpoint-4"]
    assert [row["step"] for row in trainer["training_step_losses"]] == [1, 2, 3, 4]
    assert trainer["trainer_result_summary"].keys() >= {
        "best_metric", "best_checkpoint_name", "checkpoint_count", "metric_count",
    }  # fmt: skip
    assert trainer["trainer_training_final_status"].keys() == {
        "status", "created_at", "started_at", "completed_at", "error_message",
    }  # fmt: skip
    for path in ("trainer_run_state_path", "trainer_worker_log_path", "train_output_training_report_path"):
        assert Path(trainer[path]).is_file()

    events = place.do(EVENTS.replace("trainer_version_uuid", version))["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["status"] == "completed"
    needed = {"current", "node", "status", "progress", "message", "data", "context_id", "error"}
    assert all(event.keys() >= needed and event["context_id"] == "trainer_task_001" for event in events)

    found = place.do(ANALYSIS)
    assert found["best_checkpoint"]["name"] == "checkpoint-2"
    assert found["summary"]["checkpoint_count"] == 2
    assert loopai_trainer.select_best_checkpoint("trainer_task_001", "./outputs") == found["best_checkpoint"]


def test_an_explicit_state(place):
    trainer = place.do(EXPLICIT_STATE)["prepared"]["trainer"]
    data = trainer["trainer_result"]["data"]
    assert trainer["trainer_last_error"] is None
    assert data["run_dir"] == str(place.outputs("trainer_task_001", "trainer", data["trainer_version_id"]))
    assert (trainer["trainer_data_check_passed"], trainer["data_check_passed"]) == (True, True)
    assert trainer["train_config"]["finetuning_type"] == "full"
    assert trainer["trainer_prefill_guide"]["ready"] is True
    assert Path(trainer["train_output_config_path"]).read_text() == data["config_yaml"]


@pytest.fixture
def verl(place, monkeypatch):
    """The conda environment `verl` of the examples; verl itself is asked nothing."""
    package = make_verl(place.root / "package")
    monkeypatch.setattr(VerlGrpo, "probe", lambda self, environment: versions_of(package))
    monkeypatch.setattr(VerlGrpo, "resolve", lambda self, native, environment, paths: None)
    monkeypatch.setattr(VerlGrpo, "rehearse", lambda self, plan, versions, paths: None)
    conda = place.root / "conda"
    make_environment(conda / "envs" / "verl")
    monkeypatch.setenv("CONDA_EXE", str(conda / "bin" / "conda"))
    monkeypatch.setenv("CONDA_PREFIX", str(conda))
    monkeypatch.setenv("HOME", str(place.root))
    (place.there / "verl").mkdir()
    return place


def model_at(path):
    save_base_model(path, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=4096)


def test_a_grpo_state(place, verl):
    write_rows(place.there / "train.parquet", rows([str(n) for n in range(256)]))
    write_rows(place.there / "validation.parquet", rows([str(n) for n in range(8)], content="And how many here?"))
    model_at(place.root / "grpo" / "model")
    example = GRPO_STATE.replace("/path/to/model", str(place.root / "grpo" / "model"))
    trainer = place.do(example)["prepared"]["trainer"]
    assert trainer["trainer_last_error"] is None
    assert trainer["trainer_prefill_guide"]["ready"] is True
    data = trainer["trainer_result"]["data"]
    assert (data["task_id"], data["train_framework"], data["train_stage"]) == ("trainer_grpo_001", "verl", "grpo")
    assert trainer["verl_data_prepare_result"]["train_records"] == 256
    assert Path(trainer["verl_data_manifest_path"]).is_file()
    assert "preset: math_boxed" in data["config_yaml"]


def test_generated_data_that_another_agent_left(place, verl):
    made = place.root / "mapped_alpaca_math.jsonl"
    rows = [{"question": f"{n} + {n}?", "answer": f"So it is.\n#### {2 * n}"} for n in range(300)]
    made.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model_at(place.there / "base-model")
    state = ast.literal_eval(place.placed(GENERATED_DATA))
    state |= {"task_id": "made", "constructor": {"mapping_results": {"output_file": str(made)}}}
    trainer = loopai_trainer.prepare(state=state, thread_id="trainer_grpo_001")["trainer"]
    assert trainer["trainer_last_error"] is None
    manifest = trainer["verl_data_prepare_result"]
    assert (manifest["source_path"], manifest["validation_records"]) == (str(made), 15)
    assert manifest["split"]["ratio"] == 0.05
    assert trainer["verl_reward_recommendation"]["preset"] == "gsm8k_exact"
    for name in ("train", "validation"):
        assert Path(trainer["trainer_output_dir"], "prepared_data", f"{name}.parquet").is_file()


def test_the_prefill_guide(place, capsys):
    place.do(GUIDE, state={"trainer": {"train_input_model_name": "/path/to/model"}})
    assert ast.literal_eval(capsys.readouterr().out) == [
        "train_input_dataset_path", "train_input_model_name", "train_input_task_description", "llamafactory_env_path",
    ]  # fmt: skip
    state = ast.literal_eval(place.placed(EXPLICIT_STATE).partition("state=")[2].rpartition(",\n    thread_id")[0])
    names = place.do(GUIDE, state=state)
    assert (names["guide"]["ready"], capsys.readouterr().out) == (True, "")
