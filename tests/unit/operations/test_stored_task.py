"""LoopAI's task store as a source of settings, its rank among the others, and what prepare writes back there."""

import json
import sqlite3
from pathlib import Path

import pytest
from fakes.loopai import LoopAI, read_events

import loopai_trainer
from loopai_trainer.errors import DataError, SettingsError, TaskStoreError
from loopai_trainer.files import task_store
from loopai_trainer.operations import stored_task
from loopai_trainer.operations.prepare import prepare
from loopai_trainer.operations.sources import Request, resolve
from loopai_trainer.rules.wrapped import wrap

DATASET = "train_input_dataset_path"


@pytest.fixture
def database(tmp_path):
    return LoopAI(tmp_path / "loopai.sqlite")


def asked(database, keyword=(), state=None, config_path=None, environ=(), **store):
    """What prepare would go by for the task `demo`, whose stored state is `store`."""
    database.do("delete from taskmodel")
    database.add_task("demo", {"trainer": {}, **store})
    variables = {"DB_PATH": str(database.path), "TASK_ID": "demo", **dict(environ)}
    return resolve(Request(dict(keyword), variables, state=state, config_path=config_path))


def codes(resolved):
    return [problem.code for problem in resolved.warnings]


def test_the_store_ranks_below_an_explicit_state_and_above_starter_yaml(database, tmp_path):
    starter = tmp_path / "starter.yaml"
    starter.write_text(
        "default_states:\n  trainer:\n    train_input_model_name: /starter\n    CUDA_VISIBLE_DEVICES: '7'\n"
    )
    kept = {"train_input_model_name": wrap("/store"), "train_input_task_description": "stored"}
    state = {"trainer": {"train_input_task_description": "explicit"}}
    found = asked(database, state=state, config_path=str(starter), trainer=kept).settings
    assert found.text("train_input_model_name") == "/store"
    assert found.origin("train_input_model_name") == "task store trainer.train_input_model_name"
    assert found.text("train_input_task_description") == "explicit"
    assert found.text("CUDA_VISIBLE_DEVICES") == "7"
    over = asked(database, {"train_input_model_name": "/flag"}, trainer=kept).settings
    assert over.text("train_input_model_name") == "/flag"
    over = asked(database, environ={"TRAIN_MODEL_PATH": "/variable"}, trainer=kept).settings
    assert over.text("train_input_model_name") == "/variable"


def test_framework_and_stage_may_come_from_the_store(database):
    found = asked(
        database, trainer={"train_framework": "verl", "train_stage": "grpo", "verl_reward_kwargs": {"value": 3}}
    )
    assert found.backend.name == "verl"
    assert found.settings.values["verl_reward_kwargs"] == {"value": 3}


def test_no_other_section_is_read(database):
    found = asked(
        database,
        trainer={},
        system={"llamafactory_env_path": "/secret"},
        analyzer={"train_input_model_name": "/no"},
        constructor={"train_input_model_name": "/no", "api_key": "x"},
    )
    assert found.settings.values["llamafactory_env_path"] is None
    assert found.settings.values["train_input_model_name"] is None
    assert not any(value == "x" for value in found.settings.values.values())


def test_what_an_earlier_round_answered_is_no_setting(database):
    kept = {
        "trainer_version_id": "v1", "trainer_output_dir": "/runs/v1", "trainer_result": {"ok": True},
        "train_input_model_name": "/m",
    }  # fmt: skip
    for found in (asked(database, trainer=kept), asked(database, state={"trainer": kept})):
        assert found.settings.values["trainer_version_id"] is None
        assert found.settings.values["trainer_output_dir"] is None
        assert found.settings.text("train_input_model_name") == "/m"
        assert codes(found) == []
    named = resolve(Request({}, {}, state={"trainer": {"trainer_version_id": "mine"}}))
    assert named.settings.text("trainer_version_id") == "mine"


CONSTRUCTOR = {"mapping_results": {"output_file": "/c.jsonl"}}
OBTAINER = {"mapping_results": {"output_file": "/o.jsonl"}}
GRPO = {"train_framework": "verl", "train_stage": "grpo"}


@pytest.mark.parametrize("stage", [{}, GRPO])
def test_one_order_of_data_for_both_stages(database, stage):
    """The call's, the task's own, constructor's, obtainer's, an older round's (interface section 2)."""
    trainer = {**stage, DATASET: "/own.jsonl", "verl_source_dataset_path": "/older.jsonl"}
    sections = {"constructor": CONSTRUCTOR, "obtainer": OBTAINER}
    flag = asked(database, {DATASET: "/flag.jsonl"}, trainer=trainer, **sections)
    assert flag.settings.text(DATASET) == "/flag.jsonl"
    state = {"trainer": {DATASET: "/state.jsonl"}}
    assert asked(database, state=state, trainer=trainer, **sections).settings.text(DATASET) == "/state.jsonl"
    own = asked(database, trainer=trainer, **sections)
    assert own.settings.text(DATASET) == "/own.jsonl"
    assert own.settings.origin(DATASET) == f"task store trainer.{DATASET}"
    assert codes(own) == ["UPSTREAM_DATA_NOT_USED"]
    del trainer[DATASET]
    made = asked(database, trainer=trainer, **sections)
    assert made.settings.text(DATASET) == "/c.jsonl"
    assert made.settings.origin(DATASET) == "task store constructor.mapping_results.output_file"
    assert codes(made) == []
    made = asked(database, trainer=trainer, obtainer=OBTAINER, constructor={"mapping_results": {"output_file": ""}})
    assert made.settings.text(DATASET) == "/o.jsonl"
    above = asked(
        database, state={"obtainer": {"mapping_results": {"output_file": "/s.jsonl"}}}, trainer=trainer, **sections
    )
    assert above.settings.text(DATASET) == "/s.jsonl"


@pytest.mark.parametrize("path", ["/out/demo/trainer/v1/prepared_data/train.parquet", "/older.jsonl"])
def test_data_that_a_round_wrote_back_do_not_hide_newer_ones(database, path):
    trainer = {**GRPO, DATASET: path, "verl_source_dataset_path": "/older.jsonl"}
    assert asked(database, trainer=trainer, constructor=CONSTRUCTOR).settings.text(DATASET) == "/c.jsonl"
    assert asked(database, trainer=trainer).settings.text(DATASET) == path


def test_a_source_of_this_call_goes_before_a_stored_dataset(database):
    trainer = {**GRPO, DATASET: "/own.parquet"}
    found = asked(database, environ={"VERL_SOURCE_DATASET_PATH": "/call.jsonl"}, trainer=trainer).settings
    assert (found.text(DATASET), found.origin(DATASET)) == (
        "/call.jsonl",
        "environment variable VERL_SOURCE_DATASET_PATH",
    )
    both = {"VERL_SOURCE_DATASET_PATH": "/call.jsonl", "TRAIN_DATASET_PATH": "/call.parquet"}
    assert asked(database, environ=both, trainer=trainer).settings.text(DATASET) == "/call.parquet"


def test_a_registry_is_not_given_another_agents_data(database, tmp_path):
    (tmp_path / "mine.json").write_text("[]")
    registry = tmp_path / "dataset_info.json"
    registry.write_text(json.dumps({"mine": {"file_name": "mine.json"}}))
    found = asked(database, {"train_input_dataset_info": str(registry)}, constructor=CONSTRUCTOR)
    assert found.settings.text(DATASET) == str(tmp_path / "mine.json")


def test_a_task_without_a_store_is_warned_of(database):
    alone = resolve(Request({}, {"TASK_ID": "demo"}))
    assert codes(alone) == ["TASK_STORE_NOT_NAMED"]
    assert codes(resolve(Request({"task_id": "demo"}, {}))) == []
    assert codes(resolve(Request({}, {"DB_PATH": str(database.path)}))) == []


def test_a_task_that_the_store_does_not_have_is_warned_of(database):
    found = resolve(Request({"task_id": "typo", "db_path": str(database.path)}, {}))
    assert codes(found) == ["TASK_UNKNOWN"]
    assert "no results are written back" in found.warnings[0].message


def test_a_store_that_is_none_is_refused(tmp_path):
    with pytest.raises(TaskStoreError) as caught:
        resolve(Request({"task_id": "demo", "db_path": str(tmp_path / "none")}, {}))
    assert (caught.value.code, caught.value.exit_code) == ("TASK_STORE_MISSING", 3)
    assert not (tmp_path / "none").exists()


def test_the_path_is_noted_as_the_worker_needs_it(database, monkeypatch):
    database.add_task("demo", {"trainer": {}})
    monkeypatch.chdir(database.path.parent)
    found = resolve(Request({"task_id": "demo", "db_path": database.path.name}, {})).settings
    assert found.text("db_path") == str(database.path)
    assert found.origin("db_path") == "--db-path"


def test_devices_of_the_shell_go_first_and_that_is_said(database):
    environ = {"CUDA_VISIBLE_DEVICES": "3"}
    found = asked(database, environ=environ, trainer={"CUDA_VISIBLE_DEVICES": "0,1"})
    assert found.settings.text("CUDA_VISIBLE_DEVICES") == "3"
    assert codes(found) == ["DEVICES_FROM_SHELL"]
    assert "task store trainer" in found.warnings[0].message
    assert codes(asked(database, environ=environ, trainer={"CUDA_VISIBLE_DEVICES": "3"})) == []
    assert (
        codes(asked(database, {"CUDA_VISIBLE_DEVICES": "1"}, environ=environ, trainer={"CUDA_VISIBLE_DEVICES": "2"}))
        == []
    )


def test_old_names_are_read_and_said():
    found = resolve(
        Request({"dataset_path": "/d.json"}, {}, state={"trainer": {"model_name": "/m", "template_path": "t"}})
    )
    assert found.settings.text(DATASET) == "/d.json"
    assert found.settings.text("train_input_model_name") == "/m"
    assert found.settings.text("train_input_config_template_path") == "t"
    assert codes(found) == ["SETTING_OLD_NAME"] * 3
    with pytest.raises(SettingsError, match="no setting"):
        resolve(Request({"no_such_name": "x"}, {}))


@pytest.mark.parametrize(
    ("variable", "name", "value"),
    [
        ("VERL_ALGORITHM", "verl_algorithm", "grpo"),
        ("VERL_ENTRYPOINT", "verl_entrypoint", "verl.trainer.main_ppo"),
        ("VERL_MODEL_BACKEND", "verl_model_backend", "fsdp"),
        ("VERL_ROLLOUT_BACKEND", "verl_rollout_backend", "sglang"),
        ("VERL_SELECTION_METRIC", "verl_selection_metric", "val/x"),
        ("VERL_SELECTION_MODE", "verl_selection_mode", "min"),
        ("VERL_MAX_ACTOR_CKPT_TO_KEEP", "verl_max_actor_ckpt_to_keep", 3),
    ],
)
def test_variables_beyond_the_specification(variable, name, value):
    found = resolve(Request({"train_stage": "grpo"}, {variable: str(value)})).settings
    assert (found.values[name], found.origin(name)) == (value, f"environment variable {variable}")


def test_an_algorithm_that_nobody_trains_is_refused():
    with pytest.raises(SettingsError, match="must be one of grpo"):
        resolve(Request({"train_stage": "grpo"}, {"VERL_ALGORITHM": "ppo"}))


@pytest.fixture
def stored(place, database):
    database.add_task("default", {"trainer": {}})
    database.add_task("demo", {"trainer": {"somebody": 1}, "constructor": CONSTRUCTOR})
    place.environ["DB_PATH"] = str(database.path)
    return place


def test_prepare_writes_its_fields_back(stored, database):
    answer = stored.prepare(task_id="demo")
    trainer = database.trainer("demo")
    assert trainer["trainer_version_id"] == trainer["trainer_task_id"] == "v1"
    assert trainer["trainer_data_check_passed"] is trainer["data_check_passed"] is True
    assert trainer["train_output_config_path"] == answer.data["config_path"]
    assert trainer["trainer_result"]["data"]["config_sha256"] == answer.data["config_sha256"]
    assert trainer["train_config"]["learning_rate"] == 1e-4
    assert trainer["dataset_name"] == "data"
    assert trainer["trainer_prefill_guide"]["ready"] is True
    assert trainer["trainer_event_log_path"] == str(stored.root / "outputs" / "demo" / "trainer.pkl")
    assert trainer["somebody"] == 1
    assert DATASET not in trainer
    assert database.state("demo")["constructor"] == CONSTRUCTOR
    assert database.runtimes("demo") == []  # prepared has no row
    noted = json.loads(Path(answer.data["run_dir"], "plan.json").read_text())["settings"]
    assert noted["db_path"] == {"value": str(database.path), "origin": "environment variable DB_PATH"}
    events = read_events(stored.root / "outputs" / "demo" / "trainer.pkl")
    assert [(event.node, event.status) for event in events] == [
        ("data_check", "prepared"),
        ("config_generation", "prepared"),
    ]
    again = stored.prepare(task_id="demo", trainer_version_id="v2")
    assert again.data["trainer_version_id"] == database.trainer("demo")["trainer_version_id"] == "v2"


def test_an_earlier_versions_outcome_does_not_stand_beside_a_new_version(stored, database):
    earlier = {"trainer_training_success": True, "current_training_status": "completed", "update_model_path": "/best"}
    database.do("update taskmodel set state=? where task_id='demo'", json.dumps({"trainer": earlier}))
    stored.prepare(task_id="demo")
    trainer = database.trainer("demo")
    assert (trainer["trainer_version_id"], trainer["update_model_path"]) == ("v1", "/best")
    assert trainer["trainer_training_success"] is trainer["current_training_status"] is None


def test_why_prepare_refused_is_written_back(stored, database):
    stored.write_rows([{"instruction": "only a question", "output": ""}])
    with pytest.raises(DataError):
        stored.prepare(task_id="demo")
    trainer = database.trainer("demo")
    assert trainer["trainer_data_check_passed"] is False
    assert trainer["trainer_last_error"]["code"] == "DATA_INVALID"
    assert trainer["trainer_result"]["ok"] is False
    with pytest.raises(SettingsError):
        stored.prepare(task_id="demo", train_input_model_name=None)
    trainer = database.trainer("demo")
    assert trainer["trainer_missing_fields"] == ["train_input_model_name"]
    assert trainer["trainer_prefill_guide"]["user_required_fields"] == ["train_input_model_name"]


def test_a_task_that_nobody_named_is_not_written(stored, database):
    before = database.state("default")
    stored.prepare()
    assert database.state("default") == before


def test_a_store_that_cannot_be_written_is_a_warning(stored, database, monkeypatch):
    def busy(*_, **__):
        raise TaskStoreError("it is held", code="TASK_STORE_BUSY", hint="wait")

    monkeypatch.setattr(task_store.TaskStore, "write", busy)
    answer = stored.prepare(task_id="demo")
    assert [one["code"] for one in answer.data["warnings"]].count("TASK_STORE_NOT_WRITTEN") == 1
    stored.write_rows([{"instruction": "only a question", "output": ""}])
    with pytest.raises(DataError) as caught:
        stored.prepare(task_id="demo", trainer_version_id="v2")
    assert caught.value.code == "DATA_INVALID"


def test_a_store_that_is_held_is_waited_for_once_and_shortly(stored, tmp_path, monkeypatch):
    held = LoopAI(tmp_path / "held.sqlite", wal=False)
    held.add_task("demo", {"trainer": {}})
    stored.environ["DB_PATH"] = str(held.path)
    for name, value in stored.environ.items():
        monkeypatch.setenv(name, value)
    assert stored_task._WAIT_S <= 5.0  # of a person who waits for `prepare`
    monkeypatch.setattr(stored_task, "_WAIT_S", 0.05)
    waits = []
    connect = sqlite3.connect
    monkeypatch.setattr(
        task_store.sqlite3, "connect", lambda *words, **more: waits.append(more["timeout"]) or connect(*words, **more)
    )
    holder = connect(held.path, isolation_level=None)
    holder.execute("begin exclusive")
    told = loopai_trainer.prepare({"trainer": {}}, task_id="demo")["trainer"]
    holder.execute("rollback")
    holder.close()
    error = told["trainer_last_error"]
    assert (error["code"], waits) == ("TASK_STORE_BUSY", [0.05])
    assert "is held by another writer, also after 0.05 s" in error["detail"]
    assert told["trainer_prefill_guide"]["error"]["code"] == "TASK_STORE_BUSY"


def test_secrets_do_not_reach_the_store(stored, database):
    stored.environ["MY_API_TOKEN"] = "abcdef0123456789abcdef"
    request = stored.request(task_id="demo", train_input_task_description="answer abcdef0123456789abcdef")
    with pytest.raises(SettingsError, match="secret"):
        prepare(request)
    assert "abcdef0123456789abcdef" not in json.dumps(database.state("demo"))


SPECIFIED = """
TASK_ID DB_PATH VERSION_ID OUTPUT_DIR TRAINER_OUTPUT_DIR TRAIN_FRAMEWORK TRAIN_STAGE TRAIN_DATASET_PATH TRAIN_EVAL_DATASET_PATH
VERL_SOURCE_DATASET_PATH VERL_SOURCE_EVAL_DATASET_PATH VERL_DATA_ADAPTER VERL_DATA_SOURCE VERL_VALIDATION_RATIO VERL_SPLIT_SEED
TRAIN_MODEL_PATH TRAIN_TASK_DESCRIPTION TRAIN_CONFIG_TEMPLATE_PATH LLAMAFACTORY_DIR LLAMAFACTORY_ENV_PATH VERL_DIR VERL_ENV_PATH
VERL_CONDA_ENV VERL_REWARD_MODE VERL_REWARD_PRESET VERL_REWARD_KWARGS VERL_REWARD_FUNCTION_PATH VERL_REWARD_FUNCTION_NAME
VERL_INHERIT_PREVIOUS_CONFIG VERL_USE_PREVIOUS_BEST_MODEL VERL_MULTI_ROUND_ENABLED TRAINER_PERSISTENT_WORKER CUDA_VISIBLE_DEVICES
"""


def test_every_variable_of_the_specification_is_a_setting():
    fields = [field for stage in ("sft", "grpo") for field in resolve(Request({"train_stage": stage}, {})).fields]
    assert set(SPECIFIED.split()) - {name for field in fields for name in field.env} == set()
