from fakes.agent_plans import plan

from loopai_trainer.backends.agentlightning.view import red_flags, summary


def test_everything_that_decides_is_shown(tmp_path):
    shown = summary(plan("apo", tmp_path))
    assert shown["agent"] == f"solve in {tmp_path / 'agent.py'}"
    assert (shown["train_tasks"], shown["validation_tasks"]) == (4, 2)
    assert shown["resource prompt"] == "'Question: {q}'"
    assert shown["strategy"] == "client_server (n_runners 2, port 0)"
    assert shown["optimiser_endpoint"] == "https://api.openai.com/v1"
    assert shown["api_key"] == "from the variable OPENAI_API_KEY"
    assert shown["limit llm_calls"] == 200
    assert shown["selection_metric"] == "val/score (max)"


def test_the_agent_is_always_a_red_flag_and_other_code_and_endpoints_are(tmp_path):
    made = plan(
        "apo",
        tmp_path,
        tracer="my.package:Tracer",
        adapter={"file": str(tmp_path / "x.py"), "name": "Mine"},
        strategy={"name": "cs", "port": 4747},
    )
    said = [problem.message for problem in red_flags(made)]
    assert any("the agent is code of your own" in one for one in said)
    assert any("the tracer is code of your own: my.package:Tracer" in one for one in said)
    assert any("the adapter is code of your own: Mine" in one for one in said)
    assert any("sent to api.openai.com" in one for one in said)
    assert any("fixed port 4747" in one for one in said)
    assert any("OPENAI_API_KEY" in one for one in said)


def test_a_loopback_endpoint_is_no_red_flag_and_agentops_is_one(tmp_path):
    made = plan("apo", tmp_path, llm={"base_url": "http://127.0.0.1:8000/v1"}, tracer="agentops")
    said = [problem.message for problem in red_flags(made)]
    assert not any("sent to" in one for one in said)
    assert any("agentops" in one for one in said)
