import pytest
from fakes.agent_plans import plan

from loopai_trainer.backends.agentlightning import check as rules
from loopai_trainer.records import Versions

VERSIONS = Versions("agentlightning", "0.3.0", "3.11.7", "", {}, "0" * 64)


def check(made):
    return rules.check(made, VERSIONS)


@pytest.mark.parametrize("stage", ["dev", "apo"])
def test_a_good_plan_has_no_problem(stage, tmp_path):
    assert check(plan(stage, tmp_path)) == []


SEED = {"prompt": {"template": "x"}}
CASES = [
    ("dev", {"agent": None}, "AGENT_MISSING", "--set agent.file"),
    ("dev", {"algorithm": "apo"}, "ALGORITHM_NOT_FAST", "--stage apo"),
    ("dev", {"algorithm": "verl"}, "ALGORITHM_NOT_FAST", "--stage grpo"),
    ("apo", {"algorithm": "verl"}, "ALGORITHM_INVALID", "use apo"),
    ("dev", {"strategy": {"name": "shm", "n_runners": 2}}, "RUNNERS_INVALID", "client_server"),
    ("dev", {"strategy": "my.package:Strategy"}, "STRATEGY_INVALID", "client_server"),
    ("dev", {"store": "external"}, "STORE_INVALID", "memory"),
    ("dev", {"strategy": "split", "store": "memory"}, "STORE_INVALID", "set both"),
    ("dev", {"limits": {"wall_s": None}}, "LIMIT_MISSING", "seconds"),
    ("apo", {"resources": {}}, "PROMPT_MISSING", "resources"),
    ("apo", {"resources": {**SEED, "other": {"template": "y"}}}, "PROMPT_MISSING", "resources"),
    ("apo", {"llm": {"base_url": "api.example.org"}}, "ENDPOINT_MISSING", "http"),
]


@pytest.mark.parametrize(("stage", "changed", "code", "said"), CASES)
def test_what_cannot_work_is_refused(tmp_path, stage, changed, code, said):
    found = check(plan(stage, tmp_path, **changed))
    assert [problem.code for problem in found] == [code]
    assert said in found[0].hint and found[0].severity == "error"


def test_shared_memory_with_more_runners_says_why(tmp_path):
    (problem,) = check(plan("dev", tmp_path, strategy={"name": "shm", "n_runners": 2}))
    assert "An active tracer is already set" in problem.message


def test_a_prompt_search_without_validation_tasks_is_refused(tmp_path):
    made = plan("apo", tmp_path)
    del made.values["tasks"]["validation"]
    assert [problem.code for problem in check(made)] == ["VALIDATION_MISSING"]


@pytest.mark.parametrize(
    ("launch", "code"),
    [
        ({"pass_env": []}, "KEY_NOT_PASSED"),
        ({"devices": "0"}, "DEVICES_DIFFER"),
        ({"nproc_per_node": 2}, "PROCESSES_INVALID"),
        ({"executor": "moon"}, "EXECUTOR_UNKNOWN"),
        ({"nodes": 2}, "NODES"),
        ({"env": {"LD_PRELOAD": "x"}}, "ENV_NOT_ALLOWED"),
    ],
)
def test_the_launch_block_is_checked(tmp_path, launch, code):
    assert [problem.code for problem in check(plan("apo", tmp_path, launch=launch))] == [code]


@pytest.mark.parametrize(
    ("text", "code"),
    [("def solve(:\n", "CODE_INVALID"), ("solver = 1\n", "CODE_NAME_MISSING"), (None, "FILE_UNREADABLE")],
)
def test_the_agents_file_is_looked_into(tmp_path, text, code):
    made = plan("dev", tmp_path)
    if text is None:
        (tmp_path / "agent.py").unlink()
    else:
        (tmp_path / "agent.py").write_text(text)
    assert [problem.code for problem in check(made)] == [code]


def test_code_and_tasks_that_the_hash_does_not_cover_are_refused(tmp_path):
    made = plan("dev", tmp_path, tracer={"file": str(tmp_path / "agent.py"), "name": "solve"})
    assert check(made) == []
    made.values["agent"]["file"] = str(tmp_path / "other.py")
    (tmp_path / "other.py").write_text("def solve(): ...\n")
    made.values["tracer"]["file"] = str(tmp_path / "other.py")
    made.values["tasks"]["train"] = str(tmp_path / "other.jsonl")
    found = check(made)
    assert {(problem.code, problem.field) for problem in found} == {
        ("UNCOVERED_INPUT", "agent.file"),
        ("UNCOVERED_INPUT", "tracer.file"),
        ("UNCOVERED_INPUT", "tasks.train"),
    }


@pytest.mark.parametrize(
    "text", ["solve = 1", "solve: int = 1", "class solve: ...", "async def solve(): ...", "from x import y as solve"]
)
def test_an_agent_may_be_bound_in_any_way(tmp_path, text):
    made = plan("dev", tmp_path)
    (tmp_path / "agent.py").write_text(text + "\n")
    assert check(made) == []


def test_an_algorithm_of_the_users_own_is_looked_for_in_its_file(tmp_path):
    (tmp_path / "mine.py").write_text("class Mine: ...\n")
    spec = {"file": str(tmp_path / "mine.py"), "name": "Mine"}
    assert check(plan("dev", tmp_path, algorithm=spec)) == []
    (problem,) = check(plan("dev", tmp_path, algorithm={**spec, "name": "Yours"}))
    assert (problem.code, problem.field) == ("CODE_NAME_MISSING", "algorithm.name")
