"""GRPO by way of LoopAI's task store, from the constructor's records to a second round, with a verl that is played."""

import json

import pytest
from fakes.loopai import LoopAI, read_result
from fakes.runs import wait_for
from fakes.skill_session import GrpoSession

from loopai_trainer.files.run_dir import RunDir, TaskDir
from loopai_trainer.host import processes

pytestmark = pytest.mark.flow

TASK = "grpo_task"
PREPARE = "trainer prepare --json"
RUN = "trainer run-prepared CONFIG_PATH --sha256 HASH --version-id VERSION --json"


class StoredSession(GrpoSession):
    """A shell in which LoopAI has named its database and the task; all else is known from there."""

    @property
    def run(self) -> RunDir:
        return TaskDir(str(self.root / "outputs"), TASK).run(self.names["VERSION"])

    def made(self, name, first):
        """Generated records in a file, as the constructor leaves them; returns what it writes down of them."""
        rows = [{"question": f"{n} + {n}?", "answer": f"So it is.\n#### {2 * n}"} for n in range(first, first + 40)]
        (self.root / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return {"mapping_results": {"total_records": 40, "output_file": str(self.root / name)}}

    def call(self, line):
        return self.type(self.fill(line))


@pytest.fixture
def agent(tmp_path):
    session = StoredSession(tmp_path)
    yield session
    left = session.leave()
    processes.terminate(lambda: [one for one in left if processes.alive(one)], grace_s=0.0)
    assert left == []


@pytest.fixture
def database(agent):
    made = LoopAI(agent.root / "loopai.sqlite")
    trainer = {
        "train_framework": "verl",
        "train_stage": "grpo",
        "train_input_dataset_path": "",
        "train_input_model_name": {"value": str(agent.model), "default_value": "", "type": "str"},
        "train_input_task_description": "Optimize task accuracy with GRPO.",
        "train_input_config_template_path": "verl_grpo_cpu_smoke",
    }
    made.add_task(TASK, {"task_id": TASK, "trainer": trainer, "constructor": agent.made("first.jsonl", 0)})
    agent.env |= {"DB_PATH": str(made.path), "TASK_ID": TASK}
    return made


def statuses(database):
    return [status for _, _, status in database.runtimes(TASK)]


def test_two_rounds_of_grpo_by_the_task_store(agent, database):
    assert agent.call(PREPARE) == 0
    prepared = database.trainer(TASK)
    manifest = prepared["verl_data_prepare_result"]
    assert manifest["source_path"] == str(agent.root / "first.jsonl")
    assert prepared["verl_reward_recommendation"]["preset"] == "gsm8k_exact"
    assert (prepared["trainer_data_check_passed"], prepared["trainer_missing_fields"]) == (True, [])
    assert prepared["trainer_version_id"] == agent.names["VERSION"]
    assert statuses(database) == []

    agent.hold.touch()
    caller = agent.start(agent.fill(RUN))
    wait_for(lambda: agent.starts == 1 and statuses(database) == ["running"])
    agent.hold.unlink()
    assert agent.answer(caller) == 0
    done = database.trainer(TASK)
    exported = f"{agent.run.exports}/global_step_2"
    assert (done["trainer_training_success"], done["update_model_path"]) == (True, exported)
    assert done["trainer_result"]["data"]["best_checkpoint"]["name"] == "global_step_2"
    assert done["training_checkpoints"] == ["global_step_1", "global_step_2"]
    assert done["train_input_model_name"] == {"value": str(agent.model), "default_value": "", "type": "str"}
    assert statuses(database) == ["completed"]
    told = read_result(agent.root / "outputs" / TASK / "trainer" / agent.names["VERSION"] / "worker_result.pkl")
    assert told["trainer"]["update_model_path"] == exported

    first = agent.names["VERSION"]
    state = database.state(TASK)
    state["constructor"] = agent.made("second.jsonl", 100)
    database.do("update taskmodel set state=? where task_id=?", json.dumps(state), TASK)
    assert agent.call(PREPARE) == 0
    assert agent.names["VERSION"] != first
    assert (agent.data["diff"]["against"]["version_id"], exported in agent.data["config_yaml"]) == (first, True)
    manifest = database.trainer(TASK)["verl_data_prepare_result"]
    assert manifest["source_path"] == str(agent.root / "second.jsonl")
    assert agent.call(RUN) == 0
    assert agent.starts == 2
    assert database.trainer(TASK)["update_model_path"] == f"{agent.run.exports}/global_step_2"
    assert statuses(database) == ["completed", "completed"]


def test_a_failed_export_comes_back_with_its_reason(agent, database):
    agent.starts_file.with_name("no_merge").touch()
    assert agent.call(PREPARE) == 0
    assert agent.call(RUN) == 12
    done = database.trainer(TASK)
    assert (done["trainer_training_success"], done["update_model_path"]) == (True, None)
    assert done["trainer_last_error"] is None, "training is fine"
    assert done["trainer_model_export_error"]
    assert done["trainer_model_export_log_path"] == agent.run.export_log
    assert statuses(database) == ["completed"]
