"""The TrainerAgent as LoopAI runs it: real processes, the stand-in backend, a person between plan and training."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes.loopai import LoopAI
from fakes.sft_plans import make_model_folder
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from loopai_trainer import TrainerAgent
from loopai_trainer.agent import TrainerGraphContext, TrainerGraphState
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import processes
from loopai_trainer.operations import agent_rounds

pytestmark = pytest.mark.flow

TESTS = Path(__file__).resolve().parent.parent
CONFIG = {"configurable": {"thread_id": "trainer_demo"}}
NODES = ["check_required_fields", "data_check", "config_generation", "approval", "training_execution"]


class Place:
    """A task for the stand-in: `state` is what LoopAI hands over."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data.jsonl"
        rows = [{"instruction": f"question {number}", "output": f"answer {number}"} for number in range(8)]
        self.data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.template = root / "template.yaml"
        self.template.write_text("steps: 3\n")
        self.model = make_model_folder(root / "model")

    def state(self, **trainer):
        section = {
            "train_framework": "stand_in_chat",
            "train_stage": "sft",
            "stand_in_env_path": sys.prefix,
            "train_input_dataset_path": str(self.data),
            "train_input_task_description": "回答简单问题并进行对话的 AI 助手",
            "train_input_config_template_path": str(self.template),
            "train_input_model_name": str(self.model),
            **trainer,
        }
        section = {key: value for key, value in section.items() if value is not None}
        return {"output_dir": str(self.root / "outputs"), "trainer": section}


@pytest.fixture
def place(tmp_path, monkeypatch):
    site = TESTS / "fakes" / "site"
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", f"{TESTS}:{site}")
    for kind in ("STATE", "CACHE", "DATA", "CONFIG"):
        monkeypatch.setenv(f"LOOPAI_TRAINER_{kind}_DIR", str(tmp_path / kind.lower()))
    for name in ("TASK_ID", "DB_PATH", "VERSION_ID", "OUTPUT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    made = Place(tmp_path)
    yield made
    runs = [path.parent for path in tmp_path.rglob("run_state.json")]
    until = time.monotonic() + 60.0
    while (
        left := [dict(one) for run in runs for one in processes.marked(run.name, str(run))]
    ) and until > time.monotonic():
        time.sleep(0.02)
    processes.terminate(lambda: [one for one in left if processes.alive(one)], grace_s=0.0)
    assert left == []


@pytest.fixture
def trainer():
    return TrainerAgent(checkpointer=InMemorySaver(), store=InMemoryStore())


def asked(result):
    """What a person is shown."""
    (interrupt,) = result["__interrupt__"]
    return interrupt.value


def run_of(result):
    return RunDir(result["trainer"]["trainer_output_dir"])


def approval(result):
    return json.loads(Path(run_of(result).approval).read_text())


def starts(result):
    path = Path(run_of(result).checkpoints, "starts.txt")
    return len(path.read_text().split()) if path.exists() else 0


def test_the_nodes_of_the_specification(trainer):
    assert [name for name in trainer().get_graph().nodes if not name.startswith("__")] == NODES


def test_the_example_of_the_specification(place):
    """As spec/000 writes it, but for framework and paths; LoopAI's own path of a template is a bundled one's."""
    trainer = TrainerAgent(checkpointer=InMemorySaver(), store=InMemoryStore())
    graph = trainer()
    state = {
        "trainer": {
            **place.state()["trainer"],
            "llamafactory_dir": "/path/to/LLaMA-Factory",
            "output_dir": "./output/trainer_demo",
            "train_input_use_swanlab": True,
            "train_input_swanlab_project": "demo_llamafactory_training",
        }
    }
    config = {"configurable": {"thread_id": "trainer_demo"}}
    result = graph.invoke(state, config=config)
    result = graph.invoke(Command(resume=asked(result)["config_sha256"]), config=config)
    summary = trainer.get_training_summary(result)
    assert summary["final_status"] == "completed"
    version = result["trainer"]["trainer_task_id"]
    runs = place.root / "output" / "trainer_demo" / "trainer_demo" / "trainer"
    assert [path.name for path in runs.iterdir()] == [version]
    outside = {name for name, path in summary["output_files"].items() if not Path(path).is_relative_to(runs / version)}
    assert outside == {"events"}  # LoopAI's event file is the task's
    written = {
        "trainer_data_check_passed", "train_output_data_check_report_path", "trainer_config_generation_success",
        "train_output_config_path", "trainer_config_explanation_path", "trainer_training_success",
        "trainer_training_task_id", "trainer_training_execution_time", "trainer_training_final_status",
        "train_output_training_log_path", "train_output_training_report_path", "training_checkpoints",
        "training_step_losses",
    }  # fmt: skip
    assert written <= set(result["trainer"])


def test_from_state_to_summary_with_a_person_between(place, trainer):
    graph = trainer()
    told = list(graph.stream(place.state(), CONFIG, stream_mode="custom"))
    assert {one["node"] for one in told} == {"data_check", "config_generation"}
    state = graph.get_state(CONFIG)
    assert state.next == ("approval",)
    shown = state.interrupts[0].value
    assert shown["config_yaml"] == Path(shown["config_path"]).read_text()
    assert shown["summary"] == {"steps": 3}
    assert shown["refused"] is None
    assert not Path(shown["run_dir"], "approval.json").exists()

    told = list(graph.stream(Command(resume=shown["config_sha256"]), CONFIG, stream_mode="custom"))
    assert {one["node"] for one in told} == {"training_execution"}
    assert told[-1]["status"] == "completed"
    assert [one["progress"] for one in told if one["progress"] is not None][-1] == 1.0
    assert {one["context_id"] for one in told} == {"trainer_demo"}
    result = graph.get_state(CONFIG).values
    section = result["trainer"]
    assert (section["trainer_data_check_passed"], section["trainer_config_generation_success"]) == (True, True)
    assert section["trainer_training_success"] is True
    assert section["trainer_last_error"] is None
    assert json.loads(json.dumps([section, shown, told])) == [section, shown, told]
    assert section["trainer_result"]["data"]["config_sha256"] == shown["config_sha256"]
    assert approval(result)["approved_via"] == "hash"
    assert starts(result) == 1
    summary = trainer.get_training_summary(result)
    assert summary["final_status"] == "completed"
    assert summary["best_checkpoint"]["name"] == "checkpoint-3"
    assert summary["trainer_version_id"] == section["trainer_version_id"]
    assert Path(summary["output_files"]["config"]).read_text() == shown["config_yaml"]
    assert {"config", "config_explanation", "data_check_report", "training_report", "best_checkpoint"} <= set(
        summary["output_files"]
    )


def test_without_an_answer_nothing_starts_and_the_summary_says_what_it_waits_for(place, trainer):
    result = trainer().invoke(place.state(), CONFIG)
    assert asked(result)["next_command"].startswith("trainer run-prepared ")
    assert trainer.get_training_summary(result)["final_status"] == "awaiting_approval"
    assert starts(result) == 0


def test_without_a_checkpointer_it_stops_there_and_says_how_to_go_on(place):
    trainer = TrainerAgent()
    result = trainer().invoke(place.state(), CONFIG)
    assert asked(result)["next_command"].endswith(f" --sha256 {asked(result)['config_sha256']}")
    assert trainer.get_training_summary(result)["final_status"] == "awaiting_approval"
    assert starts(result) == 0


@pytest.mark.parametrize("answer", [False, {"approved": False}])
def test_a_no_ends_the_round(place, trainer, answer):
    graph = trainer()
    shown = asked(graph.invoke(place.state(), CONFIG))
    result = graph.invoke(Command(resume=answer), CONFIG)
    assert trainer.get_training_summary(result)["final_status"] == "not_approved"
    assert result["trainer"]["trainer_last_error"]["code"] == "NOT_APPROVED"
    assert not Path(shown["run_dir"], "approval.json").exists()
    assert starts(result) == 0


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (True, "NOT_APPROVED"),
        ({"approved": True}, "NOT_APPROVED"),
        ("yes", "CONFIG_HASH_MISMATCH"),
        ("0" * 64, "CONFIG_HASH_MISMATCH"),
    ],
)
def test_only_the_approved_hash_starts_training(place, trainer, answer, code):
    graph = trainer()
    first = asked(graph.invoke(place.state(), CONFIG))
    result = graph.invoke(Command(resume=answer), CONFIG)
    again = asked(result)
    assert again["refused"]["code"] == code
    assert again["config_sha256"] == first["config_sha256"]
    assert starts(result) == 0
    assert not Path(first["run_dir"], "approval.json").exists()
    result = graph.invoke(Command(resume={"config_sha256": first["config_sha256"]}), CONFIG)
    assert trainer.get_training_summary(result)["final_status"] == "completed"
    assert starts(result) == 1


def test_an_edited_yaml_is_shown_and_approved_anew(place, trainer):
    graph = trainer()
    first = asked(graph.invoke(place.state(), CONFIG))
    path = Path(first["config_path"])
    path.write_text(path.read_text().replace("steps: 3", "steps: 2"))
    again = asked(graph.invoke(Command(resume=first["config_sha256"]), CONFIG))
    assert again["refused"]["code"] == "CONFIG_HASH_MISMATCH"
    assert "steps: 2" in again["config_yaml"]
    assert again["config_sha256"] != first["config_sha256"]
    result = graph.invoke(Command(resume=again["config_sha256"]), CONFIG)
    assert trainer.get_training_summary(result)["best_checkpoint"]["name"] == "checkpoint-2"


def test_an_edit_that_cannot_be_run_is_told(place, trainer):
    graph = trainer()
    first = asked(graph.invoke(place.state(), CONFIG))
    path = Path(first["config_path"])
    path.write_text(path.read_text() + "a: [\n")
    again = asked(graph.invoke(Command(resume=first["config_sha256"]), CONFIG))
    assert again["refused"]["code"] == "CONFIG_INVALID"


def test_where_a_terminal_is_demanded_the_hash_is_not_enough(place, trainer):
    graph = trainer()
    shown = asked(graph.invoke(place.state(approval_require="terminal"), CONFIG))
    again = asked(graph.invoke(Command(resume=shown["config_sha256"]), CONFIG))
    assert again["refused"]["code"] == "APPROVAL_MISSING"
    assert again["refused"]["next_command"].startswith("trainer approve ")


def test_opting_out_is_recorded(place):
    trainer = TrainerAgent(checkpointer=InMemorySaver(), auto_approve=True)
    result = trainer().invoke(place.state(), CONFIG)
    assert "__interrupt__" not in result
    assert trainer.get_training_summary(result)["final_status"] == "completed"
    assert approval(result)["approved_via"] == "auto"


def test_only_true_opts_out(place):
    result = TrainerAgent(checkpointer=InMemorySaver(), auto_approve="false")().invoke(place.state(), CONFIG)
    assert asked(result)["config_sha256"]


def test_opting_out_does_not_beat_a_demand_for_a_terminal(place):
    trainer = TrainerAgent(auto_approve=True)
    result = trainer().invoke(place.state(approval_require="terminal"), CONFIG)
    summary = trainer.get_training_summary(result)
    assert (summary["final_status"], summary["error"]["code"]) == ("failed", "APPROVAL_MISSING")
    assert starts(result) == 0


def test_bad_data_end_the_round_at_the_data_check(place, trainer):
    place.data.write_text('{"instruction": "a", "output": ""}\n')
    result = trainer().invoke(place.state(), CONFIG)
    section = result["trainer"]
    assert section["trainer_data_check_passed"] is False
    assert "trainer_config_generation_success" not in section
    assert section["trainer_last_error"]["type"] == "DataError"
    assert trainer.get_training_summary(result)["final_status"] == "failed"


def test_a_bad_configuration_ends_it_after_the_data_check(place, trainer):
    place.template.write_text("steps: [\n")
    section = trainer().invoke(place.state(), CONFIG)["trainer"]
    assert section["trainer_data_check_passed"] is True
    assert section["trainer_config_generation_success"] is False
    assert "not valid YAML" in section["trainer_config_generation_error"]
    assert section["trainer_last_error"]["type"] == "ConfigError"


def test_a_failed_training_is_failed(place, trainer):
    place.template.write_text("steps: 3\nstop_at: 2\nexit_code: 1\n")
    graph = trainer()
    shown = asked(graph.invoke(place.state(), CONFIG))
    result = graph.invoke(Command(resume=shown["config_sha256"]), CONFIG)
    assert result["trainer"]["trainer_training_success"] is False
    summary = trainer.get_training_summary(result)
    assert (summary["final_status"], summary["error"]["code"]) == ("failed", "EXIT_STATUS")


def test_the_next_round_of_a_state_is_a_version_of_its_own(place):
    trainer = TrainerAgent(checkpointer=InMemorySaver(), auto_approve=True)
    first = trainer().invoke(place.state(), CONFIG)
    second = trainer().invoke({"output_dir": first["output_dir"], "trainer": first["trainer"]}, CONFIG)
    assert trainer.get_training_summary(second)["final_status"] == "completed"
    versions = [one["trainer"]["trainer_version_id"] for one in (first, second)]
    assert versions[0] != versions[1]
    assert run_of(second).version_id == versions[1]


def test_a_task_of_the_store_needs_no_state_and_its_rounds_are_written_back(place, monkeypatch):
    store = LoopAI(place.root / "loopai.db")
    store.add_task("stored_task", place.state())
    monkeypatch.setenv("DB_PATH", str(store.path))
    monkeypatch.setenv("TASK_ID", "stored_task")
    monkeypatch.setenv("OUTPUT_DIR", str(place.root / "outputs"))
    trainer = TrainerAgent(checkpointer=InMemorySaver(), auto_approve=True)
    rounds = [trainer().invoke({"trainer": {}}, CONFIG) for _ in range(2)]
    assert [trainer.get_training_summary(one)["final_status"] for one in rounds] == ["completed"] * 2
    versions = [one["trainer"]["trainer_version_id"] for one in rounds]
    assert len(set(versions)) == 2
    assert store.runtimes("stored_task") == [("trainer", version, "completed") for version in versions]
    assert {run_of(one).task.path for one in rounds} == {str(place.root / "outputs" / "stored_task")}


def test_what_is_missing_is_the_configers_business(place, trainer):
    result = trainer().invoke(place.state(train_input_model_name=None, train_input_dataset_path="/path/to/x"), CONFIG)
    missing = ["train_input_dataset_path", "train_input_model_name"]
    assert sorted(result["trainer"]["trainer_missing_fields"]) == missing
    assert (result["exception"], result["next_to"]) == ("ConfigerError", "config_node")
    assert sorted(result["configer"]["configer_error"]) == missing
    summary = trainer.get_training_summary(result)
    assert (summary["final_status"], sorted(summary["missing_fields"])) == ("missing_fields", missing)
    assert not (place.root / "outputs").exists()


def parent_graph(agent, configer):
    """LoopAI's Starter in small: the trainer is a node of it, and the Configer another."""
    parent = StateGraph(TrainerGraphState, context_schema=TrainerGraphContext)
    parent.add_node("trainer_node", agent())
    parent.add_node("config_node", configer)
    parent.add_edge(START, "trainer_node")
    parent.add_edge("config_node", "trainer_node")
    parent.add_edge("trainer_node", END)
    return parent.compile(checkpointer=InMemorySaver(), store=InMemoryStore())


def test_a_parent_graph_fills_in_and_comes_back(place):
    seen = []

    def configer(state):
        seen.append((state["exception"], state["configer"]["configer_error"]))
        return {"trainer": {**state["trainer"], "train_input_model_name": str(place.model)}}

    graph = parent_graph(TrainerAgent(), configer)
    state = place.state(train_input_model_name=None)
    result = graph.invoke(state, CONFIG, context={"exception_navigate": "config_node"})
    assert seen == [("ConfigerError", ["train_input_model_name"])]
    shown = asked(result)
    context = {"exception_navigate": "config_node"}
    result = graph.invoke(Command(resume=shown["config_sha256"]), CONFIG, context=context)
    assert TrainerAgent().get_training_summary(result)["final_status"] == "completed"
    assert starts(result) == 1


def test_a_graph_that_died_while_training_attaches_to_it(place, trainer, monkeypatch):
    hold = place.root / "hold"
    hold.touch()
    place.template.write_text(f"steps: 3\nhold_file: {hold}\n")
    graph = trainer()
    shown = asked(graph.invoke(place.state(), CONFIG))

    def dies(self, data):
        if data["status"] == "running" and data.get("training_started"):
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(agent_rounds.StepProgress, "__call__", dies)
        with pytest.raises(KeyboardInterrupt):
            graph.invoke(Command(resume=shown["config_sha256"]), CONFIG)
    assert graph.get_state(CONFIG).next == ("training_execution",)
    hold.unlink()
    result = trainer().invoke(None, CONFIG)
    assert trainer.get_training_summary(result)["final_status"] == "completed"
    assert starts(result) == 1


def test_it_runs_in_an_event_loop_too(place, trainer):
    async def whole():
        graph = trainer()
        shown = asked(await graph.ainvoke(place.state(), CONFIG))
        return await graph.ainvoke(Command(resume=shown["config_sha256"]), CONFIG)

    assert trainer.get_training_summary(asyncio.run(whole()))["final_status"] == "completed"


def test_without_langgraph_it_says_how_to_get_it():
    code = "import sys; sys.modules['langgraph'] = None\nfrom loopai_trainer import TrainerAgent"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'loopai-trainer[langgraph]'" in done.stderr.splitlines()[-1]
