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
        "__version__", "analyze_results", "inspect_prepared_config", "load_events", "prefill_guide", "prepare", "run",
        "run_prepared", "select_best_checkpoint",
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


def test_what_was_not_foreseen_comes_back_in_the_common_shape(environ, monkeypatch):
    from loopai_trainer.operations import prepare as module

    def broken(*_):
        raise RuntimeError("surprise")

    monkeypatch.setattr(module, "prepare", broken)
    error = loopai_trainer.prepare(state=state_of(environ))["trainer"]["trainer_last_error"]
    assert (error["code"], error["recoverable"]) == ("UNHANDLED_EXCEPTION", False)


def test_guide_events_and_analysis_of_nothing(environ):
    guide = loopai_trainer.prefill_guide(state_of(environ), task_type="sft")
    assert (guide["ready"], guide["task_type"]) == (True, "sft")
    assert loopai_trainer.prefill_guide({"trainer": {}})["user_required_fields"]
    assert loopai_trainer.load_events("api_task", str(environ.root / "outputs")) == []
    analysis = loopai_trainer.analyze_results("api_task", str(environ.root / "outputs"))
    assert (analysis["ok"], analysis["data"], analysis["error"]["code"]) == (False, None, "NOT_FOUND")
    assert loopai_trainer.select_best_checkpoint("api_task", str(environ.root / "outputs")) is None
