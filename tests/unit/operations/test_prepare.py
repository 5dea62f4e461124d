import errno
import hashlib
import json
import os

import pytest
from fakes.llamafactory_env import add_distribution

from loopai_trainer.errors import BackendMissing, Busy, ConfigError, DataError, HostUnfit, SettingsError, UsageError
from loopai_trainer.host import locks
from loopai_trainer.operations import prepare as prepare_module
from loopai_trainer.rules import plan as plans


def test_what_it_answers_and_writes(place):
    answer = place.prepare()
    data = answer.data
    assert set(data) == {
        "config_path", "config_yaml", "config_sha256", "trainer_version_id", "task_id", "train_framework", "train_stage",
        "run_dir", "summary", "counts", "warnings", "diff", "next_command",
    }  # fmt: skip
    assert (answer.ok, answer.status, answer.exit_code) == (True, "prepared", 0)
    text = (place.run / "training_config.yaml").read_bytes()
    assert data["config_yaml"].encode() == text
    assert data["config_sha256"] == hashlib.sha256(text).hexdigest()
    assert data["counts"] == {
        "train": {"input": 6, "usable": 6, "rejected": 0},
        "validation": {"input": 2, "usable": 2, "rejected": 0},
    }
    assert data["next_command"] == f"trainer run-prepared {data['config_path']} --sha256 {data['config_sha256']}"
    for name in ("plan.json", "data_check_report.txt", "config_explanation.txt", "prepared_data/dataset_info.json"):
        assert (place.run / name).stat().st_size > 0
    assert not (place.run / "approval.json").exists()
    assert not (place.run / "launch").exists()


def test_modes_of_what_it_writes(place):
    place.prepare()
    assert place.run.stat().st_mode & 0o777 == 0o700
    assert (place.run / "training_config.yaml").stat().st_mode & 0o777 == 0o600
    for path in (place.run / "prepared_data").iterdir():
        assert path.stat().st_mode & 0o777 == 0o444


def test_the_plan_pins_everything_that_training_reads(place):
    plan = plans.read(place.prepare().data["config_yaml"].encode(), "x")
    pinned = {entry.path: entry.sha256 for entry in plans.inputs(plan)}
    read = {
        plan.native["dataset_dir"] + "/dataset_info.json",
        *(str(p) for p in (place.run / "prepared_data").glob("*.parquet")),
    }
    assert set(pinned) == read
    for path, sha256 in pinned.items():
        with open(path, "rb") as file:
            assert hashlib.sha256(file.read()).hexdigest() == sha256
    assert "val_size" not in plan.native
    assert plan.native["eval_dataset"] == "validation"


def test_settings_keep_their_origin_in_plan_json(place):
    place.prepare()
    settings = json.loads((place.run / "plan.json").read_text())["settings"]
    assert settings["train_input_dataset_path"] == {"value": str(place.data), "origin": "--dataset"}
    assert settings["split_seed"] == {"value": 42, "origin": "default"}


def test_set_beats_rules_and_template_and_is_explained(place):
    answer = place.prepare(["learning_rate=2e-4"], train_input_task_description="a chat bot")
    assert answer.data["summary"]["learning_rate"] == 2e-4
    assert "learning_rate: 0.0001 -> 0.0002 (--set)" in (place.run / "config_explanation.txt").read_text()
    tuned = place.prepare(train_input_task_description="a chat bot")
    assert tuned.data["summary"]["learning_rate"] == 5e-5
    assert (
        place.prepare(train_input_task_description="a chat bot", config_mode="template").data["summary"][
            "learning_rate"
        ]
        == 1e-4
    )


def test_problems_of_data_template_and_model_come_back_at_once(place):
    place.write_rows([{"instruction": "a", "output": None}, {"instruction": "b", "output": 7}])
    place.template.write_text("finetuning_type: full\ntemplate: qwen\nlearning_rte: 1.0e-4\nbf16: 'false'\n")
    with pytest.raises(DataError) as caught:
        place.prepare(train_input_model_name=str(place.root / "nowhere"))
    problems = {(problem.where, problem.code, problem.line) for problem in caught.value.problems}
    assert {
        ("template", "UNKNOWN_KEY", 3),
        ("template", "WRONG_TYPE", 4),
        ("model", "MODEL_NOT_FOUND", None),
    } <= problems
    assert {1, 2} <= {line for where, _, line in problems if where == "train"}
    assert caught.value.details["counts"]["train"]["rejected"] == 2
    assert os.path.exists(caught.value.details["report_path"])
    assert not (place.run / "training_config.yaml").exists()


def test_a_failed_prepare_may_be_repeated_under_its_version(place):
    place.write_rows([{"instruction": "a", "output": None}])
    with pytest.raises(DataError):
        place.prepare()
    place.write_rows([{"instruction": f"q{n}", "output": "a"} for n in range(8)])
    assert place.prepare().ok


def test_missing_settings_are_named_together(place):
    with pytest.raises(SettingsError) as caught:
        place.prepare(train_input_dataset_path=None, train_input_model_name="/path/to/model")
    assert [problem.field for problem in caught.value.problems] == [
        "train_input_dataset_path",
        "train_input_model_name",
    ]


@pytest.mark.parametrize("bad", ["../x", "a/b", ".hidden", "a b", "x" * 65, "-x", "é"])
@pytest.mark.parametrize("name", ["task_id", "trainer_version_id"])
def test_ids_that_could_leave_the_folder_are_refused(place, name, bad):
    with pytest.raises(SettingsError, match="is not an id"):
        place.prepare(**{name: bad})
    assert not (place.root / "outputs").exists()


def test_a_mixed_pair_is_refused(place):
    with pytest.raises(SettingsError, match="grpo"):
        place.prepare(train_framework="llamafactory", train_stage="grpo")


@pytest.mark.parametrize("file", ["approval.json", "run_state.json", "worker_result.json", "launch/started"])
def test_a_version_that_is_more_than_prepared_is_never_touched(place, file):
    place.prepare()
    before = (place.run / "training_config.yaml").read_bytes()
    (place.run / file).parent.mkdir(exist_ok=True)
    (place.run / file).write_text("{}")
    with pytest.raises(Busy) as caught:
        place.prepare(["learning_rate=5e-5"])
    assert caught.value.exit_code == 7
    assert (place.run / "training_config.yaml").read_bytes() == before


def test_a_version_that_somebody_works_on_is_busy(place):
    place.prepare()
    lock = locks.try_exclusive(str(place.run / "run.lock"))
    try:
        with pytest.raises(Busy):
            place.prepare()
    finally:
        os.close(lock)
    assert place.prepare().ok


def test_an_output_folder_that_cannot_be_made(place):
    (place.root / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot be written"):
        place.prepare(output_dir=str(place.root / "file" / "below"))


def test_no_environment_is_a_clear_exit_69(place):
    for name in (None, str(place.root / "no-env")):
        with pytest.raises(BackendMissing) as caught:
            place.prepare(llamafactory_env_path=name)
        assert caught.value.exit_code == 69
        assert "trainer setup llamafactory" in caught.value.hint


def test_a_prepared_yaml_is_no_template(place):
    text = place.prepare().data["config_yaml"]
    place.template.write_text(text)
    with pytest.raises(ConfigError, match="is not a template"):
        place.prepare(trainer_version_id="v2")


def test_a_run_directory_of_ones_own(place):
    answer = place.prepare(trainer_output_dir=str(place.root / "mine"), trainer_version_id="v7")
    assert answer.data["run_dir"] == str(place.root / "mine")
    assert answer.data["trainer_version_id"] == "v7"


def test_small_inputs_are_copied_and_pinned(place):
    deepspeed = place.root / "ds.json"
    deepspeed.write_text('{"zero_optimization": {"stage": 2}}')
    place.template.write_text(place.template.read_text() + f"deepspeed: {deepspeed}\n")
    with pytest.raises(ConfigError) as caught:
        place.prepare()
    assert [problem.code for problem in caught.value.problems] == ["PACKAGE_MISSING"]
    add_distribution(next(place.env.glob("lib/*/site-packages")), "deepspeed", "0.17.0")
    plan = plans.read(place.prepare().data["config_yaml"].encode(), "x")
    copy = place.run / "inputs" / "deepspeed.json"
    assert plan.native["deepspeed"] == str(copy)
    assert copy.read_bytes() == deepspeed.read_bytes()
    assert copy.stat().st_mode & 0o777 == 0o444
    assert hashlib.sha256(copy.read_bytes()).hexdigest() in [entry.sha256 for entry in plans.inputs(plan)]


def test_a_small_input_is_found_beside_its_template_and_refused_if_it_is_nowhere(place):
    add_distribution(next(place.env.glob("lib/*/site-packages")), "deepspeed", "0.17.0")
    place.template.write_text(place.template.read_text() + "deepspeed: ds_local.json\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        place.prepare()
    (place.root / "ds_local.json").write_text('{"zero_optimization": {"stage": 2}}')
    assert place.prepare().ok


@pytest.mark.parametrize(
    ("key", "instead"),
    [("output_dir", "--output-dir"), ("model_name_or_path", "--model"), ("dataset", "--dataset"), ("stage", "--stage")],
)
def test_a_key_that_the_launcher_owns_cannot_be_set(place, key, instead):
    with pytest.raises(UsageError, match=f"--set {key}") as caught:
        place.prepare([f"{key}=mine"])
    assert instead in caught.value.hint
    assert not (place.root / "outputs").exists()


def test_a_templates_own_value_for_such_a_key_is_said_not_to_be_used(place):
    place.template.write_text(place.template.read_text() + "model_name_or_path: some/model\nstage: sft\n")
    place.prepare()
    notes = json.loads((place.run / "plan.json").read_text())["notes"]
    assert [note for note in notes if "not used" in note] == [
        "the template's model_name_or_path ('some/model') is not used; what sets it: --model"
    ]
    assert "model_name_or_path ('some/model') is not used" in (place.run / "config_explanation.txt").read_text()


def test_a_problem_of_a_set_value_names_no_line_of_the_template(place):
    place.template.write_text(place.template.read_text() + "bf16: false\n")
    with pytest.raises(ConfigError) as caught:
        place.prepare(["bf16=maybe", "learning_rte=1"])
    found = {problem.field: problem for problem in caught.value.problems}
    assert set(found) == {"bf16", "learning_rte"}
    assert {(problem.path, problem.line, problem.origin) for problem in found.values()} == {(None, None, "--set")}
    assert caught.value.message.startswith("--set: ")


@pytest.mark.parametrize("value", ["1e999", ".nan", "-.inf", "{a: [1e999]}"])
def test_a_number_that_is_none_is_a_usage_error(place, value):
    with pytest.raises(UsageError, match="not a finite number"):
        place.prepare([f"learning_rate={value}"])
    place.template.write_text(place.template.read_text() + f"weight_decay: {value}\n")
    with pytest.raises(ConfigError, match=r"template\.yaml:9: weight_decay is not a finite number"):
        place.prepare()


def test_a_setting_that_nobody_reads_stands_in_the_warnings(place):
    from loopai_trainer.operations.prepare import prepare

    request = place.request()._replace(state={"trainer": {"bad_row": "skip"}})
    warnings = prepare(request).data["warnings"]
    assert [w["field"] for w in warnings if w["code"] == "SETTING_UNKNOWN"] == ["bad_row"]


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, "DISK_FULL"), (errno.EROFS, "NOT_WRITABLE")])
def test_a_disk_that_takes_no_more_is_said(place, monkeypatch, number, code):
    write = prepare_module.atomic.write_text

    def full(path, *more):
        if path.endswith("training_config.yaml"):
            raise OSError(number, os.strerror(number), path)
        write(path, *more)

    monkeypatch.setattr(prepare_module.atomic, "write_text", full)
    with pytest.raises(HostUnfit) as caught:
        place.prepare()
    assert (caught.value.code, caught.value.exit_code) == (code, 9)
    assert not (place.run / "training_config.yaml").exists()


def test_devices_that_a_flag_names_for_a_cpu_plan_are_not_dropped_in_silence(place):
    found = [
        one for one in place.prepare(CUDA_VISIBLE_DEVICES="9").data["warnings"] if one["code"] == "DEVICES_NOT_USED"
    ]
    assert [one["message"] for one in found] == ["--devices names devices (9), and this plan takes none"]
    place.environ["CUDA_VISIBLE_DEVICES"] = "9"  # how this host is set up, and no wish
    warnings = place.prepare(trainer_version_id="v2").data["warnings"]
    assert not [one for one in warnings if one["code"] == "DEVICES_NOT_USED"]


@pytest.mark.parametrize("name", ["master_port", "master_addr"])
def test_where_ranks_of_several_hosts_meet_is_not_dropped_in_silence_either(place, name):
    value = "29555" if name == "master_port" else "10.0.0.1"
    found = [one for one in place.prepare(**{name: value}).data["warnings"] if one["code"] == "SETTING_NOT_USED"]
    assert [one["message"] for one in found] == [
        f"{name} {value} (from --option {name}) is for several hosts without a cluster, and this plan is none"
    ]


class TestWhatIsNotKept:
    def test_a_value_of_set_stays_or_is_refused_and_is_never_replaced(self, place):
        data = place.prepare(overrides=["logging_steps=2"]).data  # of three steps: the template's would become 1
        assert "\nlogging_steps: 2\n" in data["config_yaml"]
        assert not [one for one in data["warnings"] if one["code"] == "VALUE_NOT_KEPT"]
        with pytest.raises(ConfigError) as refused:
            place.prepare(overrides=["logging_steps=9"], trainer_version_id="v2")
        assert [problem.code for problem in refused.value.problems] == ["NO_LOSS_LINE"]

    def test_one_that_has_to_be_another_is_warned_of_and_explained(self, place):
        data = place.prepare(overrides=["eval_strategy='no'"]).data
        (found,) = [one for one in data["warnings"] if one["code"] == "VALUE_NOT_KEPT"]
        assert found["message"] == "--set eval_strategy ('no') is not kept: the plan has 'steps'"
        assert (
            "'steps' (--set, then adjusted to data and devices)" in (place.run / "config_explanation.txt").read_text()
        )

    def test_one_of_the_template_is_noted(self, place):
        place.template.write_text(place.template.read_text() + "logging_steps: 50\n")
        data = place.prepare().data
        assert "\nlogging_steps: 1\n" in data["config_yaml"]
        assert (
            "Note: the template's logging_steps (50) became 1\n" in (place.run / "config_explanation.txt").read_text()
        )
