"""The Python API keeps the specification's names and shapes, and raises for nothing that a user can cause."""

import inspect
import os

import pytest

import loopai_trainer


@pytest.fixture
def environ(place, monkeypatch):
    for name, value in place.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(place.root)
    return place


def state_of(place, **trainer):
    return {
        "task_id": "api_task",
        "output_dir": str(place.root / "outputs"),
        "trainer": {
            "train_framework": "llamafactory",
            "llamafactory_env_path": str(place.env),
            "train_input_dataset_path": str(place.data),
            "train_input_model_name": str(place.model),
            "train_input_task_description": "SFT a helper",
            "train_input_config_template_path": str(place.template),
            **trainer,
        },
    }


def test_the_public_names_are_pinned():
    assert sorted(loopai_trainer.__all__) == [
        "ConfigGenerator", "__version__", "analyze_results", "dev", "get_configer_task_state_config",
        "inspect_prepared_config", "load_events", "prefill_guide", "prepare", "recover", "run",
        "run_prepared", "select_best_checkpoint", "update_configer_task_state_config",
    ]  # fmt: skip
    assert set(loopai_trainer.__all__) <= set(dir(loopai_trainer))
    assert list(inspect.signature(loopai_trainer.run_prepared).parameters)[:4] == [
        "prepared_config_path", "expected_config_sha256", "thread_id", "version_id",
    ]  # fmt: skip
    with pytest.raises(AttributeError):
        loopai_trainer.nothing  # noqa: B018 - the access is the test


def test_prepare_and_inspect(environ):
    result = loopai_trainer.prepare(state=state_of(environ), thread_id="thread", version_id="v1")["trainer"]
    data = result["trainer_result"]["data"]
    assert result["trainer_last_error"] is None
    assert (result["trainer_version_id"], data["task_id"]) == ("v1", "api_task")
    assert result["trainer_output_dir"] == str(environ.root / "outputs" / "api_task" / "trainer" / "v1")
    again = loopai_trainer.inspect_prepared_config(data["config_path"])["trainer"]["trainer_result"]
    assert again["ok"] is True
    assert again["data"]["config_sha256"] == data["config_sha256"]


def test_refusals_are_states_too(environ):
    refused = loopai_trainer.prepare(state=state_of(environ, train_input_model_name=None))["trainer"]
    assert refused["trainer_result"]["ok"] is False
    assert refused["trainer_last_error"]["code"] == "SETTINGS_MISSING"
    assert refused["trainer_result"]["error"] == refused["trainer_last_error"]
    prepared = loopai_trainer.prepare(state=state_of(environ))["trainer"]["trainer_result"]["data"]
    mismatch = loopai_trainer.run_prepared(prepared["config_path"], "0" * 64)["trainer"]
    assert mismatch["trainer_last_error"]["code"] == "CONFIG_HASH_MISMATCH"
    assert not os.path.exists(os.path.join(prepared["run_dir"], "launch"))


def test_what_was_not_foreseen_comes_back_in_the_common_shape(environ, monkeypatch, caplog):
    from loopai_trainer.operations import prepare as module

    def broken(*_):
        raise RuntimeError("surprise")

    monkeypatch.setattr(module, "prepare", broken)
    error = loopai_trainer.prepare(state=state_of(environ))["trainer"]["trainer_last_error"]
    assert (error["type"], error["code"], error["recoverable"]) == ("RuntimeError", "UNHANDLED_EXCEPTION", False)
    assert "surprise" in error["detail"]
    (logged,) = [record for record in caplog.records if record.name == "loopai_trainer.api"]
    assert logged.exc_info is not None


def test_guide_events_and_analysis_of_nothing(environ):
    guide = loopai_trainer.prefill_guide(state_of(environ), task_type="sft")
    assert (guide["ready"], guide["task_type"]) == (True, "sft")
    assert loopai_trainer.prefill_guide({"trainer": {}})["user_required_fields"]
    assert loopai_trainer.load_events("api_task", str(environ.root / "outputs")) == []
    analysis = loopai_trainer.analyze_results("api_task", str(environ.root / "outputs"))
    assert (analysis["ok"], analysis["data"], analysis["error"]["code"]) == (False, None, "NOT_FOUND")
    assert loopai_trainer.select_best_checkpoint("api_task", str(environ.root / "outputs")) is None


def test_shorter_keyword_names_are_settings(environ):
    state = state_of(environ, train_input_model_name="/nowhere")
    done = loopai_trainer.prepare(state=state, model_path=str(environ.model), task_type="sft", version_id="v2")[
        "trainer"
    ]
    assert done["trainer_last_error"] is None
    assert done["trainer_prefill_guide"]["settings"]["train_input_model_name"]["origin"] == "--model"
    wrong = loopai_trainer.prepare(state=state, model_pth="x")["trainer"]["trainer_last_error"]
    assert (wrong["code"], wrong["problems"][0]["code"]) == ("SETTINGS_INVALID", "SETTING_UNKNOWN")


def test_overrides_are_native_keys(environ):
    done = loopai_trainer.prepare(state=state_of(environ), overrides=["learning_rate=3.0e-6"])["trainer"]
    assert done["train_config"]["learning_rate"] == 3.0e-6


def test_a_prepared_state_names_its_files_and_what_was_checked(environ):
    done = loopai_trainer.prepare(state=state_of(environ), version_id="v1")["trainer"]
    run = done["trainer_output_dir"]
    assert done["trainer_task_id"] == done["trainer_version_id"] == "v1"
    assert done["train_output_config_path"] == os.path.join(run, "training_config.yaml")
    assert done["trainer_run_state_path"] == os.path.join(run, "run_state.json")
    assert (done["trainer_data_check_passed"], done["data_check_passed"]) == (True, True)
    assert done["trainer_data_check_result"]["train"]["usable"] == 6
    assert (done["trainer_missing_fields"], done["dataset_name"]) == ([], "data")
    assert done["train_output_swanlab_log_path"] is None
    assert "trainer_training_success" not in done


def test_a_refused_state_says_which_step_refused(environ):
    missing = loopai_trainer.prepare(state=state_of(environ, train_input_model_name=None))["trainer"]
    assert missing["trainer_missing_fields"] == ["train_input_model_name"]
    assert missing["trainer_prefill_guide"]["user_required_fields"] == ["train_input_model_name"]
    environ.write_rows([{"instruction": "a", "output": ""}])
    rows = loopai_trainer.prepare(state=state_of(environ))["trainer"]
    assert (rows["trainer_data_check_passed"], rows["data_check_passed"]) == (False, False)
    assert rows["trainer_data_check_error"] == rows["trainer_last_error"]["detail"]
    unresolved = loopai_trainer.prepare(state=["x"])["trainer"]
    assert unresolved["trainer_prefill_guide"]["error"]["code"] == unresolved["trainer_last_error"]["code"]


def test_a_log_that_cannot_be_read_is_told_as_an_event(environ):
    done = loopai_trainer.prepare(state=state_of(environ), version_id="v1")["trainer"]
    log = os.path.join(done["trainer_output_dir"], "events.jsonl")
    if os.path.exists(log):
        os.unlink(log)
    os.mkdir(log)
    (told,) = loopai_trainer.load_events("api_task", str(environ.root / "outputs"))
    assert (told["status"], told["context_id"], told["error"]["code"]) == ("failed", "api_task", "FILE_UNUSABLE")


def test_the_output_folder_is_found_as_the_command_line_finds_it(environ, monkeypatch):
    loopai_trainer.prepare(state=state_of(environ), version_id="v1")
    monkeypatch.chdir("/")
    monkeypatch.setenv("OUTPUT_DIR", str(environ.root / "outputs"))
    found = loopai_trainer.analyze_results("api_task", version_id="v1")
    assert found["ok"], found


def test_a_dev_run_answers_with_its_envelope(environ):
    refused = loopai_trainer.dev(str(environ.root / "nothing.yaml"))
    assert (refused["command"], refused["ok"], refused["error"]["code"]) == ("dev", False, "NOT_FOUND")
    data = loopai_trainer.prepare(state=state_of(environ), version_id="v1")["trainer"]["trainer_result"]["data"]
    environ.data.write_text('{"instruction": "a"}')  # the source, which nobody trains on, may change
    os.chmod(data["run_dir"] + "/prepared_data/dataset_info.json", 0o600)
    with open(data["run_dir"] + "/prepared_data/dataset_info.json", "a") as file:
        file.write("\n")
    found = loopai_trainer.dev(data["config_path"])
    assert (found["status"], found["error"]["code"]) == ("failed", "DEV_FAILED")
    assert [(check["name"], check["outcome"]) for check in found["data"]["checks"]] == [("inputs", "failed")]


@pytest.mark.parametrize("told", ["terminal", "signature", "", None])
def test_no_caller_calls_its_own_word_an_approval_at_a_terminal(environ, told):
    data = loopai_trainer.prepare(state=state_of(environ))["trainer"]["trainer_result"]["data"]
    refused = loopai_trainer.run_prepared(data["config_path"], data["config_sha256"], approved_via=told)["trainer"]
    assert refused["trainer_last_error"]["type"] == "UsageError"
    assert not os.path.exists(os.path.join(data["run_dir"], "approval.json"))


def test_paths_may_be_path_objects(environ, tmp_path):
    starter = tmp_path / "starter.yaml"
    starter.write_text("system:\n  api_port: 8000\n")
    state = state_of(environ, train_input_dataset_path=environ.data)
    done = loopai_trainer.prepare(state, config_path=starter, output_dir=tmp_path / "out", model_path=environ.model)[
        "trainer"
    ]
    assert done["trainer_last_error"] is None
    assert done["trainer_output_dir"].startswith(f"{tmp_path}/out/")
    assert done["trainer_prefill_guide"]["ready"] is True


SHA256 = "0" * 64


@pytest.mark.parametrize(
    ("name", "arguments", "wrong"),
    [
        ("prepare", {"config_path": 5}, "config_path"),
        ("prepare", {"overrides": "learning_rate=1"}, "overrides"),
        ("prepare", {"resume": 7}, "resume"),
        ("prepare", {"progress": "yes"}, "progress"),
        ("inspect_prepared_config", {"prepared_config_path": None}, "prepared_config_path"),
        ("inspect_prepared_config", {"prepared_config_path": "x", "refresh": "no"}, "refresh"),
        ("dev", {"prepared_config_path": "x", "limit_s": "5"}, "limit_s"),
        ("run_prepared", {"prepared_config_path": "x", "expected_config_sha256": None}, "expected_config_sha256"),
        (
            "run_prepared",
            {"prepared_config_path": "x", "expected_config_sha256": SHA256, "wait_timeout_s": "5"},
            "wait_timeout_s",
        ),
        ("run_prepared", {"prepared_config_path": "x", "expected_config_sha256": SHA256, "watch": 5}, "watch"),
        ("run", {"no_approval": True, "wait_timeout_s": []}, "wait_timeout_s"),
        ("recover", {"version": 5, "adopt": True}, "version"),
        ("recover", {"version": "v1", "adopt": "no"}, "adopt"),
        ("prefill_guide", {"config_path": 5}, "config_path"),
        ("load_events", {"output_dir": 5}, "output_dir"),
        ("load_events", {"version_id": 5}, "version_id"),
        ("analyze_results", {"task_id": 5}, "task_id"),
        ("get_configer_task_state_config", {"section_name": ["trainer"]}, "section_name"),
        ("update_configer_task_state_config", {"section_name": "trainer", "updates": {}, "task_id": 5}, "task_id"),
    ],
)
def test_an_argument_of_a_wrong_kind_is_named(environ, caplog, name, arguments, wrong):
    answer = getattr(loopai_trainer, name)(**arguments)
    found = answer[0] if isinstance(answer, list) else answer
    error = found["trainer"]["trainer_last_error"] if "trainer" in found else found["error"]
    assert (error["type"], error["code"]) == ("UsageError", "ARGUMENT_INVALID"), error
    assert error["detail"].startswith(f"{wrong} is {arguments[wrong]!r} (")
    assert [problem["field"] for problem in error["problems"]] == [wrong]
    assert not caplog.records, "it is foreseen"


def test_a_deleted_working_folder_is_told(environ, caplog):
    gone = environ.root / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    for state in (loopai_trainer.prepare({}), loopai_trainer.run_prepared("x", SHA256)):
        error = state["trainer"]["trainer_last_error"]
        assert (error["type"], error["code"]) == ("UsageError", "NO_WORKING_FOLDER"), error
    assert not caplog.records
    os.chdir(environ.root)


def test_recover_needs_exactly_one_wish_and_an_orphan(environ):
    data = loopai_trainer.prepare(state=state_of(environ), version_id="v1")["trainer"]["trainer_result"]["data"]
    refused = loopai_trainer.recover(data["run_dir"])["trainer"]["trainer_last_error"]
    assert (refused["code"], "--adopt or --terminate" in refused["detail"]) == ("USAGE", True)
    refused = loopai_trainer.recover("v1", terminate=True, output_dir=environ.root / "outputs")["trainer"]
    assert refused["trainer_last_error"]["code"] == "NOT_ORPHANED"
    unknown = loopai_trainer.recover("v2", adopt=True, task_id="api_task")["trainer"]
    assert unknown["trainer_last_error"]["code"] == "NOT_FOUND"
