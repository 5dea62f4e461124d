import json

import pytest
from fakes.agent_plans import plan

from loopai_trainer.backends.agentlightning import coverage, launch
from loopai_trainer.records import ApprovedPlan, LaunchPaths

PATHS = LaunchPaths(
    "/run", "/run/launch", "/run/checkpoints", "/run/metrics", "/run/launch/cache", "/tmp/x", "/run/inputs"
)


def built(made, inherited=None):
    return launch.build_launch(ApprovedPlan(made, made.sha256), PATHS, inherited or {})


def test_the_driver_gets_the_approved_keys_and_nothing_else(tmp_path):
    made = plan("dev", tmp_path)
    found = built(made)
    assert found.main.argv == (
        "/env/bin/python",
        "-I",
        "-B",
        "/run/inputs/agl_main.py",
        "/run/launch/agl_plan.json",
        "all",
    )
    assert found.helpers == ()
    document = json.loads(found.files["agl_plan.json"])
    assert document["native"] == made.native
    assert document["paths"]["metrics"] == "/run/metrics/agentlightning_metrics-1.jsonl"


def test_split_roles_are_main_and_helpers(tmp_path):
    found = built(plan("dev", tmp_path, strategy={"name": "split", "n_runners": 2}))
    assert [one.argv[-1] for one in (found.main, *found.helpers)] == ["algorithm", "store", "runner"]
    roles = [one.env.get("AGL_CURRENT_ROLE") for one in (found.main, *found.helpers)]
    assert roles == ["algorithm", None, "runner"]
    assert found.main.env["AGL_MANAGED_STORE"] == "0"


def test_what_would_change_the_run_does_not_reach_it(tmp_path):
    outside = {
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": "http://elsewhere",
        "PYTHONPATH": "/x",
        "AGL_CURRENT_ROLE": "runner",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://elsewhere",
        "HOME": "/home/x",
    }
    env = built(plan("apo", tmp_path), outside).main.env
    assert env["OPENAI_API_KEY"] == "k"
    assert env["OPENAI_BASE_URL"] == "https://api.openai.com/v1"
    assert env["HOME"] == "/run/launch/cache"
    assert env["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
    assert not {"PYTHONPATH", "AGL_CURRENT_ROLE", "OTEL_EXPORTER_OTLP_ENDPOINT"} & set(env)


def test_a_key_that_nobody_passes_does_not_reach_it(tmp_path):
    assert "OPENAI_API_KEY" not in built(plan("dev", tmp_path), {"OPENAI_API_KEY": "k"}).main.env


def test_the_driver_knows_which_files_may_run_and_which_values_are_secret(tmp_path):
    made = plan("apo", tmp_path, launch={"pass_env": ["OPENAI_API_KEY", "HF_TOKEN", "HTTPS_PROXY", "OMP_NUM_THREADS"]})
    document = json.loads(built(made).files["agl_plan.json"])
    assert list(document["files"]) == [str(tmp_path / "agent.py")]
    assert document["secrets"] == ["HF_TOKEN", "OPENAI_API_KEY"]


@pytest.mark.parametrize("stage", ["dev", "apo", "grpo"])
def test_the_driver_is_copied_whole(stage):
    files = coverage.input_files(stage)
    for name, path in files.items():
        with open(path) as file:
            assert file.read(), name
    assert ("agl_prompts.py" in files) == (stage == "apo")
    assert "components.py" in files
