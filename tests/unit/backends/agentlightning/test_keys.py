import pytest
from fakes.agent_plans import base

from loopai_trainer.backends.agentlightning import keys


@pytest.mark.parametrize("stage", ["dev", "apo"])
def test_the_bundled_templates_have_no_problem(stage, tmp_path):
    assert list(keys.problems(base(stage, tmp_path), {})) == []


@pytest.mark.parametrize(
    ("changed", "code", "field", "said"),
    [
        ({"agnet": {}}, "UNKNOWN_KEY", "agnet", "did you mean agent?"),
        ({"learning_rate": 1}, "UNKNOWN_KEY", "learning_rate", "keys are"),
        ({"algorithm": {"name": "baseline", "max_queue": 1}}, "UNKNOWN_KEY", "algorithm.max_queue", "max_queue_length"),
        ({"algorithm": "bseline"}, "COMPONENT_UNKNOWN", "algorithm", "baseline"),
        ({"algorithm": 3}, "COMPONENT_INVALID", "algorithm", "write a name"),
        ({"tracer": {"file": "t.py"}}, "COMPONENT_INVALID", "tracer", "add name"),
        ({"strategy": {"name": "cs", "port": 80}}, "WRONG_TYPE", "strategy.port", "correct"),
        ({"strategy": {"name": "cs", "n_runners": 0}}, "WRONG_TYPE", "strategy.n_runners", "correct"),
        ({"limits": {"rollout_s": 0}}, "WRONG_TYPE", "limits.rollout_s", "correct"),
        ({"limits": {"llm_calls": True}}, "WRONG_TYPE", "limits.llm_calls", "correct"),
        ({"limits": 3}, "WRONG_TYPE", "limits", "it holds"),
        ({"resources": []}, "WRONG_TYPE", "resources", "write name"),
        ({"resources": {"prompt": "text"}}, "RESOURCE_INVALID", "resources.prompt", "prompt_template"),
        ({"resources": {"m": {"type": "llm", "model": "x"}}}, "RESOURCE_INVALID", "resources.m", "endpoint"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, changed, code, field, said):
    (problem,) = keys.problems(base("dev", tmp_path, **changed), {field: 7})
    assert (problem.severity, problem.code, problem.field, problem.line) == ("error", code, field, 7)
    assert said in problem.hint


@pytest.mark.parametrize("old", list(keys.OLD_NAMES))
def test_an_old_name_warns_and_says_the_present_one(tmp_path, old):
    (problem,) = keys.problems(base("dev", tmp_path, **{old: {} if old == "triplet_exporter" else 1}), {})
    assert (problem.severity, problem.code) == ("warning", "OLD_NAME")
    assert keys.OLD_NAMES[old] in problem.message


def test_an_old_name_beside_the_present_one_is_told_to_count_for_nothing(tmp_path):
    both = base("dev", tmp_path, n_workers=4, strategy={"name": "client_server", "n_runners": 1})
    (problem,) = keys.problems(both, {})
    assert "it is not read, since strategy.n_runners is given too" in problem.message
    alone = base("dev", tmp_path, n_workers=4, strategy={"name": "client_server"})
    assert [one.message for one in keys.problems(alone, {})] == [
        "'n_workers' is an old name: it is read as strategy.n_runners"
    ]


def test_code_of_the_users_and_dotted_paths_are_left_to_their_environment(tmp_path):
    native = base(
        "dev",
        tmp_path,
        algorithm={"file": "a.py", "name": "Mine", "anything": 1},
        tracer="my_package.tracing:Tracer",
        resources={"model": {"type": "llm", "model": "m", "endpoint": "http://127.0.0.1:1/v1"}},
    )
    assert list(keys.problems(native, {})) == []


def test_something_in_a_file_is_not_called_like_a_registered_part(tmp_path):
    (problem,) = keys.problems(base("dev", tmp_path, algorithm={"file": "a.py", "name": "verl"}), {})
    assert (problem.code, problem.field, problem.hint) == ("COMPONENT_INVALID", "algorithm", "call it otherwise there")


def test_kinds_of_values():
    assert keys.fits("port", 0) and keys.fits("port", 4747) and not keys.fits("port", 1023)
    assert keys.fits("number", 0.5) and not keys.fits("number", float("nan")) and not keys.fits("number", False)
    assert keys.fits("whole", 0) and not keys.fits("count", 0) and not keys.fits("count", 1.5)
    assert keys.fits("bool", False) and not keys.fits("text", " ")
