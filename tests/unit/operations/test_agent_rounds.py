"""What the agent's nodes make of a trainer section, without a graph."""

import pytest

from loopai_trainer.operations import agent_rounds

REFUSED = {"type": "ApprovalError", "code": "APPROVAL_EXPIRED", "detail": "x"}


def envelope(error=None, **more):
    return {"ok": error is None, "status": "failed" if error else "prepared", "message": "said", "error": error, **more}


def test_a_round_begins_with_a_version_of_its_own_and_keeps_what_was_given():
    given = {"train_input_model_name": "m", "update_model_path": "/best"}
    section = agent_rounds.begun(given)
    assert {key: section[key] for key in given} == given
    assert len(section["trainer_version_id"]) == 36
    assert given == {"train_input_model_name": "m", "update_model_path": "/best"}
    assert agent_rounds.begun({"trainer_version_id": "v1"})["trainer_version_id"] == "v1"


def test_what_came_of_the_round_before_is_gone():
    before = {
        "train_input_model_name": "m",
        "trainer_persistent_worker": False,
        "update_model_path": "/best",
        "trainer_result": envelope(),
        "trainer_version_id": "v1",
        "trainer_output_dir": "/run",
        "train_output_config_path": "/c",
        "training_checkpoints": ["checkpoint-1"],
    }
    section = agent_rounds.begun(before)
    assert section.pop("trainer_version_id") != "v1"
    assert section == {
        "train_input_model_name": "m", "trainer_persistent_worker": False, "update_model_path": "/best",
    }  # fmt: skip


@pytest.mark.parametrize("told", [False, None, "", {"approved": False}, {"approved": False, "config_sha256": "a"}])
def test_a_no(told):
    assert agent_rounds.given_up(told)


@pytest.mark.parametrize(
    ("told", "sha256"),
    [
        (True, None),
        (1, None),
        (["a"], None),
        ({}, None),
        ({"approved": True}, None),
        ({"config_sha256": 3}, None),
        ("abc", "abc"),
        ({"config_sha256": "abc"}, "abc"),
        ({"config_sha256": "abc", "approved": True}, "abc"),
    ],
)
def test_what_is_a_hash(told, sha256):
    assert not agent_rounds.given_up(told)
    assert agent_rounds.approved_hash(told) == sha256


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (None, False),
        (REFUSED, True),
        ({**REFUSED, "type": "PlanChanged", "code": "CONFIG_HASH_MISMATCH"}, True),
        ({**REFUSED, "code": "APPROVAL_USED"}, False),
        ({**REFUSED, "type": "InputChanged"}, False),
    ],
)
def test_who_may_be_asked_again(error, again):
    assert agent_rounds.asks_again(envelope(error)) is again


def problem(where, severity="error"):
    return {"where": where, "severity": severity}


@pytest.mark.parametrize(
    ("error", "passed"),
    [
        (None, True),
        ({"type": "ConfigError", "problems": [problem("template"), problem("train", "warning")]}, True),
        ({"type": "ConfigError", "problems": [problem("validation")]}, False),
        ({"type": "ConfigError"}, True),
        ({"type": "DataError", "problems": []}, False),
        ({"type": "SettingsError", "problems": []}, False),
    ],
)
def test_data_may_be_good_where_the_configuration_is_not(error, passed):
    assert agent_rounds.data_passed(envelope(error)) is passed


def test_events_have_the_shape_of_the_specification():
    section = {"trainer_version_id": "v1", "trainer_result": envelope(REFUSED, data={"task_id": "t"})}
    found = agent_rounds.event(section, "data_check", "failed", "said", progress=0.5)
    assert found.pop("time").endswith("Z")
    assert found == {
        "current": "trainer", "node": "data_check", "status": "failed", "message": "said", "progress": 0.5,
        "progress_num": None, "total": None, "data": None, "context_id": "t", "version_id": "v1", "error": REFUSED,
    }  # fmt: skip


def test_each_percent_is_told_once():
    told = []
    tell = agent_rounds.ByteProgress({}, "data_check", told.append)
    for done in range(1001):
        tell("reading data", done, 1000)
    tell("hashing the model", 0, 0)
    assert [one["progress"] for one in told] == [percent / 100 for percent in range(101)] + [1.0]
    assert told[-1]["message"] == "hashing the model"


@pytest.mark.parametrize(
    ("data", "progress", "message"),
    [
        ({"status": "running", "phase": "training", "current_step": 3, "total_steps": 4}, 0.75, "step 3 of 4"),
        ({"status": "running", "phase": "loading", "current_step": None, "total_steps": None}, None, "loading"),
        ({"status": "queued", "phase": None, "current_step": 0, "total_steps": 0}, None, "queued"),
    ],
)
def test_steps_are_told(data, progress, message):
    told = []
    agent_rounds.StepProgress({}, "training_execution", told.append)(data)
    assert [(one["progress"], one["message"], one["status"]) for one in told] == [(progress, message, data["status"])]


@pytest.mark.parametrize(
    ("section", "waits", "status"),
    [
        ({}, False, "not_started"),
        ({"trainer_missing_fields": ["x"]}, False, "missing_fields"),
        ({"trainer_result": envelope()}, True, "awaiting_approval"),
        ({"trainer_result": envelope()}, False, "prepared"),
        ({"trainer_result": envelope({**REFUSED, "code": "NOT_APPROVED"})}, False, "not_approved"),
        ({"trainer_result": envelope(REFUSED)}, False, "failed"),
    ],
)
def test_how_it_ended(section, waits, status):
    assert agent_rounds.summary(section, waits=waits)["final_status"] == status


def test_only_files_that_exist_are_named(tmp_path):
    (tmp_path / "c.yaml").touch()
    section = {"train_output_config_path": str(tmp_path / "c.yaml"), "trainer_event_log_path": str(tmp_path / "none")}
    assert agent_rounds.summary(section, waits=False)["output_files"] == {"config": str(tmp_path / "c.yaml")}


def test_a_section_that_is_none_holds_no_settings():
    assert set(agent_rounds.begun("x")) == set(agent_rounds.begun([])) == {"trainer_version_id"}


def test_an_event_names_its_task_before_there_is_a_plan():
    assert agent_rounds.event({agent_rounds.CONTEXT: "task"}, "data_check", "running", "x")["context_id"] == "task"
    told = {agent_rounds.CONTEXT: "task", "trainer_result": envelope({"code": "X"}, data=None)}
    assert agent_rounds.event(told, "data_check", "failed", "x")["context_id"] == "task"
