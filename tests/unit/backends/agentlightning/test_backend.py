import json

import pytest
from fakes.agent_plans import plan

from loopai_trainer import backends
from loopai_trainer.backends.agentlightning import keys, ports, rehearsal
from loopai_trainer.contract import Backend, Judges, MarksLog, TriesOut
from loopai_trainer.errors import BackendMissing, ConfigError
from loopai_trainer.records import DataReport, LaunchPaths, Settings, Versions

PATHS = LaunchPaths("/run", "/run/launch", "/run/checkpoints", "/run/metrics", "/run/cache", "/tmp/x", "/run/inputs")


@pytest.mark.parametrize("stage", ["dev", "apo", "grpo"])
def test_each_stage_is_a_whole_backend(stage):
    backend = backends.get("agentlightning", stage)
    assert isinstance(backend, Backend) and isinstance(backend, Judges)
    assert isinstance(backend, MarksLog) and isinstance(backend, TriesOut)
    assert backend.stages == (stage,)
    assert backend.needs_model == (stage == "grpo")
    assert backend.environment_spec().name == "agentlightning"


def test_a_model_is_asked_for_only_where_one_is_trained():
    required = {
        stage: {field.name for field in backends.get("agentlightning", stage).fields() if field.required}
        for stage in ("dev", "grpo")
    }
    assert required["dev"] == required["grpo"] == {"train_input_dataset_path"}
    names = {field.name for field in backends.get("agentlightning", "grpo").fields()}
    assert "train_input_model_name" not in names  # the general field, which is required, stands


def test_chats_are_refused():
    with pytest.raises(ConfigError):
        backends.get("agentlightning", "dev").row_check(Settings({}, {}), [])


def test_only_a_prompt_search_passes_a_key():
    settings = Settings({"agentlightning_api_key_env": "OPENAI_API_KEY", "CUDA_VISIBLE_DEVICES": "0"}, {})
    assert backends.get("agentlightning", "apo").launch_env(settings, "/run") == ({}, ("OPENAI_API_KEY",))
    assert backends.get("agentlightning", "dev").launch_env(settings, "/run") == ({}, ())
    assert backends.get("agentlightning", "dev").placement(settings, {}).devices == ""
    assert backends.get("agentlightning", "grpo").placement(settings, {}).devices == "0"


def test_selection_is_the_plans():
    made = backends.get("agentlightning", "apo")
    assert made.result_block(Settings({}, {}), DataReport((), (), {}))["selection_metric"] == "val/score"


def test_a_fixed_port_that_is_taken_is_told_at_the_launch(tmp_path):
    import socket

    assert ports.launch_problems(plan("dev", tmp_path)) == []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        (problem,) = ports.launch_problems(plan("dev", tmp_path, strategy={"name": "cs", "port": port}))
    assert (problem.code, problem.field) == ("NO_PORT", "strategy.port")


def test_the_rehearsal_asks_for_every_part(tmp_path):
    made = plan("dev", tmp_path)
    question = rehearsal.rehearse(made, PATHS)
    assert question.command.argv[-1].endswith("inside/agl_rehearse.py")
    asked = json.loads(question.stdin)
    assert asked["native"] == made.native
    assert asked["files"] == {str(tmp_path / "agent.py"): made.loopai["inputs"]["files"][0]["sha256"]}
    answer = {"problems": [{"code": "AGENT_BROKEN", "message": "m", "field": "agent"}], "summary": {"agent_kind": "x"}}
    found = rehearsal.rehearsed(json.dumps(answer).encode())
    assert (found.problems[0].code, found.summary) == ("AGENT_BROKEN", {"agent_kind": "x"})
    assert "copy in inputs/" in found.problems[0].hint
    with pytest.raises(BackendMissing):
        rehearsal.rehearsed(b"[]")


def test_a_dev_run_is_baseline_on_a_few_tasks(tmp_path):
    made = plan("apo", tmp_path, validation=30)
    found = backends.get("agentlightning", "apo").dev_plan(made, None)
    assert found.native["algorithm"]["name"] == "baseline"
    assert "llm" not in found.native and "llm" in made.native
    assert (found.rows, found.steps) == ({"train": 4, "validation": 8}, 12)
    assert found.not_shown


def test_the_names_that_are_checked_are_the_names_that_are_built():
    import ast
    import os

    path = os.path.join(os.path.dirname(keys.__file__), "inside", "agl_parts.py")
    with open(path) as file:
        tree = ast.parse(file.read())
    built = next(node for node in tree.body if isinstance(node, ast.AnnAssign) and node.target.id == "NAMES")
    names = {kind: set(found) for kind, found in ast.literal_eval(built.value).items()}
    here = {kind: set(found) - {"none", "external", "split"} for kind, found in keys.REGISTERED.items()}
    assert names == here


def test_what_is_wrong_already_is_told_without_asking_the_environment(tmp_path):
    backend = backends.get("agentlightning", "dev")
    versions = Versions("agentlightning", "0.3.0", "3.11.7", "", {}, "0" * 64)
    assert backend.rehearse(plan("dev", tmp_path), versions, PATHS) is not None
    assert backend.rehearse(plan("dev", tmp_path, agent=None), versions, PATHS) is None
    assert backend.rehearse(plan("dev", tmp_path, tracer="unknown"), versions, PATHS) is None
    edited = plan("dev", tmp_path)
    edited.values["agent"]["file"] = str(tmp_path / "other.py")
    (tmp_path / "other.py").write_text("def solve(): ...\n")
    assert backend.rehearse(edited, versions, PATHS) is None  # nobody has hashed what it would import
    assert [problem.code for problem in backend.check(plan("dev", tmp_path, agent=None), versions, None)] == [
        "AGENT_MISSING"
    ]
