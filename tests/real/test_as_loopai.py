"""Acting as LoopAI: its database, its environment variables, its reader, real LLaMA-Factory, and another agent at work."""

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest
from fakes.loopai import LoopAI, OtherAgent, read_events, read_result

pytestmark = pytest.mark.real

TASK = "trainer_task_001"
PREPARE = """
import json, loopai_trainer
state = loopai_trainer.prepare(thread_id="ignored, since TASK_ID is set")
print(json.dumps(state))
"""
RUN = """
import json, sys, loopai_trainer
approval = json.load(sys.stdin)["trainer"]["trainer_result"]["data"]
state = loopai_trainer.run_prepared(
    prepared_config_path=approval["config_path"],
    expected_config_sha256=approval["config_sha256"],
    thread_id="{task}",
    version_id=approval["trainer_version_id"],
)
print(json.dumps(state))
""".replace("{task}", TASK)


@pytest.fixture(scope="module")
def task(workshop):
    """What a person has set in LoopAI for this task; the data come from another agent."""
    made = LoopAI(workshop.root / "loopai.sqlite")
    trainer = {
        "train_framework": "llamafactory",
        "train_stage": "sft",
        "llamafactory_env_path": workshop.lf_env,
        "llamafactory_dir": "",
        "train_input_dataset_path": "",
        "train_input_model_name": {"value": str(workshop.model), "default_value": "", "type": "str"},
        "train_input_task_description": "SFT a bilingual assistant",
        "train_input_config_template_path": "cpu_smoke_full",
        "CUDA_VISIBLE_DEVICES": "",
        "trainer_prefill_guide": {"ready": False},
    }
    upstream = {"mapping_results": {"total_records": 128, "output_file": str(workshop.data)}}
    made.add_task(TASK, {"task_id": TASK, "trainer": trainer, "constructor": upstream, "obtainer": {}})
    return made


@pytest.fixture(scope="module")
def call(workshop, task):
    def called(program, given=None):
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
        output = {"TASK_ID": TASK, "DB_PATH": str(task.path), "OUTPUT_DIR": str(workshop.output)}
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(given),
            env={**kept, **workshop.environ, **output},
            cwd=workshop.root,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return called


@pytest.fixture(scope="module")
def round_of_training(call, task):
    """(prepare's state, run_prepared's state, what the task was between them, turns of another agent meanwhile)."""
    agent = OtherAgent(task, TASK)
    over = Event()
    try:
        prepared = call(PREPARE)
        agent.turn()
        after_prepare = task.state(TASK)
        thread = Thread(target=lambda: [agent.turn() for _ in iter(lambda: over.wait(0.05), True)])
        thread.start()
        try:
            ran = call(RUN, prepared)
        finally:
            over.set()
            thread.join()
    finally:
        turns = agent.stop()
    return prepared, ran, after_prepare, turns


def test_prepare_took_its_settings_from_the_task(round_of_training, workshop):
    prepared = round_of_training[0]["trainer"]
    approval = prepared["trainer_result"]["data"]
    assert prepared["trainer_last_error"] is None, prepared
    assert (approval["task_id"], approval["train_framework"]) == (TASK, "llamafactory")
    noted = json.loads(Path(approval["run_dir"], "plan.json").read_text())["settings"]
    assert noted["train_input_dataset_path"]["value"] == str(workshop.data)
    assert noted["train_input_dataset_path"]["origin"].startswith("task store constructor.mapping_results")
    assert noted["train_input_model_name"]["origin"] == "task store trainer.train_input_model_name"


def test_prepare_wrote_what_there_is_to_approve(round_of_training):
    prepared, _, state, _ = round_of_training
    approval = prepared["trainer"]["trainer_result"]["data"]
    trainer = state["trainer"]
    assert trainer["trainer_version_id"] == approval["trainer_version_id"]
    assert trainer["train_output_config_path"] == approval["config_path"]
    assert trainer["trainer_result"]["data"]["config_sha256"] == approval["config_sha256"]
    assert trainer["trainer_data_check_passed"] is trainer["config_generation_success"] is True


def test_the_results_are_in_the_task(round_of_training, task):
    _, ran, _, _ = round_of_training
    answered = ran["trainer"]["trainer_result"]["data"]
    trainer = task.trainer(TASK)
    assert trainer["trainer_training_success"] is trainer["training_success"] is True
    assert trainer["trainer_result"]["ok"] is True
    assert trainer["trainer_last_error"] is None
    assert trainer["trainer_best_checkpoint"] == answered["best_checkpoint"]
    assert trainer["trainer_best_checkpoint_path"] == answered["best_checkpoint"]["path"]
    assert trainer["trainer_best_metric"] == answered["best_metric"]
    assert trainer["update_model_path"] == answered["update_model_path"]
    assert Path(trainer["update_model_path"], "config.json").is_file()
    assert trainer["trainer_result_summary"]["best_checkpoint_name"] == answered["best_checkpoint"]["name"]
    assert trainer["trainer_result_analysis"]["summary"] == trainer["trainer_result_summary"]
    assert trainer["training_checkpoints"] == [one["name"] for one in answered["checkpoints"]]
    assert trainer["training_step_losses"]
    assert trainer["training_final_status"]["status"] == "completed"
    for name in ("train_output_training_log_path", "train_output_training_report_path", "trainer_event_log_path"):
        assert Path(trainer[name]).is_file(), name


def test_the_task_is_otherwise_what_other_agents_made_of_it(round_of_training, task, workshop):
    turns = round_of_training[3]
    state = task.state(TASK)
    assert turns > 20
    assert (state["analyzer"]["turn"], state["trainer"]["a_field_of_somebody"]) == (turns, turns)
    assert state["constructor"]["mapping_results"]["output_file"] == str(workshop.data)
    assert state["trainer"]["train_input_dataset_path"] == ""
    assert state["trainer"]["train_input_model_name"]["value"] == str(workshop.model)


def test_the_version_has_its_runtime_row(round_of_training, task):
    version = round_of_training[0]["trainer"]["trainer_version_id"]
    assert task.runtimes(TASK) == [("trainer", version, "completed")]


def test_loopais_reader_finds_events_and_result(round_of_training, workshop):
    version = round_of_training[0]["trainer"]["trainer_version_id"]
    events = read_events(workshop.output / TASK / "trainer.pkl")
    assert {(event.version_id, event.context_id, event.current) for event in events} == {(version, TASK, "trainer")}
    nodes = [event.node for event in events]
    assert nodes.index("starting") < nodes.index("training") < nodes.index("finalizing") < nodes.index("completed")
    steps = [event for event in events if event.progress_num is not None]
    assert [event.progress for event in steps] == [event.progress_num / event.total for event in steps]
    run_dir = workshop.output / TASK / "trainer" / version
    state = read_result(run_dir / "worker_result.pkl")
    assert state["trainer"]["update_model_path"] == round_of_training[1]["trainer"]["update_model_path"]
    for file in (workshop.output / TASK / "trainer.pkl", run_dir / "worker_result.pkl"):
        assert file.stat().st_mode & 0o777 == 0o600


def test_the_next_preparation_begins_a_new_version(round_of_training, call):
    first = round_of_training[0]["trainer"]["trainer_version_id"]
    again = call(PREPARE)["trainer"]
    assert again["trainer_last_error"] is None
    assert again["trainer_version_id"] != first
