import pytest
from fakes.grpo_plans import HOST, errors, findings, make_plan, warnings
from fakes.verl_trees import make_verl, versions_of

from loopai_trainer.backends.verl_grpo.check import check
from loopai_trainer.errors import BackendMissing


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def test_errors_stand_first(run):
    found = findings(run, changes={"trainer.max_actor_ckpt_to_keep": 1, "actor_rollout_ref.rollout.n": 1})
    severities = [problem.severity for problem in found]
    assert severities == sorted(severities) and set(severities) == {"error", "warning"}


def test_the_same_plan_gives_the_same_findings(run):
    changes = {"actor_rollout_ref.rollout.n": 1, "trainer.save_freq": 4}
    assert findings(run, changes=changes) == findings(run, changes=changes)


@pytest.mark.parametrize(
    ("launch", "code"),
    [
        ({"executor": "slurm"}, "EXECUTOR_UNKNOWN"), ({"nproc_per_node": 2}, "PROCESSES_INVALID"),
        ({"env": {"LD_PRELOAD": "/x.so"}}, "ENV_NOT_ALLOWED"), ({"host_env": {"LD_PRELOAD": "/x.so"}}, "ENV_NOT_ALLOWED"),
    ],
)  # fmt: skip
def test_how_training_is_started(run, launch, code):
    assert errors(run, launch=launch) == [code]


def test_a_version_that_was_never_tried(run):
    assert errors(run, version="0.7.0") == ["BACKEND_UNTRIED"]
    assert warnings(run, version="0.11.0") == ["BACKEND_UNTRIED"]


def test_a_damaged_model_is_told(run):
    findings(run)
    (run.parent / "model" / "model.safetensors").write_bytes(b"x")
    plan = make_plan(run, model=run.parent / "model")
    found = check(plan, versions_of(run.parent / "verl-0.9" / "verl"), HOST)
    assert [problem.code for problem in found if problem.severity == "error"] == ["WEIGHTS_DAMAGED"]


def test_a_verl_without_its_tree_is_a_broken_backend(run):
    package = make_verl(run.parent / "broken")
    (package / "trainer" / "config" / "_generated_ppo_trainer.yaml").unlink()
    with pytest.raises(BackendMissing):
        check(make_plan(run), versions_of(package), HOST)
