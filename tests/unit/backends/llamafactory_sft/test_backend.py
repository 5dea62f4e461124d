from fakes.llamafactory_env import make_environment
from fakes.sft_plans import make_paths, make_plan

from loopai_trainer import backends
from loopai_trainer.host.environments import resolve
from loopai_trainer.records import Checkpoint, Host, Row, Settings
from loopai_trainer.rules import plan as plans

BACKEND = backends.get("llamafactory", "sft")


def test_every_answer_of_the_contract_is_given(tmp_path):
    versions = BACKEND.probe(resolve(str(make_environment(tmp_path / "env")), "llamafactory", {}))
    plan = make_plan(tmp_path / "run")
    assert BACKEND.template_problems(plan.native, {}, versions) == []
    assert [p.code for p in BACKEND.check(plan, versions, Host((), 1, 10**12))] == ["NO_DEVICE"]
    assert BACKEND.launch_problems(plan) == [] and BACKEND.red_flags(plan) == []
    assert BACKEND.summary(plan)["total_steps"] == 40
    assert (
        BACKEND.launch(plans.approve(plan.text.encode(), plan.sha256), make_paths(tmp_path), {}).main.argv[2] == "train"
    )
    assert BACKEND.expected_examples(plan)["train_examples"] == 90
    assert BACKEND.read_metrics([b"x"]) == [] and BACKEND.read_log(["x"]) == []
    assert BACKEND.metrics_file(make_paths(tmp_path)).endswith("trainer_log.jsonl")
    assert BACKEND.find_checkpoints(str(tmp_path)) == [] and not BACKEND.final_artefact(str(tmp_path)).loadable
    assert BACKEND.selection(plan) == (None, None) and BACKEND.explain_failure([]) is None
    assert BACKEND.export(plan, Checkpoint("checkpoint-1", 1, "/c", True), "/d") is None
    assert BACKEND.owned_keys()["output_dir"].startswith("--output-dir")
    assert BACKEND.file_keys() == ("deepspeed", "fsdp_config", "accelerator_config")


def test_rows_are_judged_by_the_rules():
    row = {"instruction": "q", "input": "", "output": "a"}
    name, check = BACKEND.row_check(Settings({}, {}), [row])
    assert name == "alpaca"
    assert isinstance(check(row, 1), Row)


def test_fields_carry_the_names_of_the_specification():
    fields = {field.name: field for field in BACKEND.fields()}
    assert fields["llamafactory_env_path"].env == ("LLAMAFACTORY_ENV_PATH",)
    assert fields["llamafactory_dir"].flag == "--backend-dir"


def test_the_environment_is_pinned():
    spec = BACKEND.environment_spec()
    constraints = [line for line in spec.constraints.splitlines() if not line.startswith("#")]
    assert set(spec.requirements) <= set(constraints)
    assert all("==" in line and "@" not in line for line in constraints)
    compile(spec.smoke, "smoke", "exec")
