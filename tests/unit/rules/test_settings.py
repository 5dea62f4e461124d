import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.errors import SettingsError
from loopai_trainer.records import Field
from loopai_trainer.rules import settings
from loopai_trainer.rules.settings import GENERAL, Layer, require, resolve

LAYERS = [
    Layer("state.trainer", {"output_dir": "from-trainer"}),
    Layer("state.system", {"output_dir": "from-system", "task_id": "t-system"}),
]


def test_the_order_of_sources_and_their_origins():
    environ = {"OUTPUT_DIR": "from-env"}
    keyword = {"output_dir": "from-flag"}
    for left_out, expected, origin in (
        (None, "from-flag", "--output-dir"),
        ("keyword", "from-env", "environment variable OUTPUT_DIR"),
        ("environ", "from-trainer", "state.trainer.output_dir"),
        ("trainer", "from-system", "state.system.output_dir"),
        ("all", "./outputs", "default"),
    ):
        if left_out == "keyword":
            keyword = {}
        if left_out == "environ":
            environ = {}
        layers = {"trainer": LAYERS[1:], "all": []}.get(left_out or "", LAYERS)
        found = resolve(GENERAL, keyword, environ, layers)
        assert (found.text("output_dir"), found.origin("output_dir")) == (expected, origin)


def test_aliases_of_a_state_count():
    found = resolve(GENERAL, {}, {}, [Layer("state.trainer", {"model_path": "/m", "version_id": "v9"})])
    assert found.text("train_input_model_name") == "/m"
    assert found.text("trainer_version_id") == "v9"
    assert found.origin("trainer_version_id") == "state.trainer.version_id"


@pytest.mark.parametrize("empty", ["", "  ", None])
def test_empty_values_and_placeholder_paths_count_as_missing(empty):
    layers = [Layer("state.trainer", {"task_id": empty, "train_input_dataset_path": "/path/to/data.json"})]
    found = resolve(GENERAL, {}, {}, layers)
    assert found.origin("task_id") == "default"
    assert found.values["train_input_dataset_path"] is None


def test_all_missing_required_settings_are_named_at_once():
    with pytest.raises(SettingsError) as caught:
        require(resolve(GENERAL, {}, {}, []), GENERAL)
    assert caught.value.code == "SETTINGS_MISSING"
    assert {problem.field for problem in caught.value.problems} >= {
        "train_input_dataset_path",
        "train_input_model_name",
        "train_input_task_description",
    }
    assert "--dataset VALUE" in caught.value.problems[0].hint + caught.value.problems[1].hint


def test_values_that_are_not_allowed_are_refused_with_their_origin():
    keyword = {"bad_rows": "maybe"}
    environ = {"TRAINER_PERSISTENT_WORKER": "perhaps"}
    layers = [Layer("state.trainer", {"split_seed": "many", "train_input_dataset_path": ["a"]})]
    with pytest.raises(SettingsError) as caught:
        resolve(GENERAL, keyword, environ, layers)
    assert {(problem.field, problem.origin) for problem in caught.value.problems} == {
        ("bad_rows", "--bad-rows"),
        ("trainer_persistent_worker", "environment variable TRAINER_PERSISTENT_WORKER"),
        ("split_seed", "state.trainer.split_seed"),
        ("train_input_dataset_path", "state.trainer.train_input_dataset_path"),
    }


def test_an_unknown_setting_is_refused_with_a_suggestion():
    with pytest.raises(SettingsError) as caught:
        resolve(GENERAL, {"split_sed": 1}, {}, [])
    assert "split_seed" in caught.value.hint


@given(
    st.sampled_from(["text", "path", "bool", "int", "number"]),
    st.none() | st.text() | st.integers() | st.floats() | st.lists(st.integers()) | st.binary(),
)
def test_any_value_is_taken_or_refused_but_never_breaks(kind, value):
    field = Field("x", "help", kind=kind)
    try:
        found = resolve([field], {"x": value}, {}, [])
    except SettingsError as error:
        assert error.problems[0].field == "x"
    else:
        kinds = {"text": str, "path": str, "bool": bool, "int": int, "number": float}
        assert found.values["x"] is None or type(found.values["x"]) is kinds[kind]


def test_booleans_and_numbers_from_text():
    fields = [Field("b", "", kind="bool"), Field("i", "", kind="int"), Field("n", "", kind="number")]
    assert resolve(fields, {"b": "off", "i": "7", "n": "1e-3"}, {}, []).values == {"b": False, "i": 7, "n": 0.001}
    for bad in ({"b": "2"}, {"i": "7.5"}, {"i": True}, {"i": 2.5}, {"n": "x"}, {"n": True}):
        with pytest.raises(SettingsError):
            resolve(fields, bad, {}, [])


def test_placeholders():
    assert settings.is_placeholder("/path/to/model")
    assert not settings.is_placeholder("/data/path/to")


def test_an_object_is_taken_from_a_state_as_it_is_and_as_text_from_elsewhere():
    field = Field("j", "", env=("J",), kind="json")
    layer = settings.Layer("state.trainer", {"j": {"a": 1}})
    assert resolve([field], {}, {}, [layer]).values == {"j": {"a": 1}}
    assert resolve([field], {}, {"J": '{"a": 2}'}, [layer]).values == {"j": '{"a": 2}'}
    with pytest.raises(SettingsError, match="JSON object"):
        resolve([field], {"j": [1]}, {}, [])


def test_every_source_of_a_setting_with_its_rank():
    (field,) = [field for field in GENERAL if field.name == "train_input_model_name"]
    layers = [
        Layer("state.trainer", {"model_path": "/a", "model_name": "/b"}),
        Layer("store", {}),
        Layer("last", {field.name: "/c"}),
    ]
    found = list(settings.given(field, {"model_path": "/keyword"}, {"TRAIN_MODEL_PATH": "/variable"}, layers))
    assert [(one.rank, one.value) for one in found] == [
        (0, "/keyword"),
        (1, "/variable"),
        (2, "/a"),
        (2, "/b"),
        (4, "/c"),
    ]
    assert [one.origin for one in found] == [
        "--model", "environment variable TRAIN_MODEL_PATH", "state.trainer.model_path", "state.trainer.model_name",
        "last.train_input_model_name",
    ]  # fmt: skip


def test_old_names_are_warned_of_where_they_stand():
    layers = [
        Layer("state.trainer", {"model_name": "/b", "dataset_path": "  "}),
        Layer("store", {"task_description": "x"}),
    ]
    found = list(settings.old_names(GENERAL, {"template_path": "t", "model_path": "/fine"}, {}, layers))
    assert [(one.field, one.code) for one in found] == [
        ("train_input_model_name", "SETTING_OLD_NAME"),
        ("train_input_task_description", "SETTING_OLD_NAME"),
        ("train_input_config_template_path", "SETTING_OLD_NAME"),
    ]
    assert "'model_name' (from state.trainer)" in found[0].message
    assert "a keyword argument" in found[2].message


def test_an_old_name_that_another_value_goes_before_is_not_said_to_be_read():
    layers = [
        Layer("state.trainer", {"model_name": "/old", "train_input_model_name": "/new"}),
        Layer("b", {"model_name": "/c"}),
    ]
    first, second = settings.old_names(GENERAL, {}, {}, layers)
    for one in (first, second):
        assert "it was not read, since state.trainer.train_input_model_name goes before it" in one.message
    (found,) = settings.old_names(GENERAL, {"model_name": "/old"}, {"TRAIN_MODEL_PATH": "/env"}, [])
    assert "it was read as that" in found.message
    (found,) = settings.old_names(GENERAL, {}, {"TRAIN_MODEL_PATH": "/env"}, layers[1:])
    assert "since environment variable TRAIN_MODEL_PATH goes before it" in found.message
