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
        "inspect_prepared_config", "load_events", "prefill_guide", "prepare", "run",
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
    assert (told["status"], told["context_id"], told["error"]["code"]) == ("failed", "api_task", "UNHANDLED_EXCEPTION")


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
